"""The pytest plugin: `moorage_worker`, a real server, and `moorage_runtime`, everything in the test's own loop.

Loading it imports nothing but pytest: it is registered wherever Moorage is installed, also with its clients alone.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from .testing import WorkerOptions, WorkerServer

_MARKER = (
    "moorage(dir=None, *, env=None, vars=None, config=None, r2='memory', **settings): which Worker moorage_worker "
    "and moorage_runtime run, and how"
)
_CONFIGURATIONS = ("wrangler.json", "wrangler.jsonc", "wrangler.toml")
_OPTIONS = ("dir", "env", "vars", "config", "r2")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addini("moorage_dir", "folder of the Worker under test, relative to the root of the tests", default="")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", _MARKER)
    if config.getini("moorage_dir") and _served():
        from ..workers import finder

        finder.install()  # test modules may import `workers`, and with it the Worker's own modules
    if config.pluginmanager.hasplugin("asyncio"):
        from . import pytest_runtime

        # The fixture's loop must be the one that tests run on.
        scope = config.getini("asyncio_default_test_loop_scope") or "function"
        config.pluginmanager.register(pytest_runtime.fixtures(scope), "moorage-runtime")
    else:
        config.pluginmanager.register(_WithoutAsyncio(), "moorage-runtime")


def _served() -> bool:
    from importlib.util import find_spec

    try:
        return all(find_spec(name) for name in ("uvicorn", "starlette", "greenlet"))
    except ImportError:
        return False


@pytest.fixture
def moorage_options() -> Mapping[str, Any]:
    """Override this to say which Worker is tested: `dir`, `env`, `vars`, `config`, `r2` and host settings."""
    return {}


def options_of(request: pytest.FixtureRequest, given: Mapping[str, Any]) -> "WorkerOptions":
    """The options for one test: the marker `moorage` wins over the fixture `moorage_options`, and both over the ini
    option. Without a folder it is the nearest one above the test with a wrangler configuration.

    A relative `dir` is looked for beside the test's file and then below the root of the tests. Fails the test when
    Moorage is installed without what serves, when there is no such folder, and for an option that does not exist.
    """
    if not _served():
        pytest.fail("moorage_worker and moorage_runtime need pip install 'moorage[server]'", pytrace=False)
    from .settings import HostSettings
    from .testing import WorkerOptions

    merged: dict[str, Any] = dict(given)
    for marker in reversed(list(request.node.iter_markers("moorage"))):
        if marker.args:
            merged["dir"] = marker.args[0]
        merged |= marker.kwargs
    unknown = sorted(set(merged) - set(_OPTIONS) - set(HostSettings.__slots__))
    if unknown:
        pytest.fail(f"moorage: there is no option {unknown[0]!r}; there are {', '.join(_OPTIONS)}", pytrace=False)
    here, root = request.path.parent, request.config.rootpath
    wanted = merged.pop("dir", None) or request.config.getini("moorage_dir")
    if wanted:
        several = wanted if isinstance(wanted, list | tuple) else [wanted]
        folders = tuple(_folder(Path(folder), here, root) for folder in several)
    else:
        folders = (_nearest(here, root),)
    config = merged.pop("config", None)
    return WorkerOptions(
        dir=folders,
        env=merged.pop("env", None),
        vars=dict(merged.pop("vars", None) or {}),
        config=None if config is None else _file(Path(config), folders[0], here),
        r2=merged.pop("r2", "memory"),
        settings=merged,
    )


def _folder(wanted: Path, here: Path, root: Path) -> Path:
    tried = [base / wanted for base in (here, root)]
    for folder in tried:
        if folder.is_dir():
            return folder.resolve()
    pytest.fail(f"moorage: there is no folder {tried[0]}, nor {tried[1]}", pytrace=False)


def _file(wanted: Path, *bases: Path) -> Path:
    for base in bases:
        if (base / wanted).is_file():
            return (base / wanted).resolve()
    pytest.fail(f"moorage: there is no configuration {bases[0] / wanted}", pytrace=False)


def _nearest(here: Path, root: Path) -> Path:
    for folder in (here, *here.parents):
        if any((folder / name).is_file() for name in _CONFIGURATIONS):
            return folder
        if folder == root:
            break
    pytest.fail(
        f"moorage: no wrangler.toml, .json or .jsonc between {here} and {root}; name the Worker's folder with the "
        "ini option moorage_dir, or with @pytest.mark.moorage(dir=...)",
        pytrace=False,
    )


def both_at_once(request: pytest.FixtureRequest) -> None:
    """Fails a test that asks for both fixtures: a process runs the objects of one loop at a time."""
    if {"moorage_worker", "moorage_runtime"} <= set(request.fixturenames):
        pytest.fail(
            "moorage: use moorage_worker or moorage_runtime, not both: `await moorage_runtime.serve()` serves the "
            "same Worker over HTTP",
            pytrace=False,
        )


@pytest.fixture
def moorage_worker(request: pytest.FixtureRequest, moorage_options: Mapping[str, Any]) -> "Iterator[WorkerServer]":
    """The Worker, served for real on a free port of loopback, with empty storage: `.url`, `.fetch(path)`."""
    both_at_once(request)
    options = options_of(request, moorage_options)
    from .testing import WorkerServer

    with WorkerServer(options) as server:
        yield server


class _WithoutAsyncio:
    """Stands in for the asynchronous fixture."""

    @pytest.fixture
    def moorage_runtime(self) -> None:
        """Needs pytest-asyncio."""
        pytest.fail("moorage_runtime runs in the test's event loop: pip install pytest-asyncio", pytrace=False)

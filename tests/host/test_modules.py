"""Workers of one process have modules of their own, whatever they are called."""

import builtins
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from moorage.durable_objects.runtime.web import Request
from moorage.wrangler_compat.host import modules
from moorage.wrangler_compat.host.bindings import BindingError
from moorage.wrangler_compat.host.host import Host
from moorage.wrangler_compat.host.settings import HostSettings

WRANGLER = """
name = "{name}"
main = "src/entry.py"
compatibility_date = "2026-07-01"
compatibility_flags = ["python_workers"]
"""
ENTRY = """
import helper
from parts import first
from workers import Response, WorkerEntrypoint

class Default(WorkerEntrypoint):
    async def fetch(self, request):
        import entry, helper as again, later, vendored
        from parts.second import NAME as second
        assert again is helper
        assert entry.Default is Default
        return Response(" ".join([helper.NAME, first.NAME, later.NAME, second, vendored.NAME, later.helper.NAME]))
"""


def lay(folder: Path, name: str) -> Path:
    src = folder / "src"
    (src / "parts").mkdir(parents=True)
    (folder / "python_modules").mkdir()
    (folder / "wrangler.toml").write_text(WRANGLER.format(name=name))
    (src / "entry.py").write_text(ENTRY)
    (src / "helper.py").write_text(f"NAME = {name!r}\n")
    (src / "later.py").write_text(f"import helper\nNAME = {name!r} + '.later'\n")
    (src / "parts" / "__init__.py").write_text("")
    (src / "parts" / "first.py").write_text("from helper import NAME\n")
    (src / "parts" / "second.py").write_text("from . import first\nNAME = first.NAME + '.second'\n")
    (folder / "python_modules" / "vendored.py").write_text(f"NAME = {name!r} + '.vendored'\n")
    return folder


def said(name: str) -> str:
    return f"{name} {name} {name}.later {name}.second {name}.vendored {name}"


@pytest.fixture(autouse=True)
def nothing_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hosts of other tests may not have come to an end of their own."""
    monkeypatch.setattr(modules, "_loaded", [])
    monkeypatch.setattr(builtins, "__import__", modules._import_before)
    for name in ("entry", "helper", "later", "parts", "parts.first", "parts.second"):
        monkeypatch.delitem(sys.modules, name, raising=False)


@pytest.fixture
async def serve(tmp_path: Path) -> AsyncIterator[Callable[..., Host]]:
    made: list[Host] = []

    def host(*folders: Path) -> Host:
        made.append(Host(list(folders), HostSettings(state=tmp_path / "state", r2="memory"), environ={}))
        return made[-1]

    before = set(sys.modules)
    yield host
    for each in made:
        await each.close()
    for name in set(sys.modules) - before:
        if name == "vendored":
            del sys.modules[name]


async def answers(host: Host) -> list[str]:
    return [await (await host.fetch(worker, Request("http://w/"))).text() for worker in host.workers]


async def test_modules_of_the_same_name(serve: Callable[..., Host], tmp_path: Path) -> None:
    imports, paths = builtins.__import__, list(sys.path)
    host = serve(*(lay(tmp_path / name, name) for name in ("a", "b", "c")))
    await host.start()
    for _ in range(2):
        assert await answers(host) == [said("a"), said("b"), said("c")]
    (tmp_path / "b" / "src" / "helper.py").write_text("NAME = 'new'\n")
    await host.reload()
    assert await answers(host) == [said("a"), said("b").replace("b", "new").replace("new.later", "b.later")
                                   .replace("new.vendored", "b.vendored"), said("c")]  # fmt: skip
    await host.close()
    assert builtins.__import__ is imports
    assert sys.path == paths
    for name in ("entry", "helper", "later", "parts", "parts.first"):
        assert name not in sys.modules


async def test_one_worker_leaves_import_as_it_is(serve: Callable[..., Host], tmp_path: Path) -> None:
    imports = builtins.__import__
    host = serve(lay(tmp_path / "a", "a"))
    await host.start()
    assert builtins.__import__ is imports
    assert await answers(host) == [said("a")]


async def test_modules_of_a_load_that_failed_are_read_again(serve: Callable[..., Host], tmp_path: Path) -> None:
    folder = lay(tmp_path / "a", "a")
    entry = folder / "src" / "entry.py"
    host = serve(folder)
    await host.start()
    entry.write_text(ENTRY + "\nraise ValueError('not yet')\n")
    with pytest.raises(ValueError, match="not yet"):
        await host.reload()
    assert "helper" not in sys.modules
    (folder / "src" / "helper.py").write_text("NAME = 'mended'\n")
    entry.write_text(ENTRY)
    await host.reload()
    assert (await answers(host))[0].startswith("mended mended a.later")


async def test_modules_of_a_worker_that_was_refused_are_read_again(
    serve: Callable[..., Host], tmp_path: Path
) -> None:
    folder = lay(tmp_path / "a", "a")
    config = folder / "wrangler.toml"
    bound = '[[durable_objects.bindings]]\nname = "C"\nclass_name = "Counter"\n'
    config.write_text(config.read_text() + bound)
    host = serve(folder)
    with pytest.raises(BindingError, match="the class Counter is bound"):
        await host.start()
    (folder / "src" / "helper.py").write_text("NAME = 'mended'\n")
    config.write_text(config.read_text().replace(bound, ""))
    await host.reload()
    assert (await answers(host))[0].startswith("mended mended a.later")


async def test_a_main_that_is_called_as_an_installed_module_hides_nothing(
    serve: Callable[..., Host], tmp_path: Path
) -> None:
    folder = lay(tmp_path / "a", "a")
    (folder / "src" / "entry.py").rename(folder / "src" / "click.py")
    config = folder / "wrangler.toml"
    config.write_text(config.read_text().replace("entry.py", "click.py"))
    text = (folder / "src" / "click.py").read_text().replace("import entry, helper", "import helper")
    (folder / "src" / "click.py").write_text(text.replace("        assert entry.Default is Default\n", ""))
    import click

    host = serve(folder, lay(tmp_path / "b", "b"))
    await host.start()
    assert await answers(host) == [said("a"), said("b")]
    assert sys.modules["click"] is click

"""Imports a Worker's `main`: its folder is the import root, and what it imports as `workers` is ours."""

import importlib
import importlib.util
import linecache
import site
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

from ..config import WorkerConfig
from ..workers import finder


class LoadError(Exception):
    """The Worker cannot be loaded; the cause, if there is one, is the exception that its own code raised."""


VENDORED = ("python_modules", "vendor")
# From this compatibility date on `.pth` files of vendored packages are obeyed (python-workers-api 2).
PTH_DATE = "2026-05-26"


def import_paths(config: WorkerConfig) -> list[str]:
    """Folders that go in front of `sys.path`: the folder of `main`, then the vendored packages beside the project."""
    root = config.import_root
    paths = [] if root is None else [str(root)]
    for folder in dict.fromkeys((config.folder, *([] if root is None else [root]))):
        paths += [str(folder / name) for name in VENDORED if (folder / name).is_dir()]
    return paths


def load_main(config: WorkerConfig) -> ModuleType:
    """Imports the module that `main` names, fresh, and returns it.

    Raises LoadError when there is no `main`, it is no Python file, or the module calls `exit()`; whatever else the
    module raises leaves as it is.
    """
    main = config.main
    if main is None:
        raise LoadError(f"{config.path or config.folder}: `main` is missing; it names the Worker's Python file")
    if main.suffix != ".py":
        raise LoadError(f"main = {main.name!r} is no Python file: Moorage runs Python Workers")
    if not main.is_file():
        raise LoadError(f"main = {str(main)!r} does not exist")
    finder.install(config.import_root)
    paths = import_paths(config)
    for path in reversed(paths):
        if path not in sys.path:
            sys.path.insert(0, path)
    if config.compatibility_date is not None and config.compatibility_date >= PTH_DATE:
        for path in paths:
            if Path(path).name in VENDORED:
                site.addsitedir(path)
    importlib.invalidate_caches()
    linecache.checkcache()
    return _import(main)


def _import(main: Path) -> ModuleType:
    name = main.stem
    known = sys.modules.get(name)
    if known is not None and _file_of(known) != main:
        # The name belongs to somebody else (a module of the environment, another Worker): import it under its own.
        name = f"{name}@{main.parent}"
    spec = importlib.util.spec_from_file_location(name, main)
    if spec is None or spec.loader is None:
        raise LoadError(f"main = {str(main)!r} cannot be imported")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except SystemExit as error:
        sys.modules.pop(name, None)
        raise LoadError(f"main = {str(main)!r} called exit() while it was imported (SystemExit: {error})") from error
    except BaseException:
        sys.modules.pop(name, None)
        raise
    return module


def _file_of(module: ModuleType) -> Path | None:
    file = getattr(module, "__file__", None)
    return None if file is None else Path(file).resolve()


def forget(config: WorkerConfig) -> None:
    """Drops the Worker's own modules, so that the next load reads its files again. Installed packages stay."""
    root = config.import_root
    if root is None:
        return
    for name, module in list(sys.modules.items()):
        file = _file_of(module)
        if file is None or not file.is_relative_to(root):
            continue
        inside = file.relative_to(root).parts
        if any(part in {".venv", "venv", "site-packages", "node_modules"} for part in inside):
            continue
        if name.startswith(("moorage.", "tests.")) or name == "__main__":
            continue
        del sys.modules[name]


@contextmanager
def imported(config: WorkerConfig) -> Iterator[ModuleType]:
    """The Worker's main module, for tests: its modules and import paths are gone afterwards."""
    before = list(sys.path)
    try:
        yield load_main(config)
    finally:
        forget(config)
        sys.path[:] = before

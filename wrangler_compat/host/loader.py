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
from . import modules
from .modules import VENDORED, WorkerModules, import_paths


class LoadError(Exception):
    """The Worker cannot be loaded; the cause, if there is one, is the exception that its own code raised."""


# From this compatibility date on `.pth` files of vendored packages are obeyed (python-workers-api 2).
PTH_DATE = "2026-05-26"


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
    forget(config)  # of a load that came to nothing behind the import: its files may have been changed since
    finder.install(config.import_root)
    paths = import_paths(config)
    own = modules.add(config)
    for path in reversed(paths):
        if path not in sys.path:
            sys.path.insert(0, path)
    if config.compatibility_date is not None and config.compatibility_date >= PTH_DATE:
        for path in paths:
            if Path(path).name in VENDORED:
                site.addsitedir(path)
    importlib.invalidate_caches()
    linecache.checkcache()
    try:
        return _import(main, own)
    except BaseException:
        forget(config)  # what it had imported before may be changed when it is loaded again
        raise


def _import(main: Path, own: WorkerModules) -> ModuleType:
    name = main.stem
    if modules.taken(name, main):
        # The name belongs to somebody else (a module of the environment, another Worker): import it under its own.
        name = f"{name}@{main.parent}"
    spec = importlib.util.spec_from_file_location(name, main)
    if spec is None or spec.loader is None:
        raise LoadError(f"main = {str(main)!r} cannot be imported")
    module = importlib.util.module_from_spec(spec)
    if name == main.stem or modules.of_a_worker(main.stem):
        own.own[main.stem] = module
    sys.modules[name] = module
    try:
        with own.in_place():
            spec.loader.exec_module(module)
    except SystemExit as error:
        sys.modules.pop(name, None)
        raise LoadError(f"main = {str(main)!r} called exit() while it was imported (SystemExit: {error})") from error
    except BaseException:
        sys.modules.pop(name, None)
        raise
    return module


def forget(config: WorkerConfig) -> None:
    """Drops the Worker's own modules, so that the next load reads its files again. Installed packages stay."""
    modules.drop(config)


@contextmanager
def imported(config: WorkerConfig) -> Iterator[ModuleType]:
    """The Worker's main module, for tests: its modules and import paths are gone afterwards."""
    before = list(sys.path)
    try:
        yield load_main(config)
    finally:
        forget(config)
        sys.path[:] = before

"""Each Worker of a process has modules of its own, although Python knows one table of modules for all.

Two Workers may both have a `helper.py`. While one of them is loaded, and at every `import` of its code later on, the
modules of the others are out of sight and its own are in their place. What escapes: `importlib.import_module` and
look-ups in `sys.modules` by name, which find the module of the Worker that was loaded first.
"""

import builtins
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

from ..config import WorkerConfig

VENDORED = ("python_modules", "vendor")
_FOREIGN = ("/.venv/", "/venv/", "/site-packages/", "/node_modules/")

_loaded: list["WorkerModules"] = []
_placed: "WorkerModules | None" = None
_lock = threading.RLock()
_import_before = builtins.__import__


def import_paths(config: WorkerConfig) -> list[str]:
    """Folders that go in front of `sys.path`: the folder of `main`, then the vendored packages beside the project."""
    root = config.import_root
    paths = [] if root is None else [str(root)]
    for folder in dict.fromkeys((config.folder, *([] if root is None else [root]))):
        paths += [str(folder / name) for name in VENDORED if (folder / name).is_dir()]
    return paths


class WorkerModules:
    """The modules that lie in the folders of one Worker, by name. Installed packages belong to nobody."""

    def __init__(self, config: WorkerConfig) -> None:
        self.root = config.import_root
        self.paths = import_paths(config)
        self.own: dict[str, ModuleType] = {}

    def owns(self, file: str) -> bool:
        """Whether the file lies in a folder of the Worker, and in no environment there."""
        within = next((file[len(path) :] for path in self.paths if file.startswith(f"{path}/")), None)
        return within is not None and not any(part in within for part in _FOREIGN)

    def _mine(self, name: str, module: Any) -> bool:
        if name.startswith(("moorage.", "tests.")) or name == "__main__":
            return False
        try:
            file = getattr(module, "__file__", None) or next(iter(getattr(module, "__path__", ())), None)
        except Exception:  # whatever somebody has put into the table
            return False
        return isinstance(file, str) and self.owns(file)

    @contextmanager
    def in_place(self) -> Iterator[None]:
        """The Worker's modules are those of `sys.modules`, and its folders come first."""
        global _placed
        with _lock:
            if _placed is self:
                yield
                return
            outer, _placed = _placed, self
            aside = self._set_aside()
            before = set(sys.modules)
            sys.modules.update(self.own)
            paths = list(sys.path)
            others = {path for other in _loaded if other is not self for path in other.paths}
            sys.path[:] = [*self.paths, *(path for path in paths if path not in others and path not in self.paths)]
            try:
                yield
            finally:
                _placed = outer
                self.own.update((n, m) for n, m in list(sys.modules.items()) if n not in before and self._mine(n, m))
                sys.modules.update(aside)
                sys.path[:] = paths

    def _set_aside(self) -> dict[str, ModuleType]:
        aside = {}
        for other in _loaded:
            for name, module in other.own.items() if other is not self else ():
                if sys.modules.get(name) is module:
                    aside[name] = sys.modules.pop(name)
        return aside

    def gather(self) -> None:
        """Takes note of modules that are there already, as vendored packages are after a reload."""
        for name, module in list(sys.modules.items()):
            if self._mine(name, module):
                self.own[name] = module


def add(config: WorkerConfig) -> WorkerModules:
    """Registers a Worker that is about to be loaded; with the second one, `import` is watched."""
    made = WorkerModules(config)
    made.gather()
    _loaded.append(made)
    if len(_loaded) == 2:
        builtins.__import__ = _import
    return made


def drop(config: WorkerConfig) -> None:
    """Drops the Worker's own modules, so that the next load reads its files again. Vendored packages stay."""
    root = config.import_root
    if root is None:
        return
    _loaded[:] = [known for known in _loaded if known.root != root]
    if len(_loaded) < 2 and builtins.__import__ is _import:
        builtins.__import__ = _import_before
    code = WorkerModules(config)
    code.paths = [str(root)]
    for name, module in list(sys.modules.items()):
        if code._mine(name, module):
            del sys.modules[name]


def _import(
    name: str,
    globals: Mapping[str, object] | None = None,
    locals: Mapping[str, object] | None = None,
    fromlist: Sequence[str] | None = (),
    level: int = 0,
) -> ModuleType:
    file = None if globals is None else globals.get("__file__")
    if level == 0 and name in sys.modules and not any(name in each.own for each in _loaded):
        return _import_before(name, globals, locals, fromlist or (), level)
    owner = next((each for each in _loaded if each.owns(file)), None) if isinstance(file, str) else None
    if owner is None or owner is _placed:
        return _import_before(name, globals, locals, fromlist or (), level)
    with owner.in_place():
        return _import_before(name, globals, locals, fromlist or (), level)


def taken(name: str, main: Path) -> bool:
    """Whether a module of that name is there which comes from another file than `main`."""
    module = sys.modules.get(name)
    return module is not None and _file_of(module) != main


def of_a_worker(name: str) -> bool:
    """Whether the module of that name belongs to a Worker."""
    return any(sys.modules.get(name) is each.own.get(name, ...) for each in _loaded)


def _file_of(module: ModuleType) -> Path | None:
    file = getattr(module, "__file__", None)
    return None if file is None else Path(file).resolve()

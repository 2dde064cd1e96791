"""The import finder: user code that imports `workers`, `asgi`, `js`, `pyodide` … gets the modules of this package.

It stands before all others on `sys.meta_path`, so an installed SDK of the same name is never reached (it would fail
without the platform). The same module object answers to both names. Modules that a Worker brings itself win over
`asgi` and `wsgi`, since many projects have a file of that name.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from importlib.abc import Loader
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any

_HERE = __name__.rpartition(".")[0]

# public name → module here. Parents come before their children.
NAMES = {
    "workers": "",
    "workers.asgi": ".asgi",
    "workers.wsgi": ".wsgi",
    "workers.workflows": ".workflows",
    "workers.types": ".types",
    "workers.rpc": ".rpc",
    "workers.entrypoints": ".entrypoints",
    "workers.utils": ".javascript",
    "asgi": ".asgi",
    "wsgi": ".wsgi",
    "js": ".js",
    "pyodide": ".pyodide",
    "pyodide.ffi": ".pyodide.ffi",
    "pyodide.http": ".pyodide.http",
    "pyodide.code": ".pyodide.code",
    "pyodide.webloop": ".pyodide.webloop",
    "cloudflare.workers": "",
    "_pyodide_entrypoint_helper": ".helper",
    "_cloudflare_compat_flags": ".flags",
}
_YIELDING = frozenset({"asgi", "wsgi"})


class _Loader(Loader):
    """Hands out a module that is imported under its own name, and leaves its attributes as they are."""

    def __init__(self, target: str) -> None:
        self._target = target
        self._spec: ModuleSpec | None = None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        module = importlib.import_module(self._target)
        self._spec = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        module.__spec__ = self._spec


class _Namespace(Loader):
    """The empty package `cloudflare`, for programs of 2024, when no package of that name is installed."""

    def create_module(self, spec: ModuleSpec) -> None:
        return None

    def exec_module(self, module: ModuleType) -> None:
        module.__path__ = []


class WorkersFinder:
    """A meta-path finder for the names in `NAMES`. `roots` are the import roots of Workers."""

    def __init__(self) -> None:
        self.roots: list[Path] = []
        self.loaded_before: frozenset[str] = frozenset()

    def find_spec(self, name: str, path: Sequence[str] | None = None, target: Any = None) -> ModuleSpec | None:
        inner = NAMES.get(name)
        if inner is not None:
            if name in _YIELDING and self._brought(name):
                return None
            module = _HERE + inner
            package = name in {"workers", "pyodide", "js"}
            return ModuleSpec(name, _Loader(module), is_package=package)
        if name == "cloudflare" and not self._elsewhere(name):
            return ModuleSpec(name, _Namespace(), is_package=True)
        return None

    def _brought(self, name: str) -> bool:
        return any((root / f"{name}.py").is_file() or (root / name / "__init__.py").is_file() for root in self.roots)

    def _elsewhere(self, name: str) -> bool:
        others = (finder for finder in sys.meta_path if finder is not self)
        return any(finder.find_spec(name, None) is not None for finder in others)


_finder = WorkersFinder()


def install(root: Path | None = None) -> WorkersFinder:
    """Puts the finder first, forgets foreign modules of these names, and notes the import root of a Worker."""
    if root is not None and root not in _finder.roots:
        _finder.roots.append(root)
    if _finder in sys.meta_path:
        sys.meta_path.remove(_finder)
    sys.meta_path.insert(0, _finder)
    for name in [name for name in sys.modules if _ours_to_answer(name)]:
        del sys.modules[name]
    _finder.loaded_before = frozenset(sys.modules)
    importlib.invalidate_caches()
    return _finder


def _ours_to_answer(name: str) -> bool:
    if name in NAMES:
        module = sys.modules[name]
        return getattr(module, "__name__", "") != _HERE + NAMES[name] and not (
            name in _YIELDING and _finder._brought(name)
        )
    return name.partition(".")[0] in {"workers", "pyodide"} and "." in name


def loaded_before() -> frozenset[str]:
    """Names of the modules that were loaded when the finder was last installed: before the last Worker."""
    return _finder.loaded_before


def uninstall(root: Path | None = None) -> None:
    """Forgets a root, or, without one, takes the finder away with every name that it gave out."""
    if root is not None:
        if root in _finder.roots:
            _finder.roots.remove(root)
        return
    _finder.roots.clear()
    if _finder in sys.meta_path:
        sys.meta_path.remove(_finder)
    for name in [name for name in sys.modules if name in NAMES]:
        del sys.modules[name]


__all__ = ["NAMES", "WorkersFinder", "install", "loaded_before", "uninstall"]

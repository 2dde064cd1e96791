"""Whether a Worker may ever call `run_sync`, so that its handlers need stacks of their own.

A program may import `run_sync` as late as in the handler that calls it, and then it is too late to choose. So the
texts are looked at: those below the Worker's import root, and those of the packages that its import brought in. One
that speaks of `pyodide` and of `run_sync` (or of `webloop`) is taken for one that calls it; being wrong costs some
microseconds a call.

Packages of more than a hundred files are not read: adapters for the platform are small, and reading a framework would
take as long as importing it. A Worker that needs stacks all the same imports `run_sync` itself.
"""

from __future__ import annotations

import functools
import itertools
import os
import sys
from collections.abc import Collection, Iterator
from pathlib import Path
from types import ModuleType

_OURS = Path(__file__).resolve().parents[2]
MOST_FILES = 100
_SKIPPED = frozenset(
    {
        ".git",
        ".venv",
        "venv",
        "node_modules",
        "site-packages",
        "__pycache__",
        ".moorage",
        ".wrangler",
        ".pytest_cache",
    }
)


def may_wait_synchronously(main: ModuleType, before: Collection[str]) -> bool:
    """Whether a text of the Worker `main`, or of a package loaded since `before` (module names), calls `run_sync`."""
    file = getattr(main, "__file__", None)
    if file is not None and _inside(str(Path(file).resolve().parent)):
        return True
    return any(_inside_package(place) for place in _brought_in(main, before))


def _brought_in(main: ModuleType, before: Collection[str]) -> Iterator[str]:
    """Folders of packages and files of single modules, outside the standard library and this project."""
    for name in {full.partition(".")[0] for full in list(sys.modules) if full not in before}:
        module = sys.modules.get(name)
        file = getattr(module, "__file__", None)
        if module is None or module is main or file is None or name in sys.stdlib_module_names:
            continue
        path = Path(file).resolve()
        if not path.is_relative_to(_OURS / "wrangler_compat"):
            yield str(path.parent if path.name == "__init__.py" else path)


@functools.lru_cache(maxsize=512)
def _inside_package(place: str) -> bool:
    texts = list(itertools.islice(_texts(place), MOST_FILES + 1))
    return len(texts) <= MOST_FILES and any(map(_mentions, texts))


def _inside(place: str) -> bool:
    return any(map(_mentions, _texts(place)))


def _texts(place: str) -> Iterator[str]:
    if place.endswith(".py"):
        yield place
        return
    for folder, folders, files in os.walk(place):
        folders[:] = [name for name in folders if name not in _SKIPPED]
        for name in files:
            if name.endswith(".py"):
                yield os.path.join(folder, name)


def _mentions(path: str) -> bool:
    try:
        with open(path, "rb") as file:
            text = file.read()
    except OSError:
        return False
    return b"pyodide" in text and (b"run_sync" in text or b"webloop" in text)

"""What a loaded module offers: its entrypoints, object classes and legacy handlers (spec python-workers-api 2)."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from types import FunctionType, ModuleType
from typing import Any

from . import switching
from .entrypoints import DurableObject, WorkerEntrypoint, WorkflowEntrypoint
from .finder import loaded_before
from .legacy import module_handler, name_methods
from .needs import may_wait_synchronously

EVENTS = ("fetch", "alarm", "scheduled", "trace", "queue", "pubsub")

# flag that turns a rule on, flag that turns it off, compatibility date from which it is on
_RULES = {
    "no_global_handlers": ("python_no_global_handlers", "disable_python_no_global_handlers", "2025-08-14"),
    "external_sdk": ("enable_python_external_sdk", "disable_python_external_sdk", "2026-04-21"),
}


class DiscoveryError(TypeError):
    """The module cannot be run as a Worker; the text says which name is wrong and what would be right."""


@dataclass(frozen=True)
class Compatibility:
    """The rules that a compatibility date and flags choose."""

    no_global_handlers: bool
    external_sdk: bool

    @classmethod
    def of(cls, date: str | None, flags: Collection[str] = ()) -> Compatibility:
        """`date` is `YYYY-MM-DD`; without one the oldest rules hold. A flag wins over the date."""

        def rule(name: str) -> bool:
            on, off, since = _RULES[name]
            return on in flags or (off not in flags and date is not None and date >= since)

        return cls(rule("no_global_handlers"), rule("external_sdk"))


@dataclass(frozen=True)
class Entrypoints:
    """What was found. Keys are class names (`cls.__name__`) or event names (`fetch`, `scheduled` …)."""

    default: type[WorkerEntrypoint] | None = None
    named: Mapping[str, type[WorkerEntrypoint]] = field(default_factory=dict)
    objects: Mapping[str, type[DurableObject]] = field(default_factory=dict)
    workflows: Mapping[str, type[WorkflowEntrypoint]] = field(default_factory=dict)
    legacy: Mapping[str, Callable[..., Any]] = field(default_factory=dict)

    def handles(self, event: str) -> bool:
        """Whether the default entrypoint answers that event."""
        return self.handler_name(event) is not None or event in self.legacy

    def handler_name(self, event: str) -> str | None:
        """The method of the default class for `event`, or None."""
        return event if callable(getattr(self.default, event, None)) else None


def discover(module: ModuleType, compatibility: Compatibility) -> Entrypoints:
    """What `module` exports: the names of `__all__`, else all names without a leading underscore.

    A module that may call `run_sync` switches stack switching on for the process.

    Raises DiscoveryError (a TypeError) when `__all__` names what is not there, when two classes share a name, when a
    `Default` class stands beside module-level `on_*` handlers, when those are no longer allowed, or when there is
    nothing to run at all.
    """
    workers: dict[str, type[WorkerEntrypoint]] = {}
    objects: dict[str, type[DurableObject]] = {}
    workflows: dict[str, type[WorkflowEntrypoint]] = {}
    for cls in _classes(module):
        for base, found in ((DurableObject, objects), (WorkerEntrypoint, workers), (WorkflowEntrypoint, workflows)):
            if issubclass(cls, base) and cls is not base:
                _add(found, cls)
    if not compatibility.no_global_handlers:
        for cls in (*workers.values(), *objects.values()):
            name_methods(cls)
    legacy = {
        event: module_handler(function)
        for event in EVENTS
        if callable(function := getattr(module, f"on_{event}", None))
    }
    default = workers.pop("Default", None)
    if legacy and default is not None:
        raise DiscoveryError(
            f"{_listed(legacy)} cannot stand beside the class Default: move {_them(legacy)} into the class as "
            f"{', '.join(legacy)}"
        )
    if legacy and compatibility.no_global_handlers:
        raise DiscoveryError(
            f"{_listed(legacy)}: handlers of the module are not called from compatibility date 2025-08-14 on. Define "
            "`class Default(WorkerEntrypoint)` with these methods, or set the compatibility flag "
            '"disable_python_no_global_handlers"'
        )
    if default is None and not (legacy or workers or objects or workflows):
        raise DiscoveryError(
            f"the module {module.__name__!r} has nothing to run: define `class Default(WorkerEntrypoint)` with a "
            "method `fetch`, or a class that derives from DurableObject"
        )
    if may_wait_synchronously(module, loaded_before()):
        switching.enable()
    return Entrypoints(default, workers, objects, workflows, legacy)


def _classes(module: ModuleType) -> Iterator[type]:
    names = getattr(module, "__all__", None)
    if names is None:
        names = [name for name in dir(module) if not name.startswith("_")]
    seen: set[int] = set()
    for name in names:
        try:
            value = getattr(module, name)
        except AttributeError:
            raise DiscoveryError(
                f"__all__ of {module.__name__!r} names {name!r}, which is not defined there"
            ) from None
        if inspect.isclass(value) and id(value) not in seen:
            seen.add(id(value))
            yield value


def _add(found: dict[str, type], cls: type) -> None:
    other = found.get(cls.__name__)
    if other is not None:
        raise DiscoveryError(
            f"two classes are called {cls.__name__!r}: {other.__module__}.{other.__qualname__} and "
            f"{cls.__module__}.{cls.__qualname__}; classes are known by their own name, so rename one"
        )
    found[cls.__name__] = cls


def _listed(legacy: Mapping[str, Any]) -> str:
    return ", ".join(f"on_{event}" for event in legacy)


def _them(legacy: Mapping[str, Any]) -> str:
    return "it" if len(legacy) == 1 else "them"


def exported_methods(cls: type) -> list[str]:
    """Names that can be called over RPC: public plain functions, inherited ones and those of mixins included."""
    return [
        name
        for name in dir(cls)
        if not name.startswith("_") and isinstance(inspect.getattr_static(cls, name), FunctionType)
    ]

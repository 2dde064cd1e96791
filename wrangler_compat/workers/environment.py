"""`env`: the bindings of a Worker, by attribute; `workers.env` and `patch_env`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from types import MappingProxyType
from typing import Any

from .current import current

_patches: ContextVar[Mapping[str, Any]] = ContextVar("moorage_env_patches", default=MappingProxyType({}))


class Env:
    """The bindings by name: `env.NAME` (AttributeError when there is none), `env["NAME"]`, `"NAME" in env`."""

    def __init__(self, bindings: Mapping[str, Any]) -> None:
        object.__setattr__(self, "_bindings", dict(bindings))

    def __getattr__(self, name: str) -> Any:
        try:
            return self._bindings[name]
        except KeyError:
            raise AttributeError(
                f"the Worker has no binding {name!r}; it has {', '.join(sorted(self._bindings)) or 'none'}"
            ) from None

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"env.{name} cannot be set; use workers.patch_env for a while")

    def __getitem__(self, name: str) -> Any:
        return self._bindings[name]

    def __contains__(self, name: object) -> bool:
        return name in self._bindings

    def __iter__(self) -> Iterator[str]:
        return iter(self._bindings)

    def __dir__(self) -> list[str]:
        return sorted(self._bindings)

    def object_entries(self) -> list[tuple[str, Any]]:
        return list(self._bindings.items())

    def __repr__(self) -> str:
        return f"Env({', '.join(sorted(self._bindings))})"  # never values: secrets are among them


class ModuleEnv:
    """`workers.env`: the bindings of the Worker whose code is running, with what `patch_env` lays over them."""

    __slots__ = ()

    def __getattr__(self, name: str) -> Any:
        patches = _patches.get()
        if name in patches:
            return patches[name]
        env = current().env
        if env is None:
            raise AttributeError(f"workers.env.{name}: no Worker is running here, so there are no bindings")
        return getattr(env, name)

    def __getitem__(self, name: str) -> Any:
        try:
            return getattr(self, name)
        except AttributeError:
            raise KeyError(name) from None

    def __contains__(self, name: object) -> bool:
        return name in _patches.get() or name in (current().env or ())

    def __repr__(self) -> str:
        return f"workers.env({current().env!r})"


env = ModuleEnv()


@contextmanager
def patch_env(bindings: Mapping[str, Any] | Sequence[tuple[str, Any]] | None = None, **named: Any) -> Iterator[None]:
    """While it is entered, `workers.env` has these bindings on top; `self.env` stays as it is."""
    token = _patches.set({**_patches.get(), **dict(bindings or {}), **named})
    try:
        yield
    finally:
        _patches.reset(token)

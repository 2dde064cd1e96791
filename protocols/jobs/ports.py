"""The four interfaces behind which everything that needs files or a scanner stands (spec job-lifecycle 23)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, Protocol

from .catalogue import Body, Extension, Target

Presence = Literal["absent", "stale", "present"]


class TargetResolver(Protocol):
    """What jobs may be about."""

    def get(self, path: str) -> Target | None:
        """The target as it was last looked at, or None when there is none of that path."""
        ...

    def list(self) -> Sequence[Target]:
        """Every target, in the order of a fan-out."""
        ...

    def read_body(self, path: str) -> Body:
        """The body as it is now. Never raises: what went wrong is the `cause`, `missing` among others."""
        ...

    def body_hash(self, text: str) -> str:
        """The hash that `Target.body_hash` is compared with."""
        ...

    def issues(self, path: str, analyzer_ids: Sequence[str]) -> Sequence[Mapping[str, Any]]:
        """Open issues of deterministic analyzers: `target`, `kind`, `severity`, `message`. May always be empty."""
        ...


class ExtensionCatalogue(Protocol):
    """What is installed."""

    def all(self) -> Sequence[Extension]:
        """Every extension of both kinds, in catalogue order, refused manifests (`problem`) included."""
        ...

    def skill(self, name: str) -> Extension | None:
        """An installed skill as an action of id `skill:<name>`, or None."""
        ...


class AgentPresence(Protocol):
    """Whether somebody processes the queue."""

    def state(self) -> Presence:
        """What the artifact says: absent, outdated, or present. It never asks an agent."""
        ...


class SuppressionStore(Protocol):
    """Standing dismissals of finders, kept beside the target by its author."""

    def get(self, path: str) -> Sequence[Mapping[str, Any]]:
        """The live suppressions of a target."""
        ...

    def mirrored(self, path: str) -> Sequence[Mapping[str, Any]]:
        """The suppressions as the queue last saw them: what reads go by."""
        ...

    def consented(self) -> bool:
        """Whether the author lets the queue edit sidecars."""
        ...

    def remove(self, path: str, entries: Sequence[Mapping[str, Any]]) -> None:
        """Removes the entries from the sidecar, keeping everything else. Called with consent only."""
        ...

    def refresh(self, path: str) -> None:
        """Brings the mirror up to the sidecar, whether or not anything was removed."""
        ...

"""What a state folder knows of a Worker's classes, and what can be done to it. Values only."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from .diagnostics import Diagnostic
from .migrations import Storage


@dataclass(frozen=True, slots=True)
class StoredClass:
    """A class as a state folder knows it.

    unique_key: what ids are made from; `<worker>-<Class>` of the name under which the class was created.
    declared: False for a class that was bound before any migration or export declared it.
    """

    storage: Storage
    unique_key: str
    declared: bool = True


@dataclass(frozen=True, slots=True)
class AppliedStep:
    """A migration step that the folder has seen."""

    tag: str
    digest: str


@dataclass(frozen=True, slots=True)
class Record:
    """What was applied to a state folder for one Worker."""

    applied: tuple[AppliedStep, ...] = ()
    classes: Mapping[str, StoredClass] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Create:
    """The class comes into being; nothing happens on disk until its first object is stored."""

    class_name: str
    storage: Storage

    def describe(self) -> str:
        """The operation in words."""
        return f"create the class {self.class_name} ({self.storage})"


@dataclass(frozen=True, slots=True)
class Move:
    """The folder `source` becomes `target`, if it is there."""

    source: str
    target: str

    def describe(self) -> str:
        """The operation in words."""
        return f"move the stored objects {self.source} to {self.target}"


@dataclass(frozen=True, slots=True)
class Remove:
    """The folder goes, with all objects in it."""

    folder: str

    def describe(self) -> str:
        """The operation in words."""
        return f"DELETE the stored objects {self.folder}"


@dataclass(frozen=True, slots=True)
class Forget:
    """The record of another Worker loses a class that was transferred from it."""

    worker: str
    class_name: str

    def describe(self) -> str:
        """The operation in words."""
        return f"take the class {self.class_name} out of the record of {self.worker}"


Operation: TypeAlias = Create | Move | Remove | Forget


@dataclass(frozen=True, slots=True)
class Plan:
    """What to do, and what the record says afterwards. With a `refusal` there are no operations: nothing may be
    touched.
    """

    operations: tuple[Operation, ...]
    record: Record
    warnings: tuple[Diagnostic, ...] = ()
    refusal: Diagnostic | None = None

    @property
    def touches_data(self) -> bool:
        """Whether stored objects are moved or deleted."""
        return any(isinstance(operation, Move | Remove) for operation in self.operations)


def folder_of(worker: str, class_name: str) -> str:
    """The name of the folder that holds the objects of a class."""
    return f"{worker}-{class_name}"

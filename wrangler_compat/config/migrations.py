"""What a list of migrations means: which classes live, and with what storage (wrangler configuration 4).

The list is taken as a whole, in file order; within one step: deleted, renamed, new, new with SQL. Tags play no part
here: they tell `plan` what a state folder has already seen.
"""

import hashlib
import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Literal

from .lifecycle import declared_classes, is_live
from .values import Object, is_object

Storage = Literal["sqlite", "legacy-kv"]


@dataclass(frozen=True, slots=True)
class Rename:
    """`source` is called `target` from this step on."""

    source: str
    target: str


@dataclass(frozen=True, slots=True)
class Transfer:
    """The class `source` of the Worker `script` becomes `target` here."""

    source: str
    script: str
    target: str


@dataclass(frozen=True, slots=True)
class MigrationStep:
    """One entry of `migrations`."""

    tag: str
    deleted: tuple[str, ...] = ()
    renamed: tuple[Rename, ...] = ()
    new: tuple[str, ...] = ()
    new_sqlite: tuple[str, ...] = ()
    transferred: tuple[Transfer, ...] = ()

    @property
    def digest(self) -> str:
        """SHA-256 of the step's contents in hex: two steps with the same digest do the same."""
        text = json.dumps(asdict(self), ensure_ascii=True, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()


class MigrationRefused(ValueError):
    """A step cannot follow the ones before it.

    `code` is `unknown-class` or `existing-class`, `step` the key of the list (`deleted_classes`), `class_name`
    the class, `index` the step's place in the file.
    """

    def __init__(self, code: str, step: str, class_name: str, index: int) -> None:
        why = "there is no such class" if code == "unknown-class" else "the class exists already"
        super().__init__(f'migrations[{index}].{step} names "{class_name}", but {why} at that point')
        self.code = code
        self.step = step
        self.class_name = class_name
        self.index = index


def steps_of(value: object) -> tuple[MigrationStep, ...]:
    """The steps of a checked `migrations` list; anything misshapen was an error of the check and is left out."""
    return tuple(_step(entry) for entry in value if is_object(entry)) if isinstance(value, list) else ()


def _step(entry: Object) -> MigrationStep:
    def names(key: str) -> tuple[str, ...]:
        value = entry.get(key)
        return tuple(item for item in value if isinstance(item, str)) if isinstance(value, list) else ()

    def moves(key: str) -> list[Object]:
        value = entry.get(key)
        return [item for item in value if is_object(item)] if isinstance(value, list) else []

    return MigrationStep(
        tag=str(entry.get("tag", "")),
        deleted=names("deleted_classes"),
        renamed=tuple(Rename(str(m.get("from")), str(m.get("to"))) for m in moves("renamed_classes")),
        new=names("new_classes"),
        new_sqlite=names("new_sqlite_classes"),
        transferred=tuple(
            Transfer(str(m.get("from")), str(m.get("from_script")), str(m.get("to")))
            for m in moves("transferred_classes")
        ),
    )


def live_classes(steps: Iterable[MigrationStep]) -> dict[str, Storage]:
    """The classes that exist after all steps, with their storage. Raises MigrationRefused.

    Renaming onto an existing class replaces it; transferred classes do nothing, as in the platform's local tool.
    """
    live: dict[str, Storage] = {}
    for index, step in enumerate(steps):
        for name in step.deleted:
            if live.pop(name, None) is None:
                raise MigrationRefused("unknown-class", "deleted_classes", name, index)
        for rename in step.renamed:
            storage = live.pop(rename.source, None)
            if storage is None:
                raise MigrationRefused("unknown-class", "renamed_classes", rename.source, index)
            live[rename.target] = storage
        created: tuple[tuple[str, tuple[str, ...], Storage], ...] = (
            ("new_classes", step.new, "legacy-kv"),
            ("new_sqlite_classes", step.new_sqlite, "sqlite"),
        )
        for key, names, kind in created:
            for name in names:
                if name in live:
                    raise MigrationRefused("existing-class", key, name, index)
                live[name] = kind
    return live


@dataclass(frozen=True, slots=True)
class ExportedClass:
    """A class of `exports`. `state` is `created`, `deleted`, `renamed`, `transferred` or `expecting-transfer`.

    `storage` is set for the two live states, `other` is the class or Worker that the state names, if any.
    """

    name: str
    state: str
    storage: Storage | None = None
    other: str | None = None

    @property
    def live(self) -> bool:
        """Whether the class exists."""
        return self.storage is not None


def exported_classes(document: Object) -> tuple[ExportedClass, ...]:
    """The Durable Object classes of a checked document's `exports`, in file order."""
    result = []
    for name, entry in declared_classes(document).items():
        other = next((entry[k] for k in ("renamed_to", "transferred_to", "transfer_from") if k in entry), None)
        storage: Storage | None = None
        if is_live(entry):
            storage = "sqlite" if entry.get("storage") == "sqlite" else "legacy-kv"
        result.append(
            ExportedClass(
                name, str(entry.get("state", "created")), storage, other if isinstance(other, str) else None
            )
        )
    return tuple(result)

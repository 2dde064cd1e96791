"""The walk through migrations or exports that a plan is made from: each step checked, each change written down."""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from .diagnostics import Diagnostic
from .migrations import ExportedClass, MigrationRefused, MigrationStep, Storage, live_classes
from .operations import AppliedStep, Create, Forget, Move, Operation, Record, Remove, StoredClass, folder_of

_SCRIPT = re.compile(r"[a-z0-9_][a-z0-9_-]*")


def _last_name(entry: ExportedClass, exports: Sequence[ExportedClass]) -> str:
    """Where a chain of renamed entries ends; a circle ends where it began."""
    others = {other.name: other.other for other in exports if other.state == "renamed"}
    name, seen = str(entry.other), {entry.name}
    while (following := others.get(name)) is not None and name not in seen:
        seen.add(name)
        name = following
    return name


class Refusal(Exception):
    """The plan cannot be made; `diagnostic` says why."""

    def __init__(self, code: str, path: str | None, message: str) -> None:
        super().__init__(message)
        self.diagnostic = Diagnostic(code, path, message)


class Draft:
    """The state that a plan leads through, step by step. Every method may raise Refusal or MigrationRefused."""

    def __init__(self, worker: str, record: Record | None, folders: set[str], others: Mapping[str, Record]) -> None:
        self.worker = worker
        self.before = record or Record()
        self.classes: dict[str, StoredClass] = dict(self.before.classes)
        self.folders = folders
        self.others = others
        self.operations: list[Operation] = []
        self.warnings: list[Diagnostic] = []

    # What is asked of the draft

    def check_name(self, name: str) -> None:
        """A class name becomes the name of a folder, so it must be an identifier."""
        if not name.replace("$", "_").isidentifier():
            raise Refusal("bad-class-name", None, f'"{name}" cannot be the name of a class')

    def check_bound(self, bound: Collection[str]) -> None:
        """A class that this plan deletes may not be bound any more; one that nothing declares is noted."""
        for name in bound:
            if Remove(folder_of(self.worker, name)) in self.operations and name not in self.classes:
                raise Refusal(
                    "class-still-bound",
                    None,
                    f'the class "{name}" is to be deleted, but still has a binding: remove it first',
                )
            if name not in self.classes:
                self.create(name, "legacy-kv", declared=False)

    def follow_steps(self, steps: Sequence[MigrationStep], record: Record) -> None:
        """Applies the steps that the record does not have, and brings the rest in line with the file."""
        wanted = live_classes(steps)
        for index in range(self._first_pending(steps, record.applied), len(steps)):
            self._apply(steps[index], index)
        self._reconcile(wanted, {move.target for step in steps for move in step.transferred})

    def adopt(self, steps: Sequence[MigrationStep]) -> None:
        """Takes over a folder without a record: data follows renames and transfers, and nothing is deleted."""
        wanted = live_classes(steps)
        ancestors: dict[str, list[tuple[str, str]]] = {}
        transfers: dict[str, str] = {}
        for step in steps:
            for name in step.deleted:
                ancestors.pop(name, None)
            for rename in step.renamed:
                ancestors[rename.target] = [*ancestors.pop(rename.source, []), (self.worker, rename.source)]
            for transfer in step.transferred:
                self._check_script(transfer.script)
                ancestors[transfer.target] = [(transfer.script, transfer.source)]
                transfers[transfer.target] = transfer.script
        for name, storage in wanted.items():
            self._adopt_class(name, storage, ancestors.get(name, []), wanted)
        for name in transfers:
            if name not in wanted:
                self._adopt_class(name, "sqlite", ancestors.get(name, []), wanted)

    def follow_exports(self, exports: Sequence[ExportedClass]) -> None:
        """Applies tombstones to classes that the record still has, then creates what lives."""
        live = {entry.name: entry for entry in exports if entry.live}
        for entry in exports:
            here = entry.name in self.classes or folder_of(self.worker, entry.name) in self.folders
            if entry.state == "deleted" and entry.name in self.classes:
                self.delete(entry.name)
            elif entry.state == "renamed" and here and entry.other is not None:
                target = _last_name(entry, exports)
                self.classes.setdefault(entry.name, self._found(entry.name, live.get(target)))
                self.rename(entry.name, target, f"exports.{entry.name}")
            elif entry.state == "expecting-transfer" and entry.name not in self.classes and entry.other is not None:
                self.transfer(entry.other, entry.name, entry.name, entry.storage or "sqlite")
            elif entry.state == "transferred" and entry.name in self.classes:
                self.warn(
                    "not-yet-transferred", f'the Worker "{entry.other}" has not taken the class {entry.name} over yet'
                )
        gone = {entry.name for entry in exports if not entry.live}
        self._reconcile({name: entry.storage or "sqlite" for name, entry in live.items()}, gone)

    # Single changes

    def create(self, name: str, storage: Storage, *, declared: bool = True) -> None:
        """A class comes into being, or one that was only bound is declared and keeps its ids."""
        known = self.classes.get(name)
        if known is not None and not known.declared:
            self.classes[name] = replace(known, storage=storage, declared=True)
        else:
            self.classes[name] = StoredClass(storage, self._fresh_key(name), declared)
        self.operations.append(Create(name, storage))

    def delete(self, name: str) -> None:
        """A class goes, with its objects."""
        del self.classes[name]
        folder = folder_of(self.worker, name)
        self.folders.discard(folder)
        self.operations.append(Remove(folder))

    def rename(self, source: str, target: str, path: str) -> None:
        """A class and its objects get another name; they keep their ids."""
        target_folder = folder_of(self.worker, target)
        if target_folder in self.folders and target != source:
            raise Refusal(
                "existing-class",
                path,
                f'"{source}" cannot be renamed to "{target}": stored objects of "{target}" would be lost. If that is '
                f'meant, delete "{target}" in a step before',
            )
        self.classes[target] = self.classes.pop(source)
        self._move(folder_of(self.worker, source), target_folder)

    def transfer(self, script: str, source: str, target: str, storage: Storage) -> None:
        """A class of another Worker in the same state folder becomes one of this Worker."""
        self._check_script(script)
        known = self.others[script].classes.get(source) if script in self.others else None
        source_folder, target_folder = folder_of(script, source), folder_of(self.worker, target)
        if known is None and source_folder not in self.folders:
            self.warn(
                "nothing-to-transfer", f'the Worker "{script}" has no stored class "{source}" in this state folder'
            )
            self.create(target, storage)
            return
        if target_folder in self.folders:
            raise Refusal(
                "existing-class", None, f'"{target}" already has stored objects: nothing can be transferred to it'
            )
        self.classes[target] = known or StoredClass(storage, source_folder)
        self._move(source_folder, target_folder)
        if known is not None:
            self.operations.append(Forget(script, source))

    def warn(self, code: str, message: str) -> None:
        """Notes what a person should know."""
        self.warnings.append(Diagnostic(code, None, message))

    # Parts

    def _apply(self, step: MigrationStep, index: int) -> None:
        for name in step.deleted:
            if name not in self.classes:
                raise MigrationRefused("unknown-class", "deleted_classes", name, index)
            self.delete(name)
        for rename in step.renamed:
            if rename.source not in self.classes:
                raise MigrationRefused("unknown-class", "renamed_classes", rename.source, index)
            self.rename(rename.source, rename.target, f"migrations[{index}].renamed_classes")
        created: tuple[tuple[str, tuple[str, ...], Storage], ...] = (
            ("new_classes", step.new, "legacy-kv"),
            ("new_sqlite_classes", step.new_sqlite, "sqlite"),
        )
        for key, names, storage in created:
            for name in names:
                if name in self.classes and self.classes[name].declared:
                    raise MigrationRefused("existing-class", key, name, index)
                self.create(name, storage)
        for transfer in step.transferred:
            if transfer.target in self.classes and self.classes[transfer.target].declared:
                raise MigrationRefused("existing-class", "transferred_classes", transfer.target, index)
            # what the other Worker's record says wins over this kind
            self.transfer(transfer.script, transfer.source, transfer.target, "sqlite")

    def _first_pending(self, steps: Sequence[MigrationStep], applied: tuple[AppliedStep, ...]) -> int:
        if not applied:
            return 0
        if not steps:
            self.warn(
                "history-gone", "the configuration has no migrations any more; stored classes are left as they are"
            )
            return 0
        count = len(applied)
        if [step.tag for step in steps[:count]] == [step.tag for step in applied]:
            for step, done in zip(steps, applied, strict=False):
                if step.digest != done.digest:
                    self.warn(
                        "step-edited",
                        f'the migration "{step.tag}" was edited after it had been applied: add a new step instead',
                    )
            return count
        last = applied[-1].tag
        places = [index for index, step in enumerate(steps) if step.tag == last]
        if not places:
            raise Refusal(
                "unknown-tag",
                "migrations",
                f'the migration "{last}" was applied to this state folder, but is not in the configuration: put it '
                "back, or use another state folder",
            )
        self.warn("history-changed", f'the migrations before "{last}" are not those that were applied')
        return places[-1] + 1

    def _reconcile(self, wanted: Mapping[str, Storage], accounted: Collection[str]) -> None:
        for name, storage in wanted.items():
            known = self.classes.get(name)
            if known is None or not known.declared:
                self.create(name, storage)
            elif known.storage != storage:
                raise Refusal(
                    "storage-mismatch",
                    None,
                    f'the class "{name}" was created with the storage {known.storage} and cannot become {storage}',
                )
        for name, known in self.classes.items():
            if known.declared and name not in wanted and name not in accounted:
                self.warn(
                    "class-not-declared", f'the state folder has the class "{name}", which nothing declares any more'
                )

    def _adopt_class(
        self, name: str, storage: Storage, ancestors: list[tuple[str, str]], wanted: Mapping[str, Storage]
    ) -> None:
        folder = folder_of(self.worker, name)
        self.create(name, storage)
        if folder in self.folders:
            return
        for script, source in reversed(ancestors):
            source_folder = folder_of(script, source)
            if source_folder in self.folders and not (script == self.worker and source in wanted):
                known = self.others[script].classes.get(source) if script in self.others else None
                self.classes[name] = known or StoredClass(storage, source_folder)
                self._move(source_folder, folder)
                if known is not None and script != self.worker:
                    self.operations.append(Forget(script, source))
                return

    def _found(self, name: str, target: ExportedClass | None) -> StoredClass:
        storage: Storage = (target.storage if target is not None else None) or "sqlite"
        return StoredClass(storage, folder_of(self.worker, name))

    def _move(self, source: str, target: str) -> None:
        if source == target:
            return
        if source in self.folders:
            self.folders.discard(source)
            self.folders.add(target)
        self.operations.append(Move(source, target))

    def _fresh_key(self, name: str) -> str:
        base = folder_of(self.worker, name)
        taken = {stored.unique_key for stored in self.classes.values()}
        if base not in taken:
            return base
        # the key went along with a renamed class; `~` is in no name of a Worker or class
        return next(key for number in range(2, len(taken) + 3) if (key := f"{base}~{number}") not in taken)

    def _check_script(self, script: str) -> None:
        if _SCRIPT.fullmatch(script) is None:
            raise Refusal("bad-class-name", None, f'"{script}" cannot be the name of a Worker')

"""Applies planned migrations to a state folder, so that a crash at any point is resumed and nothing is done twice.

`<state>/do/<worker>.migrations.json` says what was applied. Before anything is touched, the plan itself is written
there as a journal; each operation is one atomic step on disk, and the journal's position moves on once the step is
durable. A start that finds a journal finishes it before it plans anew. An operation that had been done when the
process died is recognised: what it would move or delete is not there any more.

Runs while the host is starting, before any object is open. Two hosts must not share a state folder.
"""

import json
import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from ..config import Plan, Record, StoredClass, WorkerConfig, folder_of, plan
from ..config.diagnostics import Diagnostic
from ..config.operations import AppliedStep, Create, Forget, Move, Operation, Remove

FORMAT = 1
TRASH = ".deleted"
SUFFIX = ".migrations.json"


class MigrationError(RuntimeError):
    """The migrations cannot be applied. `diagnostic` names the reason; nothing was touched by the refused plan."""

    def __init__(self, diagnostic: Diagnostic) -> None:
        super().__init__(diagnostic.message)
        self.diagnostic = diagnostic


@dataclass(frozen=True, slots=True)
class Applied:
    """What `apply` did.

    `classes` is what a host builds namespaces from, by class name: storage, and the key that ids are made from. It
    has every class of this Worker that lives or is bound.
    """

    operations: tuple[Operation, ...]
    warnings: tuple[Diagnostic, ...]
    classes: dict[str, StoredClass]
    resumed: bool = False


@dataclass(frozen=True, slots=True)
class _Journal:
    operations: tuple[Operation, ...]
    done: int
    after: Record


@dataclass(frozen=True, slots=True)
class _State:
    record: Record | None
    journal: _Journal | None = None


def pending(state: Path, config: WorkerConfig) -> Plan:
    """What `apply` would do to the folder `state`; reads only. A journal that is not finished is planned as if it
    were.

    Raises MigrationError for a record that cannot be read.
    """
    current = _read(_record_file(state / "do", config.name))
    if current.journal is None:
        return _plan(state, config, current.record)
    rest = current.journal.operations[current.journal.done :]
    later = _plan(state, config, current.journal.after, moved=rest)
    return Plan((*rest, *later.operations), later.record, later.warnings, later.refusal)


def unique_key(state: Path, folder: str) -> str:
    """What ids of the objects in `<state>/do/<folder>` are made from: the folder that the class began with.

    A class that was renamed keeps it. Raises MigrationError for a record that cannot be read.
    """
    for file in sorted((state / "do").glob(f"*{SUFFIX}")):
        current = _read(file)
        record = current.record if current.journal is None else current.journal.after
        for name, stored in () if record is None else record.classes.items():
            if folder_of(file.name.removesuffix(SUFFIX), name) == folder:
                return stored.unique_key
    return folder


def apply(state: Path, config: WorkerConfig, *, reached: Callable[[str], None] = lambda point: None) -> Applied:
    """Brings the folder `state` to what `config` says, and returns what was done.

    `reached` is called between the steps on disk with the name of the point, so that tests can end the process there.
    Raises MigrationError when the plan is refused or the record cannot be read, OSError when the disk refuses.
    """
    folder = state / "do"
    folder.mkdir(parents=True, exist_ok=True)
    file = _record_file(folder, config.name)
    current = _read(file)
    done: tuple[Operation, ...] = ()
    record = current.record
    if current.journal is not None:
        done = current.journal.operations[current.journal.done :]
        record = _carry_out(folder, file, current.journal, record, reached)
    _empty_trash(folder)
    planned = _plan(state, config, record)
    if planned.refusal is not None:
        raise MigrationError(planned.refusal)
    if planned.operations or planned.record != record:
        journal = _Journal(planned.operations, 0, planned.record)
        record = _carry_out(folder, file, journal, record, reached)
        _empty_trash(folder)
    return Applied(
        (*done, *planned.operations),
        planned.warnings,
        dict(planned.record.classes),
        resumed=current.journal is not None,
    )


def _plan(state: Path, config: WorkerConfig, record: Record | None, *, moved: tuple[Operation, ...] = ()) -> Plan:
    folder = state / "do"
    folders = {path.name for path in folder.iterdir() if path.is_dir()} if folder.is_dir() else set[str]()
    for operation in moved:
        if isinstance(operation, Move) and operation.source in folders:
            folders = (folders - {operation.source}) | {operation.target}
        elif isinstance(operation, Remove):
            folders.discard(operation.folder)
    scripts = {move.script for step in config.migrations for move in step.transferred}
    scripts |= {entry.other for entry in config.exports if entry.state == "expecting-transfer" and entry.other}
    others: dict[str, Record] = {}
    for script in scripts - {config.name}:
        # a name that is no file name is refused by the plan; here it only must not leave the folder
        if "/" not in script and (known := _read(_record_file(folder, script)).record) is not None:
            others[script] = known
    return plan(
        config.name,
        record,
        steps=config.migrations,
        exports=config.exports,
        bound=config.bound_classes,
        folders=folders,
        others=others,
    )


def _carry_out(
    folder: Path, file: Path, journal: _Journal, before: Record | None, reached: Callable[[str], None]
) -> Record:
    for number in range(journal.done, len(journal.operations)):
        if isinstance(journal.operations[number], Create):
            continue  # nothing on disk, so nothing to remember
        _write(file, _State(before, _Journal(journal.operations, number, journal.after)))
        reached(f"journal {number}")
        _perform(folder, journal.operations[number])
        reached(f"done {number}")
    _write(file, _State(journal.after))
    reached("recorded")
    return journal.after


def _perform(folder: Path, operation: Operation) -> None:
    match operation:
        case Move(source, target):
            _rename(folder, folder / source, folder / target)
        case Remove(name):
            trash = folder / TRASH
            trash.mkdir(exist_ok=True)
            number = sum(1 for _ in trash.iterdir())
            _rename(folder, folder / name, trash / f"{name}.{number}")
        case Forget(worker, class_name):
            _forget(_record_file(folder, worker), class_name)


def _rename(folder: Path, source: Path, target: Path) -> None:
    if not source.exists():
        return  # never stored anything, or done before a crash
    if target.exists():
        message = f"{source.name} cannot become {target.name}: that folder is there already; move one of them away"
        raise MigrationError(Diagnostic("existing-class", None, message))
    source.rename(target)
    _sync_folder(target.parent)
    _sync_folder(folder)


def _forget(file: Path, class_name: str) -> None:
    current = _read(file)
    if current.record is not None and class_name in current.record.classes:
        classes = {name: stored for name, stored in current.record.classes.items() if name != class_name}
        _write(file, _State(Record(current.record.applied, classes), current.journal))


def _empty_trash(folder: Path) -> None:
    trash = folder / TRASH
    if trash.is_dir():
        shutil.rmtree(trash)


def _record_file(folder: Path, worker: str) -> Path:
    return folder / f"{worker}{SUFFIX}"


# The file


def _write(file: Path, state: _State) -> None:
    """Replaces the record: it is either the old or the new one, whole, whatever happens."""
    journal = state.journal
    content = {
        "format": FORMAT,
        "record": None if state.record is None else _encode_record(state.record),
        "journal": None
        if journal is None
        else {
            "operations": [{"do": type(o).__name__.lower(), **_fields(o)} for o in journal.operations],
            "done": journal.done,
            "after": _encode_record(journal.after),
        },
    }
    temporary = file.with_name(f".{file.name}.new")
    with temporary.open("w", encoding="utf-8") as out:
        json.dump(content, out, indent=1)
        out.flush()
        os.fsync(out.fileno())
    temporary.replace(file)
    _sync_folder(file.parent)


def _fields(operation: Operation) -> dict[str, str]:
    return {name: getattr(operation, name) for name in operation.__slots__}


def _encode_record(record: Record) -> dict[str, Any]:
    return {
        "applied": [{"tag": step.tag, "digest": step.digest} for step in record.applied],
        "classes": {
            name: {"storage": stored.storage, "unique_key": stored.unique_key, "declared": stored.declared}
            for name, stored in record.classes.items()
        },
    }


def _read(file: Path) -> _State:
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return _State(None)
    except ValueError as error:
        raise _unreadable(file, error) from None
    try:
        if content["format"] != FORMAT:
            raise ValueError(f"format {content['format']} is newer than this version")
        journal = content["journal"]
        return _State(
            None if content["record"] is None else _decode_record(content["record"]),
            None
            if journal is None
            else _Journal(
                tuple(_decode_operation(entry) for entry in journal["operations"]),
                journal["done"],
                _decode_record(journal["after"]),
            ),
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise _unreadable(file, error) from None


def _unreadable(file: Path, error: Exception) -> MigrationError:
    message = f"the record {file} cannot be read ({error}): restore it from a backup; nothing was touched"
    return MigrationError(Diagnostic("unreadable-record", None, message))


_OPERATIONS: dict[str, type[Operation]] = {"create": Create, "move": Move, "remove": Remove, "forget": Forget}


def _decode_operation(entry: dict[str, str]) -> Operation:
    fields = {name: value for name, value in entry.items() if name != "do"}
    return _OPERATIONS[entry["do"]](**cast("Any", fields))


def _decode_record(content: dict[str, Any]) -> Record:
    return Record(
        tuple(AppliedStep(step["tag"], step["digest"]) for step in content["applied"]),
        {
            name: StoredClass(stored["storage"], stored["unique_key"], stored["declared"])
            for name, stored in content["classes"].items()
        },
    )


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)

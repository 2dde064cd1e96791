"""What has to be done to a state folder so that stored data follows the migrations. Pure: nothing is read or
written.

The platform's local tool leaves data where it is, so objects start empty after a rename. Here data follows, in two
parts: the folder `<worker>-<Class>` is moved, and the class keeps the key from which ids are made (`unique_key`),
since ids made from another key would name other objects.

Data is destroyed by `deleted_classes` (or the state `deleted`) alone; what would destroy any otherwise is refused.
"""

from collections.abc import Collection, Mapping, Sequence

from .diagnostics import Diagnostic
from .draft import Draft, Refusal
from .migrations import ExportedClass, MigrationRefused, MigrationStep
from .operations import AppliedStep, Plan, Record


def plan(
    worker: str,
    record: Record | None,
    *,
    steps: Sequence[MigrationStep] = (),
    exports: Sequence[ExportedClass] = (),
    bound: Collection[str] = (),
    folders: Collection[str] = (),
    others: Mapping[str, Record] | None = None,
) -> Plan:
    """Plans the way from `record` to what the configuration says.

    record: of this Worker; None for a folder without one (new, or filled by hand).
    steps, exports: of the configuration; at most one of them has entries.
    bound: own classes that have a binding. folders: the class folders that exist. others: records of other Workers.

    Without a record nothing is deleted: whether a folder holds the old or the new class of a name cannot be known.
    A refusal has the code `unknown-class`, `existing-class`, `unknown-tag`, `storage-mismatch`,
    `class-still-bound` or `bad-class-name`.
    """
    draft = Draft(worker, record, set(folders), others or {})
    try:
        for name in (*_names(steps), *(entry.name for entry in exports), *bound):
            draft.check_name(name)
        if exports:
            draft.follow_exports(exports)
        elif record is None:
            draft.adopt(steps)
        else:
            draft.follow_steps(steps, record)
        draft.check_bound(bound)
    except MigrationRefused as refused:
        path = f"migrations[{refused.index}].{refused.step}"
        return _refused(draft, Diagnostic(refused.code, path, str(refused)))
    except Refusal as refusal:
        return _refused(draft, refusal.diagnostic)
    applied = tuple(AppliedStep(step.tag, step.digest) for step in steps) or (record.applied if record else ())
    return Plan(tuple(draft.operations), Record(applied, dict(draft.classes)), tuple(draft.warnings))


def _refused(draft: "Draft", diagnostic: Diagnostic) -> Plan:
    return Plan((), draft.before, tuple(draft.warnings), diagnostic)


def _names(steps: Sequence[MigrationStep]) -> list[str]:
    names: list[str] = []
    for step in steps:
        names += (*step.deleted, *step.new, *step.new_sqlite)
        names += (name for move in step.renamed for name in (move.source, move.target))
        names += (name for move in step.transferred for name in (move.source, move.target))
    return names

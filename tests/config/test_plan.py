"""Plans: what a state folder needs, and what is refused."""

from collections.abc import Sequence

import pytest

from moorage.wrangler_compat.config import MigrationStep, Plan, Record, StoredClass, plan
from moorage.wrangler_compat.config.migrations import ExportedClass, Rename, Transfer
from moorage.wrangler_compat.config.operations import Create, Forget, Move, Remove

V1 = MigrationStep("v1", new_sqlite=("A",))
TO_B = MigrationStep("v2", renamed=(Rename("A", "B"),))
DELETE_A = MigrationStep("v2", deleted=("A",))


def after(*steps: MigrationStep) -> Record:
    """The record of a folder that saw these steps from the beginning, one by one."""
    record = Record()
    for count in range(1, len(steps) + 1):
        planned = plan("w", record, steps=steps[:count])
        assert planned.refusal is None
        record = planned.record
    return record


def codes(planned: Plan) -> list[str]:
    return [warning.code for warning in planned.warnings]


def refusal(planned: Plan) -> str:
    assert planned.refusal is not None
    assert planned.operations == ()
    return planned.refusal.code


def test_a_new_folder_only_learns_the_classes() -> None:
    planned = plan("w", None, steps=[V1, TO_B])
    assert planned.operations == (Create("B", "sqlite"),)
    assert planned.record.classes == {"B": StoredClass("sqlite", "w-B")}
    assert not planned.touches_data
    assert plan("w", planned.record, steps=[V1, TO_B]).operations == ()


def test_data_follows_a_rename_and_ids_stay() -> None:
    planned = plan("w", after(V1), steps=[V1, TO_B], folders={"w-A"})
    assert planned.operations == (Move("w-A", "w-B"),)
    assert planned.record.classes == {"B": StoredClass("sqlite", "w-A")}
    assert planned.touches_data


def test_a_new_class_of_an_old_name_gets_ids_of_its_own() -> None:
    steps = [V1, TO_B, MigrationStep("v3", new_sqlite=("A",))]
    record = after(*steps)
    assert record.classes == {"B": StoredClass("sqlite", "w-A"), "A": StoredClass("sqlite", "w-A~2")}


def test_a_swap_goes_through_a_third_name() -> None:
    both = MigrationStep("v1", new_sqlite=("A", "B"))
    swap = MigrationStep("v2", renamed=(Rename("A", "T"), Rename("B", "A"), Rename("T", "B")))
    planned = plan("w", after(both), steps=[both, swap], folders={"w-A", "w-B"})
    assert planned.operations == (Move("w-A", "w-T"), Move("w-B", "w-A"), Move("w-T", "w-B"))
    assert {name: stored.unique_key for name, stored in planned.record.classes.items()} == {"B": "w-A", "A": "w-B"}


def test_deleting_deletes_and_a_new_class_starts_empty() -> None:
    again = MigrationStep("v2", deleted=("A",), new_sqlite=("A",))
    planned = plan("w", after(V1), steps=[V1, again], folders={"w-A"}, bound={"A"})
    assert planned.operations == (Remove("w-A"), Create("A", "sqlite"))


def test_a_class_that_is_still_bound_is_not_deleted() -> None:
    assert refusal(plan("w", after(V1), steps=[V1, DELETE_A], bound={"A"}, folders={"w-A"})) == "class-still-bound"
    assert plan("w", after(V1), steps=[V1, DELETE_A], folders={"w-A"}).operations == (Remove("w-A"),)


def test_renaming_onto_stored_objects_is_refused() -> None:
    both = MigrationStep("v1", new_sqlite=("A", "B"))
    assert refusal(plan("w", after(both), steps=[both, TO_B], folders={"w-A", "w-B"})) == "existing-class"
    assert plan("w", after(both), steps=[both, TO_B], folders={"w-A"}).operations == (Move("w-A", "w-B"),)


def test_a_tag_that_is_gone_is_refused() -> None:
    assert refusal(plan("w", after(V1, TO_B), steps=[V1, MigrationStep("v3", new=("C",))])) == "unknown-tag"


def test_steps_before_the_last_tag_may_be_gone() -> None:
    squashed = [MigrationStep("v2", new_sqlite=("B",)), MigrationStep("v3", new=("C",))]
    planned = plan("w", after(V1, TO_B), steps=squashed)
    assert planned.operations == (Create("C", "legacy-kv"),)
    assert codes(planned) == ["history-changed"]


def test_an_edited_step_warns_and_its_new_classes_are_created() -> None:
    planned = plan("w", after(V1), steps=[MigrationStep("v1", new_sqlite=("A", "B"))])
    assert planned.operations == (Create("B", "sqlite"),)
    assert codes(planned) == ["step-edited"]


def test_a_legacy_class_never_becomes_sql() -> None:
    legacy = MigrationStep("v1", new=("A",))
    assert refusal(plan("w", after(legacy), steps=[V1])) == "storage-mismatch"


def test_migrations_that_are_all_gone_change_nothing() -> None:
    planned = plan("w", after(V1), steps=[], folders={"w-A"})
    assert planned.operations == ()
    assert codes(planned) == ["history-gone", "class-not-declared"]
    assert planned.record == after(V1)


def test_a_bound_class_keeps_its_ids_when_it_is_declared() -> None:
    bound = plan("w", None, bound={"A"})
    assert bound.record.classes == {"A": StoredClass("legacy-kv", "w-A", declared=False)}
    declared = plan("w", bound.record, steps=[V1], bound={"A"}, folders={"w-A"})
    assert declared.operations == (Create("A", "sqlite"),)
    assert declared.record.classes == {"A": StoredClass("sqlite", "w-A")}


@pytest.mark.parametrize("name", ["../x", "a/b", "", ".", "a-b", "1a"])
def test_a_class_name_that_is_no_identifier_is_refused(name: str) -> None:
    step = MigrationStep("v1", new=(name,))
    assert refusal(plan("w", None, steps=[step])) == "bad-class-name"
    assert refusal(plan("w", None, bound={name})) == "bad-class-name"


def test_a_contradiction_of_the_file_is_refused_with_its_place() -> None:
    planned = plan("w", None, steps=[V1, V1])
    assert planned.refusal is not None
    assert (planned.refusal.code, planned.refusal.path) == ("existing-class", "migrations[1].new_sqlite_classes")


# Without a record


def test_a_folder_without_a_record_loses_nothing() -> None:
    again = MigrationStep("v3", new_sqlite=("A",))
    planned = plan("w", None, steps=[V1, DELETE_A, again], folders={"w-A"})
    assert planned.operations == (Create("A", "sqlite"),)


@pytest.mark.parametrize(
    ("folders", "moves"),
    [
        (["w-A"], [Move("w-A", "w-C")]),
        (["w-B"], [Move("w-B", "w-C")]),
        (["w-A", "w-B"], [Move("w-B", "w-C")]),
        (["w-A", "w-C"], []),
        ([], []),
    ],
)
def test_a_folder_without_a_record_follows_renames(folders: list[str], moves: Sequence[Move]) -> None:
    planned = plan("w", None, steps=[V1, TO_B, MigrationStep("v3", renamed=(Rename("B", "C"),))], folders=folders)
    assert planned.operations == (Create("C", "sqlite"), *moves)


def test_a_live_class_keeps_its_folder_in_a_folder_without_a_record() -> None:
    planned = plan("w", None, steps=[V1, TO_B, MigrationStep("v3", new_sqlite=("A",))], folders={"w-A"})
    assert not planned.touches_data


# Transfers

TAKE = MigrationStep("v1", transferred=(Transfer("A", "old", "B"),))


def test_a_transferred_class_brings_storage_and_ids() -> None:
    others = {"old": Record(classes={"A": StoredClass("legacy-kv", "old-A")})}
    for record in (None, Record()):
        planned = plan("w", record, steps=[TAKE], folders={"old-A"}, others=others)
        assert planned.record.classes == {"B": StoredClass("legacy-kv", "old-A")}
        assert [o for o in planned.operations if not isinstance(o, Create)] == [
            Move("old-A", "w-B"),
            Forget("old", "A"),
        ]


def test_a_transfer_of_nothing_creates_the_class() -> None:
    planned = plan("w", Record(), steps=[TAKE])
    assert planned.operations == (Create("B", "sqlite"),)
    assert codes(planned) == ["nothing-to-transfer"]


def test_a_transfer_onto_stored_objects_is_refused() -> None:
    assert refusal(plan("w", Record(), steps=[TAKE], folders={"old-A", "w-B"})) == "existing-class"


def test_a_worker_name_that_is_none_is_refused() -> None:
    for record in (None, Record()):
        step = MigrationStep("v1", transferred=(Transfer("A", "../old", "B"),))
        assert refusal(plan("w", record, steps=[step], folders={"x"})) == "bad-class-name"


# Exports

LIVE_A = ExportedClass("A", "created", "sqlite")
LIVE_B = ExportedClass("B", "created", "sqlite")


def test_exports_create_and_are_done_then() -> None:
    planned = plan("w", None, exports=[LIVE_A])
    assert planned.operations == (Create("A", "sqlite"),)
    assert plan("w", planned.record, exports=[LIVE_A]).operations == ()


def test_exports_rename_once_whatever_their_order() -> None:
    record = plan("w", None, exports=[LIVE_A]).record
    tombstones = [ExportedClass("A", "renamed", other="B"), ExportedClass("B", "renamed", other="C"),
                  ExportedClass("C", "created", "sqlite")]  # fmt: skip
    for exports in (tombstones, tombstones[::-1]):
        planned = plan("w", record, exports=exports, folders={"w-A"})
        assert planned.operations == (Move("w-A", "w-C"),)
        assert planned.record.classes == {"C": StoredClass("sqlite", "w-A")}
        assert plan("w", planned.record, exports=exports, folders={"w-C"}).operations == ()


def test_exports_delete_what_the_record_has() -> None:
    record = plan("w", None, exports=[LIVE_A]).record
    gone = [ExportedClass("A", "deleted")]
    assert plan("w", record, exports=gone, folders={"w-A"}).operations == (Remove("w-A"),)
    assert plan("w", None, exports=gone, folders={"w-A"}).operations == ()
    assert refusal(plan("w", record, exports=gone, folders={"w-A"}, bound={"A"})) == "class-still-bound"


def test_exports_transfer() -> None:
    others = {"old": Record(classes={"A": StoredClass("sqlite", "old-A")})}
    expecting = [ExportedClass("A", "expecting-transfer", "sqlite", "old")]
    planned = plan("w", None, exports=expecting, folders={"old-A"}, others=others)
    assert planned.operations == (Move("old-A", "w-A"), Forget("old", "A"))
    given = plan("old", others["old"], exports=[ExportedClass("A", "transferred", other="w")], folders={"old-A"})
    assert given.operations == ()
    assert codes(given) == ["not-yet-transferred"]


def test_exports_do_not_change_the_storage() -> None:
    record = plan("w", None, exports=[LIVE_A]).record
    assert refusal(plan("w", record, exports=[ExportedClass("A", "created", "legacy-kv")])) == "storage-mismatch"


def test_exports_take_over_from_migrations() -> None:
    planned = plan("w", after(V1), exports=[ExportedClass("A", "renamed", other="B"), LIVE_B], folders={"w-A"})
    assert planned.operations == (Move("w-A", "w-B"),)


def test_a_circle_of_renames_ends() -> None:
    record = plan("w", None, exports=[LIVE_A]).record
    circle = [ExportedClass("A", "renamed", other="B"), ExportedClass("B", "renamed", other="A")]
    assert plan("w", record, exports=circle).refusal is None


def test_operations_say_what_they_do() -> None:
    assert [o.describe() for o in (Create("A", "sqlite"), Move("a", "b"), Remove("a"), Forget("w", "A"))] == [
        "create the class A (sqlite)",
        "move the stored objects a to b",
        "DELETE the stored objects a",
        "take the class A out of the record of w",
    ]

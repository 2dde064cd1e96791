"""Migrations on a real folder: data follows, and a process that dies anywhere loses and doubles nothing."""

import json
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moorage.wrangler_compat.config import WorkerConfig, load
from moorage.wrangler_compat.host.migrate import Applied, MigrationError, apply, pending

NAMES = "ABCD"
Step = dict[str, Any]


class Crash(BaseException):
    """Stands for the end of the process."""


def config_of(folder: Path, steps: list[Step], **more: Any) -> WorkerConfig:
    (folder / "wrangler.json").write_text(json.dumps({"name": "w", "migrations": steps, **more}))
    return load(folder, environ={}).require()


def store(state: Path, name: str, content: str) -> None:
    folder = state / "do" / name
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "object").write_text(content)


def stored(state: Path) -> dict[str, str]:
    return {path.parent.name: path.read_text() for path in (state / "do").glob("*/object")}


@st.composite
def histories(draw: st.DrawFn) -> list[tuple[Step, dict[str, str]]]:
    """Valid steps, each with what lives after it: class to the identity it was created with."""
    live: dict[str, str] = {}
    result = []
    for number in range(draw(st.integers(1, 5))):
        step: Step = {"tag": f"v{number}"}
        doomed = [name for name in list(live) if draw(st.integers(0, 3)) == 0]
        for name in doomed:
            del live[name]
        renames = []
        for name in list(live):
            free = [other for other in NAMES if other not in live]
            if draw(st.booleans()) and free:
                target = draw(st.sampled_from(free))
                live[target] = live.pop(name)
                renames.append({"from": name, "to": target})
        created = [name for name in NAMES if name not in live and draw(st.booleans())]
        for name in created:
            live[name] = f"{name} of step {number}"
        step |= {"deleted_classes": doomed, "renamed_classes": renames, "new_sqlite_classes": created}
        result.append((step, dict(live)))
    return result


def apply_until_done(state: Path, config: WorkerConfig, crash_after: list[int]) -> Applied:
    """Applies; each number lets the process end at that point, whereupon the next start goes on."""
    for limit in crash_after:
        left = limit

        def reached(point: str) -> None:
            nonlocal left
            if left == 0:
                raise Crash(point)
            left -= 1

        try:
            return apply(state, config, reached=reached)
        except Crash:
            continue
    return apply(state, config)


@settings(max_examples=60, deadline=None)
@given(histories(), st.lists(st.integers(0, 6), max_size=4), st.integers(1, 3))
def test_data_follows_its_class_whatever_happens(
    history: list[tuple[Step, dict[str, str]]], crash_after: list[int], stride: int
) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder, state = Path(name), Path(name) / "state"
        keys: dict[str, str] = {}
        for end in range(stride, len(history) + stride, stride):
            seen = history[:end]
            live = seen[-1][1]
            applied = apply_until_done(state, config_of(folder, [step for step, _ in seen]), crash_after)
            assert applied.classes.keys() == live.keys()
            for class_name, identity in live.items():
                # ids are made from the key, so it must stay with the data
                key = keys.setdefault(identity, applied.classes[class_name].unique_key)
                assert applied.classes[class_name].unique_key == key
                here = stored(state).get(f"w-{class_name}")
                assert here in (None, identity)
                store(state, f"w-{class_name}", identity)
            assert stored(state) == {f"w-{class_name}": identity for class_name, identity in live.items()}
            assert len({applied.classes[n].unique_key for n in live}) == len(live)
            assert apply(state, config_of(folder, [step for step, _ in seen])).operations == ()


V1: Step = {"tag": "v1", "new_sqlite_classes": ["A", "B", "C"]}
V2: Step = {
    "tag": "v2",
    "deleted_classes": ["B"],
    "renamed_classes": [{"from": "A", "to": "B"}, {"from": "C", "to": "A"}],
    "new_sqlite_classes": ["C"],
}


def prepared(folder: Path) -> tuple[Path, WorkerConfig]:
    state = folder / "state"
    apply(state, config_of(folder, [V1]))
    for name in "ABC":
        store(state, f"w-{name}", name)
    return state, config_of(folder, [V1, V2])


def points(tmp_path: Path) -> list[str]:
    state, config = prepared(tmp_path)
    names: list[str] = []
    apply(state, config, reached=names.append)
    return names


def test_every_point_of_a_crash_is_resumed(tmp_path: Path) -> None:
    (tmp_path / "count").mkdir()
    names = points(tmp_path / "count")
    assert len(names) == 7  # three operations on disk, before and after each, and the end
    for number in range(len(names)):
        folder = tmp_path / str(number)
        folder.mkdir()
        state, config = prepared(folder)
        done = apply_until_done(state, config, [number])
        assert stored(state) == {"w-B": "A", "w-A": "C"}, names[number]
        assert {name: stored.unique_key for name, stored in done.classes.items()} == {
            "B": "w-A", "A": "w-C", "C": "w-C~2",
        }  # fmt: skip
        assert done.resumed == (names[number] != "recorded")
        assert not (state / "do" / ".deleted").exists()


def test_pending_reads_only_and_says_the_same(tmp_path: Path) -> None:
    state, config = prepared(tmp_path)
    before = {path: path.read_bytes() for path in state.rglob("*") if path.is_file()}
    planned = pending(state, config)
    assert {path: path.read_bytes() for path in state.rglob("*") if path.is_file()} == before
    assert apply(state, config).operations == planned.operations
    assert pending(state, config).operations == ()


def test_pending_of_a_folder_that_is_not_there(tmp_path: Path) -> None:
    assert [o.describe() for o in pending(tmp_path / "none", config_of(tmp_path, [V1])).operations] == [
        "create the class A (sqlite)", "create the class B (sqlite)", "create the class C (sqlite)",
    ]  # fmt: skip
    assert not (tmp_path / "none").exists()


def test_pending_after_a_crash_counts_what_is_left(tmp_path: Path) -> None:
    state, config = prepared(tmp_path)
    stop = iter([False, False, True])

    def reached(point: str) -> None:
        if next(stop):
            raise Crash(point)

    with pytest.raises(Crash):
        apply(state, config, reached=reached)
    assert [o.describe() for o in pending(state, config).operations] == [
        "move the stored objects w-A to w-B",
        "move the stored objects w-C to w-A",
        "create the class C (sqlite)",
    ]


def test_a_refusal_touches_nothing(tmp_path: Path) -> None:
    state, _ = prepared(tmp_path)
    config = config_of(tmp_path, [V1, {"tag": "v2", "renamed_classes": [{"from": "A", "to": "B"}]}])
    with pytest.raises(MigrationError, match="would be lost") as refused:
        apply(state, config)
    assert refused.value.diagnostic.code == "existing-class"
    assert stored(state) == {"w-A": "A", "w-B": "B", "w-C": "C"}


def test_a_transfer_takes_the_class_from_the_other_worker(tmp_path: Path) -> None:
    state, _ = prepared(tmp_path)
    taking = tmp_path / "taking"
    taking.mkdir()
    step = {"tag": "v1", "transferred_classes": [{"from": "A", "from_script": "w", "to": "X"}]}
    (taking / "wrangler.json").write_text(json.dumps({"name": "other", "migrations": [step]}))
    done = apply(state, load(taking, environ={}).require())
    assert done.classes["X"].unique_key == "w-A"
    assert stored(state) == {"other-X": "A", "w-B": "B", "w-C": "C"}
    left = json.loads((state / "do" / "w.migrations.json").read_text())["record"]
    assert sorted(left["classes"]) == ["B", "C"]


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "{}", '{"format": 99}', '{"format": 1, "record": {}, "journal": null}']
)
def test_a_broken_record_stops_the_start(tmp_path: Path, text: str) -> None:
    state, config = prepared(tmp_path)
    (state / "do" / "w.migrations.json").write_text(text)
    for attempt in (apply, pending):
        with pytest.raises(MigrationError, match="cannot be read"):
            attempt(state, config)
    assert stored(state) == {"w-A": "A", "w-B": "B", "w-C": "C"}


def test_a_folder_that_appeared_meanwhile_is_not_overwritten(tmp_path: Path) -> None:
    state, config = prepared(tmp_path)

    def reached(point: str) -> None:
        if point == "journal 1":
            store(state, "w-B", "stranger")

    with pytest.raises(MigrationError, match="already"):
        apply(state, config, reached=reached)
    assert stored(state)["w-B"] == "stranger"
    assert stored(state)["w-A"] == "A"

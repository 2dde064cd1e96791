"""No replayer passes over a wrong expectation: one is planted at every place that a case records.

Where a family's cases take long, a seeded choice of the places is tried.
"""

import asyncio
import json
import random
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from moorage.r2 import open_bucket
from tests.support.planted import planted, wrong_values

from . import do, jobs, ledger, r2, state_plane, sweep, wrangler
from .do_compare import compare_case
from .do_rules import RULES
from .do_values import JavaScriptOnly
from .r2_rules import Difference, rule_for
from .r2_values import differences, fold
from .result import CaseResult

VECTORS = Path(__file__).parents[1] / "vectors"

Case = dict[str, Any]
Places = Iterator[tuple[tuple[Any, ...], Any]]


def documents(family: str) -> Iterator[tuple[str, Case]]:
    for path in sorted((VECTORS / family).glob("*.json")):
        yield path.stem, json.loads(path.read_text(encoding="utf-8"))


@pytest.mark.parametrize("area", do.AREAS)
def test_every_place_of_a_durable_object_observation(area: str) -> None:
    unnoticed = []
    for case in json.loads((VECTORS / "do" / f"{area}.json").read_text())["cases"]:
        try:
            got = asyncio.run(do.Harness(case).replay())
        except JavaScriptOnly:
            continue
        if "quirk" in case.get("tags", ()):
            continue  # whatever differs there may stand
        excused = {
            difference.path
            for difference in compare_case(case, got)
            if any(rule.allows(difference) for rule in RULES)
        }
        for path, wrong in wrong_values(case["observed"]):
            spoilt = {**case, "observed": planted(case["observed"], path, wrong)}
            found = [
                difference
                for difference in _compared(spoilt, got)
                if difference is None or not any(rule.allows(difference) for rule in RULES)
            ]
            if not found and not any(path[:3] == other[:3] for other in excused):
                unnoticed.append((case["name"], path, wrong))
    assert unnoticed == []


def _compared(case: Case, got: list[Any]) -> list[Any]:
    try:
        return list(compare_case(case, got))
    except (ValueError, KeyError):
        return [None]  # another number of observations, a text that is no JSON any more, an unknown kind of value


def test_every_place_of_an_r2_observation() -> None:
    async def outcomes(bucket: Any, case: Case) -> list[Any]:
        await r2._empty(bucket)
        variables: Case = {}
        return [await r2._outcome(bucket, step, variables) for step in case["steps"]]

    unnoticed = []
    with tempfile.TemporaryDirectory() as state, asyncio.Runner() as runner:
        opened = open_bucket("memory", name="planted", state_folder=Path(state), now=r2.within_a_second)
        bucket = runner.run(opened)
        for area in r2.AREAS:
            for case in json.loads((VECTORS / "do" / f"{area}.json").read_text())["cases"][::3]:
                got = runner.run(outcomes(bucket, case))
                for path, wrong in wrong_values(case["observed"]):
                    observed = planted(case["observed"], path, wrong)
                    if len(observed) == len(got) and not _r2_notices(case, observed, got):
                        unnoticed.append((case["name"], path, wrong))
        runner.run(bucket.close())
    assert unnoticed == []


def _r2_notices(case: Case, observed: list[Any], got: list[Any]) -> bool:
    try:
        return _r2_differences(case, observed, got)
    except KeyError:
        return True  # an unknown kind of value


def _r2_differences(case: Case, observed: list[Any], got: list[Any]) -> bool:
    return any(
        rule_for(Difference((number, *path), one, other, {**case, "observed": observed}, step, "memory")) is None
        for number, (step, expected, result) in enumerate(zip(case["steps"], observed, got, strict=True))
        for path, one, other in differences(fold(expected), result)
    )


def _of_steps(steps: list[Case], names: tuple[str, ...], key: str = "steps") -> Places:
    for number, step in enumerate(steps):
        for name in names:
            if name in step:
                for path, wrong in wrong_values(step[name]):
                    yield (key, number, name, *path), wrong


def _of_members(case: Case, given: tuple[str, ...]) -> Places:
    for name, value in case.items():
        if name not in given:
            for path, wrong in wrong_values(value):
                yield (name, *path), wrong


WRANGLER_GIVEN = (
    "name", "file", "text", "env", "config_vars", "secrets", "files", "migrations", "unique_key",
    "why",
)  # fmt: skip
LEDGER_GIVEN = (
    "id", "group", "note", "mode", "input", "input_parts", "function", "args", "kind", "value", "value_parts", "left",
    "right", "name", "now", "generated_occurred_at", "content", "files", "files_base64", "links", "dirs", "dir_range",
    "file_range", "repository", "components", "identity", "event_lines", "recipes", "reverse", "index", "count",
    "component", "env", "partition_marker", "path", "lane", "response_status", "event_line", "ops", "steps",
)  # fmt: skip
LEDGER_STEP = ("event_id", "disabled", "paths", "written", "started", "result", "events")
STATE_PLANE_STEP = ("response", "statuses", "each", "dispatch", "result", "targz")


def _wrangler() -> Iterator[tuple[Case, Places, Callable[[Case], CaseResult]]]:
    def play(check: Callable[[Case], str], name: str, case: Case) -> CaseResult:
        try:
            difference = check(case)
        except Exception as error:
            difference = str(error) or "failed"
        return CaseResult("wrangler", "", name, "failed" if difference else "passed")

    for area, document in documents("wrangler"):
        for name, case, check in wrangler.REPLAYERS[area](document):
            given = (*WRANGLER_GIVEN, "text" if "text" in case else "name")
            # An id of the real runtime is given as much as expected; both halves are compared all the same.
            yield case, _of_members(case, given), partial(play, check, name)


def _sweep() -> Iterator[tuple[Case, Places, Callable[[Case], CaseResult]]]:
    for area, document in documents("sweep"):
        for sequence in document["sequences"]:
            yield sequence, _of_steps(sequence["steps"], ("expect",)), partial(sweep.play_case, area)


def _jobs() -> Iterator[tuple[Case, Places, Callable[[Case], CaseResult]]]:
    def in_folder(area: str, fixture: Case, case: Case) -> CaseResult:
        return jobs.play_sequence(area, case, fixture)

    for area, document in documents("jobs"):
        for table, cases in document.get("tables", {}).items():
            for case in cases:
                places = (((("expect", *path)), wrong) for path, wrong in wrong_values(case["expect"]))
                yield case, places, partial(jobs.play_table, area, table)
        for sequence in document.get("sequences", ()):
            fixture = json.loads((VECTORS / "jobs" / document["fixture"]).read_text())
            yield sequence, _of_steps(sequence["steps"], ("expect",)), partial(in_folder, area, fixture)


def _ledger() -> Iterator[tuple[Case, Places, Callable[[Case], CaseResult]]]:
    def places(case: Case) -> Places:
        for path, wrong in _of_members(case, LEDGER_GIVEN):
            if "rejected" not in path and path != ("flush_rejected",):  # the class of a refusal is advice
                yield path, wrong
        for key in ("ops", "steps"):
            yield from _of_steps(case.get(key, []), LEDGER_STEP, key)

    for area, document in documents("ledger"):
        for case in document["cases"]:
            yield case, places(case), partial(ledger.play, area)


def _state_plane() -> Iterator[tuple[Case, Places, Callable[[Case], CaseResult]]]:
    for area, document in documents("state-plane"):
        for sequence in document["sequences"]:
            yield sequence, _of_steps(sequence["steps"], STATE_PLANE_STEP), partial(state_plane.replay, area)


@pytest.mark.parametrize(
    ("cases", "tried"),
    [(_wrangler, 600), (_sweep, 250), (_ledger, 350), (_jobs, 60), (_state_plane, 40)],
    ids=["wrangler", "sweep", "ledger", "jobs", "state-plane"],
)
def test_places_of_the_other_families(cases: Callable[[], Any], tried: int) -> None:
    chosen = random.Random(20)
    every = [(case, list(places), play) for case, places, play in cases()]
    unnoticed = []
    for _ in range(tried):
        case, places, play = chosen.choice(every)
        if not places:
            continue
        path, wrong = chosen.choice(places)
        if _says_nothing(case, path):
            continue
        if play(planted(case, path, wrong)).outcome != "failed":
            unnoticed.append((case.get("id", case.get("name")), path, wrong))
    assert unnoticed == []


FREE = ("subset", "note", "injectedArray")


def _says_nothing(case: Case, path: tuple[Any, ...]) -> bool:
    """Inside of a mask a wider one may be planted, free text is free, and a table's rows may lend what they hold."""
    value: Any = case
    for step in path:
        if isinstance(value, dict) and (any(key.startswith("$") for key in value) or step in FREE):
            return True
        value = value[step]
    return bool(value == "<wording>")

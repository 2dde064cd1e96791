"""Properties of the job rules: parsers never break, rendering cannot be escaped from, decisions are total."""

import functools
import json
import re
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moorage.protocols.jobs import (
    catalogue,
    findings,
    hashes,
    ids,
    manifests,
    rendering,
    reports,
    schemas,
    settings,
    shapes,
    states,
    wire,
)
from moorage.protocols.jobs.errors import Refused
from moorage.protocols.jobs.records import parse_record
from moorage.protocols.jobs.steps import Statement, Steps, run_steps

from ..support.jobs_memory import EXTENSIONS, MemoryQueue

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=12), inner, max_size=4),
    max_leaves=12,
)
PATHS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=30)
MARKS = ["</user-content>", "</ USER-content\t>", "&#x200B;", "<user-content id=", "{{userContent}}", " x "]
BODIES = st.text(st.characters(exclude_categories=["Cs"]), max_size=80) | st.lists(st.sampled_from(MARKS)).map(
    "".join
)


def outcome(function: Callable[[], Any]) -> tuple[Any, Any]:
    """What a function gives, or its refusal."""
    try:
        return function(), None
    except (Refused, manifests.ManifestError) as error:
        return None, error


@given(st.integers(-(2**53) + 1, 2**53 - 1))
def test_plain_integers_are_read(value: int) -> None:
    assert settings.parse_integer("--n", str(value)) == value


@given(st.text(max_size=24))
def test_any_other_spelling_is_refused(text: str) -> None:
    value, error = outcome(lambda: settings.parse_integer("--n", text))
    if error is None:
        assert str(value) == text
    else:
        assert (error.code, int(error.exit)) == ("usage", 2)


WRONG = ["007", "+5", "1.5", "1e3", "-0", "", " 1", "1\n", "٣", "9007199254740992", "9" * 5000]


@pytest.mark.parametrize("text", WRONG)
def test_spellings_of_integers_that_are_refused(text: str) -> None:
    with pytest.raises(Refused, match="--ttl"):
        settings.parse_integer("--ttl", text)


FIELD = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=8)


@given(st.tuples(*[FIELD] * 6), st.tuples(*[FIELD] * 6))
def test_different_tuples_have_different_hashes(left: Any, right: Any) -> None:
    assert (hashes.content_hash(*left) == hashes.content_hash(*right)) == (left == right)


@given(PATHS, BODIES)
def test_a_body_cannot_close_its_block(path: str, body: str) -> None:
    block = rendering.content_block(path, body)
    header, mark, rest = block.partition('">\n')
    inner = rest.removesuffix("\n</user-content>")
    assert re.search(r"</\s*user-content\s*>", inner, re.I) is None
    assert (header.count('"'), mark) == (1, '">\n')
    if "&#x200B;" not in body:
        assert rendering.display_body(inner) == body


@pytest.mark.parametrize("blank", ["", " ", "\t", "\n", "\u00a0", "\u2028", "\ufeff", "\r\n "])
def test_every_white_space_in_a_close_tag(blank: str) -> None:
    body = f"a </{blank}User-Content{blank}> b"
    block = rendering.content_block("p", body)
    assert block == f'<user-content id="p">\na </{blank}User-Content{blank}&#x200B;> b\n</user-content>'
    assert rendering.display_body(block.partition("\n")[2].removesuffix("\n</user-content>")) == body


@given(BODIES, st.booleans())
def test_a_placeholder_in_the_body_is_not_expanded(body: str, contract: bool) -> None:
    content = rendering.render("P", "<{{userContent}}>", "p", body, report_contract="C" if contract else "")
    block = rendering.content_block("p", body)
    assert content == "P\n<" + ("C\n\n" if contract else "") + block + ">"


@given(JSON)
def test_any_manifest_is_an_extension_or_an_error(value: Any) -> None:
    found, error = outcome(lambda: manifests.parse_manifest(value, "p", "{}"))
    assert str(error) if found is None else found.kind in catalogue.KINDS


@given(st.dictionaries(st.sampled_from(manifests.MEMBERS), JSON), st.sampled_from(["action", "analyzer"]))
def test_a_refused_manifest_says_why(members: dict[str, Any], kind: str) -> None:
    found = manifests.parse_manifest({**members, "id": "p/x", "kind": kind}, "p", "{}")
    estimate = members.get("probExpectedDurationSeconds")
    if found.problem is None and found.probabilistic:
        assert isinstance(estimate, int)
        assert estimate > 0
        assert found.kind == "action"  # an empty schema makes no finder


@given(st.text(max_size=60) | JSON.map(json.dumps))
def test_any_text_is_a_report_or_not(text: str) -> None:
    verdict = reports.read_report(text, "action", {}, lambda *_: None)
    assert verdict.valid == (verdict.problem is None)
    if verdict.valid:
        assert json.loads(text) == verdict.report


@pytest.mark.parametrize(
    "text", ["", "NaN", '{"a": Infinity}', '{"a": [1e400]}', "-1e999", '"\\ud800"', "[" * 100_000, "\ufeff{}"]
)
def test_texts_that_are_no_report(text: str) -> None:
    assert not reports.read_report(text, "action", {}, lambda *_: None).valid


@given(JSON)
def test_roles_of_any_value(value: Any) -> None:
    assert schemas.roles(value) == schemas.Roles()
    assert schemas.roles([value, {"x": {"$ref": schemas.TAGS}}]).tagger


MEMBERS = st.sampled_from(
    ["id", "nonce", "status", "extension", "node", "all", "ttl", "key", "findingIds", "bucket", "after"]
)


@given(st.sampled_from(sorted(wire.VERBS)), JSON | st.dictionaries(MEMBERS, JSON))
def test_any_body_is_answered_or_refused(verb: str, body: Any) -> None:
    queue = MemoryQueue()
    answer, error = outcome(lambda: queue.call(verb, body, "http"))
    queue.close()
    if error is None:
        assert isinstance(answer, dict)
    else:
        assert error.message
        assert 400 <= error.status < 500


@given(st.text(max_size=20) | st.sampled_from([extension.id for extension in EXTENSIONS]))
def test_resolution_is_total(name: str) -> None:
    for prefix in ("", "action:", "analyzer:"):
        found, error = outcome(functools.partial(catalogue.resolve_extension, prefix + name, EXTENSIONS))
        if found is None:
            assert error.code in ("not-found", "deterministic", "ambiguous")
        else:
            assert found.probabilistic
            assert prefix in ("", f"{found.kind}:")


SETS = st.none() | st.lists(st.integers(1, 5), max_size=4).map(lambda items: tuple(sorted(set(items))))
SIBLINGS = st.lists(
    st.builds(findings.Sibling, st.uuids().map(str), st.sampled_from(states.ACTIVE), SETS, st.booleans()), max_size=6
)


@given(SIBLINGS, SETS)
def test_supersede(siblings: list[findings.Sibling], wanted: tuple[int, ...] | None) -> None:
    decision = findings.decide_supersede(siblings, wanted)
    overlapping = [s for s in siblings if findings.overlap(s.finding_ids, wanted)]
    running = [s.id for s in overlapping if s.status == states.Status.RUNNING]
    twins = [s.id for s in overlapping if s.status == states.Status.QUEUED and s.same_content]
    if running:
        assert (decision.outcome, decision.conflict) == ("running-conflict", running[0])
    elif twins:
        assert (decision.outcome, decision.conflict) == ("duplicate", twins[0])
    else:
        assert decision.superseded == tuple(s.id for s in overlapping)


FINDINGS = st.lists(
    st.fixed_dictionaries(
        {"resolution": st.sampled_from([None, "fixed", "human-decision", "dismissed"]), "stale": st.booleans()}
    ),
    max_size=8,
).map(lambda rows: [{**row, "id": number} for number, row in enumerate(rows)])


@given(FINDINGS, st.sets(st.integers(0, 7)))
def test_every_finding_is_in_one_bucket(rows: list[dict[str, Any]], hidden: set[int]) -> None:
    default = findings.view(rows, hidden, "default")
    buckets = [default.findings, findings.view(rows, hidden, "fixed").findings]
    buckets.append(findings.view(rows, hidden, "dismissed").findings)
    assert sorted(row["id"] for bucket in buckets for row in bucket) == [row["id"] for row in rows]
    assert default.dismissed_excluded == len(buckets[2])
    assert default.fixed_excluded == len(buckets[1])
    stale = findings.view(rows, hidden, "stale").findings
    assert stale == tuple(row for row in default.findings if row["stale"])


@given(JSON)
def test_resolved_entries_of_any_value(value: Any) -> None:
    for entry in findings.resolved_entries([value, value]) + findings.resolved_entries(value):
        assert (entry.by is None) == (entry.state == "human-decision")


@given(st.sampled_from(states.Status), st.sampled_from(states.Trigger), st.booleans())
def test_terminal_is_terminal(status: states.Status, trigger: states.Trigger, right: bool) -> None:
    decision = states.decide(status, trigger, nonce_matches=right)
    assert decision.why
    if status in states.TERMINAL:
        assert not decision.allowed
    if decision.allowed:
        assert decision.finished == (decision.to in states.TERMINAL)
        assert (decision.failure_reason is not None) == (decision.to == states.Status.FAILED)


@given(st.text())
def test_names_of_records(text: str) -> None:
    name = parse_record(text)
    assert name is None or text == f"record:{name.slug}/{name.section}/{name.number}"


def test_ids_have_their_shape() -> None:
    with pytest.raises(ValueError, match="suffix"):
        ids.job_id(0, "12345")
    with pytest.raises(ValueError, match="mode"):
        ids.run_id("other", 0, "0000")
    with pytest.raises(ValueError, match="nonce"):
        ids.new_nonce(lambda count: "short")


def test_a_public_job_asserts_the_absence_of_its_nonce() -> None:
    assert "nonce" not in shapes.public_job({"id": "d", "nonce": "n", "auto_fix": 1, "finding_ids_json": None})
    with pytest.raises(AssertionError):
        shapes.assert_public({"nonce": None})


def test_steps_are_driven_by_anything() -> None:
    def double() -> Steps[int]:
        rows = yield Statement("SELECT ?", (21,))
        return int(rows[0]["n"]) * 2

    assert run_steps(double(), lambda statement: [{"n": statement.bindings[0]}]) == 42


@pytest.mark.parametrize(
    ("retention", "words"),
    [({"other": 1}, "other"), ({"failed": -1}, "failed"), ({"failed": True}, "failed"), ([], "object")],
)
def test_bad_retention(retention: Any, words: str) -> None:
    with pytest.raises(Refused, match=words):
        settings.resolve_retention({"jobs": {"retention": retention}})


@pytest.mark.parametrize("value", [0, -1, "2", True, 1.5])
def test_bad_claim_wait(value: Any) -> None:
    with pytest.raises(Refused, match="claimWaitSeconds"):
        settings.resolve_claim_wait({"jobs": {"claimWaitSeconds": value}})

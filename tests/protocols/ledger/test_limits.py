"""Every limit of the rules, at its last allowed value and at the first refused one."""

from collections.abc import Callable
from typing import Any

import pytest

from moorage.protocols.ledger.canonical import canonical_text, parse_json
from moorage.protocols.ledger.duplicates import scan_json
from moorage.protocols.ledger.events import build_event
from moorage.protocols.ledger.paths import data_path, path_piece
from moorage.protocols.ledger.producers import ident
from moorage.protocols.ledger.publication import lane_name
from moorage.protocols.ledger.refusals import LedgerRefusal
from moorage.protocols.ledger.shards import ShardIdentity, shard_path
from moorage.protocols.ledger.text import event_key_text, machine_text, scope_text
from moorage.protocols.ledger.timestamps import calendar_date, timestamp_text, utc_date

from .support import IDENTITY, NOW, PRODUCER, an_action, given_event

MAX = 2**53 - 1


def nested(depth: int, inner: Any) -> Any:
    for _ in range(depth):
        inner = [inner]
    return inner


def event(**changes: Any) -> Callable[[], object]:
    return lambda: build_event(given_event(**changes), recorded_at=NOW)


def with_attributes(**attributes: Any) -> Callable[[], object]:
    return event(attributes=attributes)


def with_producer(**members: Any) -> Callable[[], object]:
    return event(producer={**PRODUCER, **members})


def with_subject(**members: Any) -> Callable[[], object]:
    return event(subject={"repository": "a/b", "kind": "issue", **members})


def with_dropped(count: int) -> Callable[[], object]:
    dropped = [f"field{number % 3}" for number in range(count)]
    return event(privacy={"classification": "public", "redactionVersion": "v1", "fieldsDropped": dropped})


def with_learning(confidence: Any) -> Callable[[], object]:
    return event(learning={"category": "c", "signal": "s", "confidence": confidence})


def stamp(text: str) -> Callable[[], object]:
    return lambda: timestamp_text(text)


EXACT: list[tuple[str, Callable[[], object], Callable[[], object], str]] = [
    (
        "depth of scalars",
        lambda: canonical_text(nested(64, 1)),
        lambda: canonical_text(nested(65, 1)),
        "depth",
    ),
    ("depth of arrays", lambda: canonical_text(nested(65, [])[0]), lambda: canonical_text(nested(65, [])), "depth"),
    ("depth of a scan", lambda: scan_json("[" * 65 + "]" * 65), lambda: scan_json("[" * 66 + "]" * 66), "complexity"),
    ("nodes", lambda: canonical_text([0] * 9999), lambda: canonical_text([0] * 10_000), "nodes"),
    (
        "nodes of objects",
        lambda: canonical_text([{"a": 1}] * 4999),
        lambda: canonical_text([{"a": 1}] * 5000),
        "nodes",
    ),
    ("bytes of text", lambda: canonical_text("a" * 1_048_574), lambda: canonical_text("a" * 1_048_575), "bytes"),
    ("bytes of UTF-8", lambda: canonical_text("é" * 524_287), lambda: canonical_text("é" * 524_288), "bytes"),
    (
        "bytes of escapes",
        lambda: canonical_text("\x01" * 174_762),
        lambda: canonical_text("\x01" * 174_763),
        "bytes",
    ),
    (
        "bytes of a surrogate",
        lambda: canonical_text("\ud800" * 174_762),
        lambda: canonical_text("\ud800" * 174_763),
        "bytes",
    ),
    # {"":24} is 2 + (2 + 2) + 24 by the budget: the comma counts even after the last member
    (
        "bytes of a member",
        lambda: canonical_text({"": 0, "k": "a" * (1_048_576 - 2 - 4 - 24 - 5 - 2)}),
        lambda: canonical_text({"": 0, "k": "a" * (1_048_576 - 2 - 4 - 24 - 5 - 1)}),
        "bytes",
    ),
    ("integers", lambda: canonical_text([MAX, -MAX]), lambda: canonical_text(MAX + 1), "number"),
    ("integers below", lambda: canonical_text(-MAX), lambda: canonical_text(-MAX - 1), "number"),
    (
        "literals that round",
        lambda: canonical_text(parse_json("9007199254740991.4")),
        lambda: canonical_text(parse_json("9007199254740991.5")),
        "number",
    ),
    (
        "vanishing literals",
        lambda: canonical_text(parse_json("1e-400")),
        lambda: canonical_text(parse_json("-1e-400")),
        "number",
    ),
    ("machine text", lambda: machine_text("a" * 256), lambda: machine_text("a" * 257), "too-long"),
    ("UTF-16 units", lambda: machine_text(" " + "a" * 256), lambda: machine_text("\U0001f600" * 129), "too-long"),
    ("workflow", with_producer(workflow="w" * 128), with_producer(workflow="w" * 129), "too-long"),
    ("job", with_producer(job="j" * 128), with_producer(job="j" * 129), "too-long"),
    ("component", with_producer(component="c" * 256), with_producer(component="c" * 257), "too-long"),
    ("scope", lambda: scope_text("s" * 128), lambda: scope_text("s" * 129), "too-long"),
    (
        "event key",
        lambda: event_key_text("s" * 128 + ":" + "0" * 64),
        lambda: event_key_text("s" * 129 + ":" + "0" * 64),
        "too-long",
    ),
    (
        "data path",
        lambda: data_path("logs/" + "a" * 253 + "/" + "b" * 253),
        lambda: data_path("logs/" + "a" * 253 + "/" + "b" * 254),
        "too-long",
    ),
    ("segment", lambda: data_path("logs/" + "a" * 255), lambda: data_path("logs/" + "a" * 256), "relative-path"),
    ("lane", lambda: lane_name("l" * 64), lambda: lane_name("l" * 65), "machine-text"),
    ("phase ordinal", event(phaseSeq=MAX), event(phaseSeq=MAX + 1), "positive-integer"),
    ("least ordinal", event(phaseSeq=1), event(phaseSeq=0), "positive-integer"),
    ("ordinals are whole", event(phaseSeq=2.0), event(phaseSeq=1.5), "positive-integer"),
    ("booleans are no numbers", event(phaseSeq=1), event(phaseSeq=True), "positive-integer"),
    ("subject number", with_subject(number=1), with_subject(number=0), "positive-integer"),
    ("null subject number", with_subject(subjectId=None), with_subject(number=None), "positive-integer"),
    ("positive attribute", with_attributes(attempt=1), with_attributes(attempt=0), "positive-integer"),
    ("counting attribute", with_attributes(item_count=0), with_attributes(item_count=-1), "non-negative-integer"),
    ("large attribute", with_attributes(item_count=MAX), with_attributes(item_count=MAX + 1), "non-negative-integer"),
    ("ratio", with_attributes(coverage_ratio=1), with_attributes(coverage_ratio=1.0000000000000002), "unit-interval"),
    ("least ratio", with_attributes(coverage_ratio=5e-324), with_attributes(coverage_ratio=-5e-324), "unit-interval"),
    ("negative zero", with_attributes(coverage_ratio=0.0), with_attributes(coverage_ratio=-0.0), "number"),
    ("flag", with_attributes(partial=False), with_attributes(partial=0), "boolean"),
    ("attribute name", with_attributes(**{" model\n": "m"}), with_attributes(**{"Model": "m"}), "attribute-key"),
    ("attribute array", with_attributes(state=["a"] * 64), with_attributes(state=["a"] * 65), "collection-size"),
    ("evidence", event(evidence=[{"kind": "k"}] * 64), event(evidence=[{"kind": "k"}] * 65), "collection-size"),
    ("dropped fields, repeated too", with_dropped(64), with_dropped(65), "collection-size"),
    ("confidence", with_learning(0), with_learning("0"), "unit-interval"),
    ("parent", event(parentEventId=None), event(parentEventId=""), "sha256"),
    ("empty reason", event(action=an_action(reasonCode="")), event(action=an_action(reasonCode=" ")), "required"),
    ("empty evidence", event(evidence=()), event(evidence=[{"kind": ""}]), "required"),
    ("part", lambda: part(999_999), lambda: part(1_000_000), "shard-index"),
    ("first part", lambda: part(1), lambda: part(0), "shard-index"),
    ("leap day", lambda: calendar_date("2000-02-29"), lambda: calendar_date("1900-02-29"), "calendar-date"),
    ("year", lambda: calendar_date("0001-01-01"), lambda: calendar_date("0000-12-31"), "calendar-date"),
    ("second", stamp("2026-01-01T23:59:59Z"), stamp("2026-01-01T23:59:60Z"), "timestamp"),
    ("hour", stamp("2026-01-01T00:00:00Z"), stamp("2026-01-01T24:00:00Z"), "timestamp"),
    ("offset", stamp("2026-01-01T00:00:00-23:59"), stamp("2026-01-01T00:00:00+24:00"), "timestamp"),
    ("fraction", stamp("2026-01-01T00:00:00.0Z"), stamp("2026-01-01T00:00:00.Z"), "timestamp"),
    ("letters", stamp("2026-01-01T00:00:00Z"), stamp("2026-01-01t00:00:00z"), "timestamp"),
    (
        "last day",
        lambda: utc_date("9999-12-31T23:59:59Z"),
        lambda: utc_date("9999-12-31T23:59:59-00:01"),
        "calendar-date",
    ),
    (
        "first day",
        lambda: utc_date("0001-01-01T00:00:00Z"),
        lambda: utc_date("0001-01-01T00:00:00+00:01"),
        "calendar-date",
    ),
]


def part(index: int) -> str:
    return shard_path(ShardIdentity.of_input(IDENTITY), index, max(index, 1))


@pytest.mark.parametrize(("allowed", "refused", "code"), [row[1:] for row in EXACT], ids=[row[0] for row in EXACT])
def test_the_last_that_passes_and_the_first_that_does_not(
    allowed: Callable[[], object], refused: Callable[[], object], code: str
) -> None:
    allowed()
    with pytest.raises(LedgerRefusal) as caught:
        refused()
    assert caught.value.code == code


@pytest.mark.parametrize(
    ("value", "limit", "cut"),
    [("a" * 64, 64, False), ("a" * 65, 64, True), ("-a", 64, True), ("a-", 64, True), ("a b", 64, True)],
)
def test_a_name_that_lost_something_has_a_digest(value: str, limit: int, cut: bool) -> None:
    made = ident(value, limit)
    assert (made != value) is cut
    assert len(made) <= limit


@pytest.mark.parametrize(
    ("value", "start"),
    [
        ("CON", "_CON-"),
        ("aux.txt", "_aux.txt-"),
        ("com0", "com0"),
        ("COM9.x", "_COM9.x-"),
        ("a.", "a-"),
        ("..", "unknown"),
        ("", "unknown"),
        ("---", "unknown"),
        ("a/b", "a-b"),
        ("x" * 65, "x" * 51 + "-"),
        ("con" + "." * 70, "_con-"),
    ],
)
def test_path_pieces_are_portable(value: str, start: str) -> None:
    made = path_piece(value, 64)
    assert made.startswith(start)
    assert len(made) <= 64
    assert not made.endswith(".")

"""The rules of the index of imports: its lock, and what a batch is refused for."""

from collections.abc import Iterator
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moorage.protocols.ledger.index import (
    VERBS,
    BadBody,
    Claim,
    Clash,
    EventRow,
    Lock,
    Row,
    SetRow,
    find_clash,
    parse_body,
)


class Index:
    """Rows in memory."""

    def __init__(self) -> None:
        self.sets: dict[str, SetRow] = {}
        self.events: dict[str, EventRow] = {}

    def of_run(self, run: str) -> Iterator[tuple[str, SetRow]]:
        return ((digest, row) for digest, row in self.sets.items() if row.run_digest == run)

    def clash(self, *claims: Claim) -> Clash | None:
        return find_clash(claims, self.sets.get, self.of_run, self.events.get)

    def reserve(self, *claims: Claim) -> Clash | None:
        clash = self.clash(*claims)
        if clash is None:
            for claim in claims:
                self.sets[claim.digest] = SetRow(claim.run_digest, claim.partition_date, claim.reservation_sha256)
                for event_id, semantic, parent in claim.events:
                    self.events[event_id] = EventRow(semantic, parent, claim.digest)
        return clash


def claim(name: str, *events: tuple[str, str, str | None], run: str = "", date: str = "d", text: str = "t") -> Claim:
    return Claim(f"path/{name}", name, run or f"run-{name}", date, text, events)


def test_a_batch_is_refused_for_the_first_thing_in_its_way() -> None:
    index = Index()
    assert index.reserve(claim("s", ("a", "1", None), ("b", "1", "a"))) is None
    assert index.reserve(claim("s", ("a", "1", None), ("b", "1", "a"))) is None
    for refused, code, row in (
        (claim("s", ("a", "1", None), text="other"), "binding-conflict", Row("sets", "s")),
        (claim("u", ("c", "1", None), run="run-s", date="e"), "split-partition", Row("sets", "s")),
        (claim("u", ("a", "2", None)), "event-identity-conflict", Row("events", "a")),
        (claim("u", ("b", "1", None)), "binding-conflict", Row("events", "b")),
    ):
        found = index.clash(refused)
        assert found is not None
        assert (found.code, found.rows) == (code, (row,))
    assert index.clash(claim("u", ("c", "1", "b"), run="run-s")) is None


def test_a_circle_through_stored_events_names_them() -> None:
    index = Index()
    assert index.reserve(claim("s", ("b", "1", "a"), ("c", "1", "b"))) is None
    found = index.clash(claim("u", ("a", "1", "c")))
    assert found is not None
    assert found.code == "causal-cycle"
    assert set(found.rows) == {Row("events", "b"), Row("events", "c")}
    within = index.clash(claim("u", ("x", "1", "y")), claim("v", ("y", "1", "x")))
    assert within is not None
    assert (within.code, within.rows) == ("causal-cycle", ())


@given(st.lists(st.tuples(st.integers(0, 7), st.none() | st.integers(0, 7)), max_size=30))
def test_what_was_reserved_one_by_one_never_has_a_circle(edges: list[tuple[int, int | None]]) -> None:
    index = Index()
    for number, (child, parent) in enumerate(edges):
        if child != parent:
            event = (str(child), "1", None if parent is None else str(parent))
            clash = index.reserve(claim(str(number), event))
            assert clash is None or clash.code in ("binding-conflict", "causal-cycle")
    for event_id in index.events:
        seen: set[str] = set()
        at: str | None = event_id
        while at is not None:
            assert at not in seen
            seen.add(at)
            row = index.events.get(at)
            at = None if row is None else row.parent


@pytest.mark.parametrize(
    ("lock", "holder", "now", "token"),
    [
        (Lock(), "a", 0, 1),
        (Lock(4, None, 0), "a", 0, 5),
        (Lock(4, "a", 10_000), "a", 0, 5),
        (Lock(4, "b", 10_000), "a", 9_999, None),
        (Lock(4, "b", 10_000), "a", 10_000, 5),
    ],
)
def test_who_may_take_the_lock(lock: Lock, holder: str, now: int, token: int | None) -> None:
    taken = lock.acquired(holder, 60, now)
    assert (None if taken is None else taken.token) == token
    assert taken is None or (taken.holder, taken.expires_at) == (holder, now + 60_000)


@pytest.mark.parametrize(
    ("holder", "token", "now", "reason"),
    [
        ("a", 4, 9_999, None),
        ("a", 4, 10_000, "time is over"),
        ("a", 3, 0, "took the lock since"),
        ("b", 4, 0, "never held"),
        ("a", 5, 0, "never held"),
    ],
)
def test_who_may_write(holder: str, token: int, now: int, reason: str | None) -> None:
    found = Lock(4, "a", 10_000).refusal(holder, token, now)
    assert found is None if reason is None else reason in str(found)


@given(st.sampled_from(sorted(VERBS)), st.binary(max_size=60))
def test_no_body_is_more_than_refused(verb: str, data: bytes) -> None:
    with suppress(BadBody):
        parse_body(verb, data)


@pytest.mark.parametrize("data", [b"[" * 100_000, b'{"holder":"\\ud800"}', b"\xff", b"[]", b'{"holder":1}'])
def test_bodies_that_are_refused(data: bytes) -> None:
    with pytest.raises(BadBody):
        parse_body("lock-acquire", data)

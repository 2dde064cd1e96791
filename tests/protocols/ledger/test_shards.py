"""Order and packing do not depend on how the events were given."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moorage.protocols.ledger import shards
from moorage.protocols.ledger.batch import check_batch, parse_source_shard
from moorage.protocols.ledger.events import Event
from moorage.protocols.ledger.order import causal_order, order_key
from moorage.protocols.ledger.refusals import LedgerRefusal
from moorage.protocols.ledger.shards import ShardIdentity, build_shards

from .support import IDENTITY, an_event, event_sets

WHO = ShardIdentity.of_input(IDENTITY)


@given(event_sets(), st.randoms(use_true_random=False), st.booleans())
def test_packing_does_not_depend_on_input_order(events: list[Event], chance: random.Random, twice: bool) -> None:
    expected = [(shard.path, shard.text) for shard in build_shards(WHO, events)]
    shuffled = events + events if twice else list(events)
    chance.shuffle(shuffled)
    assert [(shard.path, shard.text) for shard in build_shards(WHO, shuffled)] == expected


@given(event_sets())
def test_children_follow_their_parents_and_the_order_is_its_own_order(events: list[Event]) -> None:
    ordered = causal_order(events)
    place = {event.event_id: at for at, event in enumerate(ordered)}
    assert len(place) == len(events)
    for event in ordered:
        if event.parent in place:
            assert place[event.parent] < place[event.event_id]
    assert causal_order(ordered) == ordered
    if not any(event.parent in place for event in events):
        assert ordered == sorted(events, key=order_key)


@given(event_sets())
def test_what_the_writer_makes_the_importer_takes(events: list[Event]) -> None:
    made = build_shards(WHO, events)
    batch = check_batch([parse_source_shard(shard.path, shard.text) for shard in made])
    assert set(batch.events) == {event.event_id for event in events}


def test_parts_are_cut_by_count_and_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    events = [an_event(index) for index in range(1, 8)]
    size = len(events[0].line) + 1
    monkeypatch.setattr(shards, "MAX_SHARD_EVENTS", 3)
    assert [len(group) for group in shards.pack(events)] == [3, 3, 1]
    monkeypatch.setattr(shards, "MAX_SHARD_BYTES", 2 * size)
    assert [len(group) for group in shards.pack(events)] == [2, 2, 2, 1]
    monkeypatch.setattr(shards, "MAX_SHARD_BYTES", 2 * size - 1)
    assert [len(group) for group in shards.pack(events)] == [1] * 7


def test_a_cycle_is_refused() -> None:
    first, second = an_event(1), an_event(2)
    one = an_event(1, parentEventId=second.event_id)
    two = an_event(2, parentEventId=first.event_id)
    with pytest.raises(LedgerRefusal, match="causal-cycle"):
        causal_order([one, two])

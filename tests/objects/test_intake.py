"""The command intake: recorded store calls, and the counters that never go back."""

from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from moorage.durable_objects.objects.intake import CommandIntakeStore, IntakeRecord
from moorage.protocols.queue.decisions import Decision
from tests.objects.sqlite_storage import Storage
from tests.objects.store_vectors import by_name

SEQUENCES = by_name("command-intake-store")


def _record(value: Any) -> IntakeRecord:
    return msgspec.convert(value, IntakeRecord)


def calls(store: CommandIntakeStore) -> dict[str, Callable[..., Any]]:
    """The recorded operation names over our store."""
    return {
        "admit": store.admit,
        "due": lambda now: msgspec.to_builtins(store.due(now)),
        "nextAttemptAt": store.next_attempt_at,
        "isCurrent": lambda record: store.is_current(_record(record)),
        "markVerified": lambda record, now: store.mark_verified(_record(record), now),
        "advance": lambda version, stage, now, decision: store.advance(
            version, stage, now, msgspec.convert(decision, Decision) if decision else DECISION
        ),
        "defer": lambda record, *rest: store.defer(_record(record), *rest),
        "retryVerification": lambda record, now, detail: store.retry_verification(_record(record), now, detail),
        "finish": store.finish,
        "pruneTerminalReceipts": store.prune_terminal_receipts,
        "allocateRevision": store.allocate_revision,
    }


DECISION = Decision("acme/widgets", "main", 1, "issue", "issues", "re_review", False)


@pytest.fixture
def storage() -> Iterator[Storage]:
    storage = Storage()
    yield storage
    storage.close()


@pytest.mark.parametrize("name", SEQUENCES)
def test_recorded_calls(name: str, storage: Storage) -> None:
    operations = calls(CommandIntakeStore(storage))
    for step in SEQUENCES[name]:
        assert operations[step["op"]](*step["args"]) == step["result"], step["name"]


@given(st.lists(st.tuples(st.sampled_from(["a/b#1", "A/B#1", "a/b#1@publish:9:1", "a/b#2"]), st.integers(1, 40))))
def test_revisions_of_an_item_only_grow(requests: list[tuple[str, int]]) -> None:
    storage = Storage()
    store = CommandIntakeStore(storage)
    last: dict[str, int] = {}
    for key, minimum in requests:
        revision = store.allocate_revision(key, minimum)
        item = key.partition("@")[0]
        assert revision >= minimum
        assert revision > last.get(item, 0)
        last[item] = revision
    storage.close()

"""Store methods by their recorded names, for the test hook (`moorage.worker.test_store`)."""

import inspect
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from moorage.protocols.queue.decisions import Decision

from .artifact_receipts import ArtifactReceiptStore
from .etag_cache import EtagCacheStore
from .intake import CommandIntakeStore, IntakeRecord

Operations = Mapping[str, Callable[..., Any]]


def etag_operations(store: EtagCacheStore) -> Operations:
    """The conditional-read cache."""
    return {
        "lookup": store.lookup,
        "store200": store.store200,
        "confirm304": store.confirm304,
        "telemetry": store.telemetry,
    }


def artifact_operations(store: ArtifactReceiptStore) -> Operations:
    """Artifact receipts."""
    return {"lookup": store.lookup, "store": store.store, "prune": store.prune}


def intake_operations(store: CommandIntakeStore) -> Operations:
    """The command intake; records and decisions come as JSON."""

    def record(value: Any) -> IntakeRecord:
        return msgspec.convert(value, IntakeRecord)

    def advance(version: str, stage: Any, now: int, decision: Any) -> None:
        # an unknown version is left alone whatever its decision is (`command-intake-store/stages`)
        if store.get(version) is not None:
            store.advance(version, stage, now, msgspec.convert(decision, Decision))

    return {
        "admit": store.admit,
        "due": lambda now: msgspec.to_builtins(store.due(now)),
        "nextAttemptAt": store.next_attempt_at,
        "isCurrent": lambda value: store.is_current(record(value)),
        "markVerified": lambda value, now: store.mark_verified(record(value), now),
        "advance": advance,
        "defer": lambda value, *rest: store.defer(record(value), *rest),
        "retryVerification": lambda value, now, detail: store.retry_verification(record(value), now, detail),
        "finish": store.finish,
        "pruneTerminalReceipts": store.prune_terminal_receipts,
        "allocateRevision": store.allocate_revision,
    }


async def call(operations: Operations, op: str, args: list[Any]) -> dict[str, Any]:
    """`{"result": …}` or `{"threw": message}`."""
    if op not in operations:
        return {"threw": f"no operation {op!r}; there are {', '.join(operations)}"}
    try:
        found = operations[op](*args)
        if inspect.isawaitable(found):
            found = await found
    except Exception as error:
        return {"threw": f"{type(error).__name__}: {error}"}
    return {"result": found}

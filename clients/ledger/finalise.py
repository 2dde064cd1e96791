"""From spool to shards: seal each producer, pack its events, twice over (spec action-ledger 9.5)."""

from collections.abc import Callable, Iterable
from contextlib import ExitStack
from typing import Protocol

from moorage.protocols.ledger.events import Event
from moorage.protocols.ledger.markers import PRODUCER_LOCK, seal_of
from moorage.protocols.ledger.order import causal_order, unique_events
from moorage.protocols.ledger.producers import OUTPUT_ROOT
from moorage.protocols.ledger.projections import DEFAULT_TIMEOUT_MS, FAILED, check_timeout
from moorage.protocols.ledger.shards import ShardIdentity

from .files import TrustedRoot
from .locks import held_lock
from .recorder import Recorder
from .shard_files import write_shards
from .spool import by_producer, lock_path, read_spool, require_marker, write_seal

DEFAULT_OUTPUT = ".clawsweeper-repair/action-ledger-state"


class Drain(Protocol):
    """What waits for the live deliveries of one spool root."""

    def drain(self, root: str, timeout_ms: int) -> None:
        """Returns when none of `root` is under way, or after `timeout_ms`; what is left then has failed."""
        ...


def output_root(recorder: Recorder, given: str | None = None) -> TrustedRoot:
    """Where shards go: `given`, else the environment's root, else the default below the spool root.

    The text is used as it is: nothing is normalised before the root is checked.
    """
    if given is None:
        given = recorder.environment.get(OUTPUT_ROOT)
    return TrustedRoot(recorder.root.where(DEFAULT_OUTPUT) if given is None else given)


def finalise(
    recorder: Recorder,
    output: str | None = None,
    *,
    projections: Drain | None = None,
    drain_timeout_ms: int = DEFAULT_TIMEOUT_MS,
) -> list[str]:
    """Seals every producer of the spool and writes its shards; their paths below the output root, sorted.

    Running it again changes nothing and returns the same paths. A crash at any point is repaired by running it again.
    Producers that hold failed deliveries only are left to the second pass, after the projection queue was drained.
    """
    if not recorder.enabled:
        return []
    check_timeout(drain_timeout_ms, "drain_timeout_ms")
    target = output_root(recorder, output)
    paths = set(_pass(recorder, target, lambda events: not all(map(_is_failure, events))))
    if projections is not None:
        projections.drain(recorder.root.path, drain_timeout_ms)
    paths.update(_pass(recorder, target, lambda events: True))
    return sorted(paths)


def _is_failure(event: Event) -> bool:
    return bool(event.record["event_type"] == FAILED)


def _pass(recorder: Recorder, target: TrustedRoot, wanted: Callable[[list[Event]], bool]) -> Iterable[str]:
    root = recorder.root
    selected = {text: events for text, events in by_producer(read_spool(root)).items() if wanted(events)}
    if not selected:
        return []
    paths: list[str] = []
    with ExitStack() as locks:
        for events in selected.values():
            locks.enter_context(held_lock(root, lock_path(events[0].producer), PRODUCER_LOCK, recorder.waiting))
        # What was recorded between the look and the locks counts; nothing can be added from here on.
        for text, events in by_producer(read_spool(root)).items():
            if text not in selected:
                continue
            producer = events[0].producer
            date = require_marker(root, producer)
            ordered = causal_order(unique_events(events))
            write_seal(root, seal_of(producer, date, ordered))
            paths += [
                shard.path for shard in write_shards(target, ShardIdentity.of_producer(producer, date), ordered)
            ]
    return paths

"""Closing what a killed run left open (spec action-ledger 14)."""

from moorage.protocols.ledger.events import Event, build_event
from moorage.protocols.ledger.interruption import OpenAttempts
from moorage.protocols.ledger.markers import PRODUCER_LOCK
from moorage.protocols.ledger.timestamps import millisecond_text

from .locks import held_lock
from .recorder import Recorder
from .spool import by_producer, lock_path, read_spool, require_marker


def interrupt_open_attempts(recorder: Recorder, reason: str = "timeout") -> list[Event]:
    """Records a terminal for every open start of the spool, and returns what was written.

    `reason` is timeout, cancelled or workflow_failed. Raises interrupt-reason, missing-partition for a producer
    without marker, sealed for a finalised producer with an open start. Nothing is written when recording is off.
    """
    OpenAttempts((), reason)
    if not recorder.enabled:
        return []
    written: list[Event] = []
    for text, events in by_producer(read_spool(recorder.root)).items():
        if not OpenAttempts(events, reason).starts():
            continue
        producer = events[0].producer
        with held_lock(recorder.root, lock_path(producer), PRODUCER_LOCK, recorder.waiting):
            date = require_marker(recorder.root, producer)
            current = by_producer(read_spool(recorder.root)).get(text, [])
            open_attempts = OpenAttempts(current, reason)
            for start in open_attempts.starts():
                closing = open_attempts.closing(start)
                if closing is None:
                    continue
                event = build_event(closing.given, recorded_at=millisecond_text(recorder.now_ms()))
                stored = recorder.store_locked(event, date)
                open_attempts.add(stored)
                written.append(stored)
    return written

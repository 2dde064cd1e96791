"""The sweep engine on a state file: load, ask a rule, replace the file, all under the advisory lock."""

import datetime
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from moorage.protocols.sweep import Outcome, State, Word, emit, load, operations

from .replacing import Unreadable, locked, make_folder, read_bytes, replace


def utc_now() -> str:
    """Now, as ISO 8601 in UTC with its offset."""
    return datetime.datetime.now(datetime.UTC).isoformat()


class SweepFile:
    """The engine of one state file. Every method answers with an `Outcome` and raises nothing that can be foreseen.

    `path`: the state file. `now`: gives the current instant as ISO 8601 text; methods that take `now` use it when
    that is empty or missing.
    """

    def __init__(self, path: str | Path, now: Callable[[], str] = utc_now) -> None:
        self.path = Path(path)
        self.clock = now

    def load(self) -> State:
        """The state as it is at this moment, without the lock."""
        try:
            return load(read_bytes(self.path))
        except Unreadable as error:
            return State.corrupt(str(error))

    def _look(self, rule: Callable[..., Outcome], **arguments: Any) -> Outcome:
        try:
            return rule(self.load(), **arguments)
        except Exception as error:
            return _failed(error)

    def _change(self, rule: Callable[..., Outcome], *, creates: bool = False, **arguments: Any) -> Outcome:
        try:
            if creates:
                # before the lock, which lies in the same folder
                make_folder(self.path.parent)
            with locked(self.path):
                outcome = rule(self.load(), **arguments)
                if outcome.document is not None:
                    replace(self.path, emit(outcome.document).encode("utf-8"))
                return outcome
        except Exception as error:
            return _failed(error)

    def read(self) -> Outcome:
        """OK with the document, NO-STATE or CORRUPT. Never writes."""
        return self._look(operations.read)

    def cursor_get(self, source: str) -> Outcome:
        """OK with `{"cursor": value or None}`. Never writes."""
        return self._look(operations.cursor_get, source=source)

    def validate(self) -> Outcome:
        """OK with `{"downgraded": [keys]}`."""
        return self._change(operations.validate)

    def upsert_item(self, source: str, item: str, text: str, writer: str, now: str | None = None) -> Outcome:
        """OK, LEASE-LOST, or ERROR when `text` is no JSON object."""
        return self._change(
            operations.upsert_item, source=source, item=item, text=text, writer=writer, now=now or self.clock()
        )

    def cursor_advance(self, source: str, to: str, past_item: str, writer: str, now: str | None = None) -> Outcome:
        """OK, LEASE-LOST or REFUSED."""
        return self._change(
            operations.cursor_advance,
            source=source,
            to=to,
            past_item=past_item,
            writer=writer,
            now=now or self.clock(),
        )

    def lease_acquire(self, writer: str, ttl_minutes: int | None = None, now: str | None = None) -> Outcome:
        """OK, STALE-RECLAIMED with the previous writer and stamp, or LOCKED."""
        return self._change(
            operations.lease_acquire, creates=True, writer=writer, ttl_minutes=ttl_minutes, now=now or self.clock()
        )

    def lease_release(self, writer: str) -> Outcome:
        """OK or LEASE-LOST."""
        return self._change(operations.lease_release, writer=writer)

    def run_record(self, writer: str, outcome: str, counts: str, timestamp: str) -> Outcome:
        """OK. `counts` is JSON text."""
        return self._change(
            operations.run_record, creates=True, writer=writer, outcome=outcome, counts=counts, timestamp=timestamp
        )

    def import_legacy(self, text: str | None, source_map: str | None = None) -> Outcome:
        """OK with `{"cursors_imported", "items_imported"}`; `text` is None for a file that cannot be read."""
        return self._change(operations.import_legacy, creates=True, text=text, source_map=source_map)

    def put(self, document: Mapping[str, Any]) -> None:
        """Replaces the file by `document`. Raises OSError; for imports from elsewhere, not for sweeps."""
        make_folder(self.path.parent)
        with locked(self.path):
            replace(self.path, emit(document).encode("utf-8"))


def _failed(error: Exception) -> Outcome:
    # no trace reaches the caller; the class tells more than some messages do
    return Outcome(Word.ERROR, reason=f"{type(error).__name__}: {error}")

"""Cursors in the key-value storage of the queue object (spec state-plane-storage 3). Rules:
`moorage.protocols.cursors`.
"""

from collections.abc import Callable, Mapping
from typing import Any

from moorage.protocols import cursors as rules
from moorage.protocols.javascript import iso_time
from moorage.protocols.wire import Reply, reply, wire_method


class CursorStore:
    """Cursors over `ctx.storage`. `now`: milliseconds since 1970."""

    def __init__(self, storage: Any, now: Callable[[], int]) -> None:
        self._kv = storage.kv
        self._now = now

    def read(self, mode: str) -> rules.Cursor:
        """The cursor `mode`. Raises FanoutCursorStoreInvalid."""
        return rules.read_stored(mode, self._kv.get(rules.storage_key(mode)))

    def write(self, mode: str, members: Mapping[str, Any]) -> rules.Cursor:
        """Moves the cursor as the PUT body `members` asks, and returns its new state.

        Raises InvalidFanoutCursor, InvalidAuditBatch, FanoutCursorRevisionConflict, FanoutCursorStoreInvalid;
        nothing is written then. No await lies between the compare and the write, so that no other event can.
        """
        write = rules.parse_write(mode, members)
        after = rules.decide(self.read(mode), write, iso_time(self._now()))
        self._kv.put(rules.storage_key(mode), after.stored())
        return after


class CursorMethods:
    """The queue object's methods for cursors."""

    cursors: CursorStore

    @wire_method
    def read_cursor(self, mode: str) -> Reply:
        """200 with the cursor. Refuses: fanout_cursor_store_invalid."""
        return reply(self.cursors.read(mode).answer())

    @wire_method
    def write_cursor(self, mode: str, members: dict[str, Any]) -> Reply:
        """202 with the new cursor. Refuses as `CursorStore.write` raises."""
        return reply(self.cursors.write(mode, members).answer(), 202)

"""Cursors of the state plane (spec state-plane-protocol 5, 12).

`read` and `write` raise. `try_read` and `try_write` are fail-open: a cursor is an optimisation, so a failure, a lost
compare included, is a loud warning and the work goes on.
"""

import logging
from typing import Any, Final

from moorage.protocols.cursors import Cursor, is_mode
from moorage.protocols.javascript import ABSENT, MAX_SAFE_INTEGER

from .errors import ClientError, ConfigurationError, Conflict, InvalidAnswer
from .http import AsyncHttp, Http

log = logging.getLogger("moorage.clients.cursors")

CONFLICT: Final = "fanout_cursor_revision_conflict"


class CursorConflict(ClientError):
    """Another writer moved the cursor first; `current` is its state."""

    def __init__(self, current: Cursor) -> None:
        super().__init__(f"{current.mode} is at revision {current.revision}, position {current.next_cursor}")
        self.current = current


def _path(mode: str) -> str:
    if not is_mode(mode):
        raise ConfigurationError(
            f"there is no cursor {mode!r}: it is hot-intake, normal-review, audit, or "
            "review-placeholder-<16 hex>-open or -closed"
        )
    return f"/internal/state/cursors/{mode}"


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MAX_SAFE_INTEGER


def cursor_of(mode: str, value: Any) -> Cursor:
    """The cursor in an answer. Raises InvalidAnswer unless it is `ok`, of this mode, and whole."""
    if not isinstance(value, dict) or value.get("ok") is not True or value.get("mode") != mode:
        raise InvalidAnswer(f"the answer is not the cursor {mode}")
    updated_at = value.get("updated_at")
    if not _is_count(value.get("next_cursor")) or not _is_count(value.get("revision")):
        raise InvalidAnswer(f"the position or revision of cursor {mode} is not a count")
    if updated_at is not None and not isinstance(updated_at, str):
        raise InvalidAnswer(f"the time of cursor {mode} is not text")
    return Cursor(mode, value["next_cursor"], value["revision"], updated_at, value.get("audit_batch", ABSENT))


class AsyncCursors:
    """Cursors over an `AsyncHttp`."""

    def __init__(self, http: AsyncHttp) -> None:
        self._http = http

    async def read(self, mode: str) -> Cursor:
        """The cursor's state; one that was never written is at 0, revision 0. Raises ClientError."""
        found = await self._http.json("GET", _path(mode), check=lambda value: cursor_of(mode, value))
        return cursor_of(mode, found)

    async def write(self, mode: str, next_cursor: int, expected_revision: int, audit_batch: Any = ABSENT) -> Cursor:
        """Moves the cursor if it still has `expected_revision`, and returns its new state.

        `audit_batch`, on mode `audit`: left out keeps the stored batch, None clears it. When an answer got lost and
        the repeated write finds its own result, that counts as success. Raises CursorConflict, ClientError.
        """
        body: dict[str, Any] = {"next_cursor": next_cursor, "expected_revision": expected_revision}
        if audit_batch is not ABSENT:
            body["audit_batch"] = audit_batch
        try:
            found = await self._http.json("PUT", _path(mode), body, check=lambda value: cursor_of(mode, value))
        except Conflict as conflict:
            if conflict.code != CONFLICT:
                raise
            current = cursor_of(mode, conflict.body.get("current"))
            if conflict.attempts > 1 and (current.next_cursor, current.revision) == (
                next_cursor,
                expected_revision + 1,
            ):
                return current
            raise CursorConflict(current) from None
        return cursor_of(mode, found)

    async def try_read(self, mode: str) -> Cursor | None:
        """`read`, but None and a warning when it fails for whatever reason."""
        try:
            return await self.read(mode)
        except ClientError as error:
            log.warning("CURSOR %s COULD NOT BE READ, going on without it: %s", mode, error)
            return None

    async def try_write(
        self, mode: str, next_cursor: int, expected_revision: int, audit_batch: Any = ABSENT
    ) -> Cursor | None:
        """`write`, but None and a warning when it fails for whatever reason, a lost compare included."""
        try:
            return await self.write(mode, next_cursor, expected_revision, audit_batch)
        except ClientError as error:
            log.warning("CURSOR %s COULD NOT BE MOVED to %d, going on: %s", mode, next_cursor, error)
            return None


class Cursors:
    """The synchronous face of `AsyncCursors`, over an `Http`."""

    def __init__(self, http: Http) -> None:
        self._loop = http.loop
        self._cursors = AsyncCursors(http.asynchronous)

    def read(self, mode: str) -> Cursor:
        """See `AsyncCursors.read`."""
        return self._loop.run(self._cursors.read(mode))

    def write(self, mode: str, next_cursor: int, expected_revision: int, audit_batch: Any = ABSENT) -> Cursor:
        """See `AsyncCursors.write`."""
        return self._loop.run(self._cursors.write(mode, next_cursor, expected_revision, audit_batch))

    def try_read(self, mode: str) -> Cursor | None:
        """See `AsyncCursors.try_read`."""
        return self._loop.run(self._cursors.try_read(mode))

    def try_write(
        self, mode: str, next_cursor: int, expected_revision: int, audit_batch: Any = ABSENT
    ) -> Cursor | None:
        """See `AsyncCursors.try_write`."""
        return self._loop.run(self._cursors.try_write(mode, next_cursor, expected_revision, audit_batch))

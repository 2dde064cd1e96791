"""Refusals of the cursors (spec state-plane-protocol 5)."""

from .base import WireError


class InvalidFanoutCursor(WireError):
    """`next_cursor` and `expected_revision` must be integers from 0 to 2^53 - 1."""

    code, status = "invalid_fanout_cursor", 400


class InvalidAuditBatch(WireError):
    """`audit_batch` must be null, or hold remainingTargets, outstandingRunIds and dispatchingTarget in their form."""

    code, status = "invalid_audit_batch", 400


class FanoutCursorRevisionConflict(WireError):
    """The cursor has another revision than the one expected; `current` is its state."""

    code, status = "fanout_cursor_revision_conflict", 409


class FanoutCursorStoreInvalid(WireError):
    """The stored cursor cannot be read, or its revision cannot grow; it stays as it is until it is repaired."""

    code, status = "fanout_cursor_store_invalid", 500
    retryable = False


class FanoutCursorStoreUnavailable(WireError):
    """The cursor's storage failed; the log has the reason."""

    code, status = "fanout_cursor_store_unavailable", 503

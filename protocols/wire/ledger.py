"""Refusals of the ledger's index. `reason` is for a person; a conflict carries the ledger's own refusal class."""

from .base import WireError


class LedgerIndexNotConfigured(WireError):
    """The binding LEDGER_INDEX, or the bucket, is missing."""

    code, status = "ledger_index_not_configured", 503


class LedgerIndexUnavailable(WireError):
    """The index failed; the log has the reason."""

    code, status = "ledger_index_unavailable", 500


class LedgerUsage(WireError):
    """The body is not what the verb takes; `reason` names the member."""

    code, status = "ledger_usage", 400


class LedgerLocked(WireError):
    """Somebody else imports; `lock` shows who, and until when."""

    code, status = "ledger_locked", 423


class LedgerLockLost(WireError):
    """The caller does not hold the lock under this token; nothing was written."""

    code, status = "ledger_lock_lost", 409


class LedgerReserved(WireError):
    """Another import has what this one wants; `refusal` says what, `where` which. Nothing was written."""

    code, status = "ledger_reserved", 409


class LedgerIncomplete(WireError):
    """A set has no valid completion marker in R2, or was not reserved; `where` names it."""

    code, status = "ledger_incomplete", 409


class LedgerRebuildStale(WireError):
    """Another rebuild began since; begin again."""

    code, status = "ledger_rebuild_stale", 409


class LedgerSegmentNotFound(WireError):
    """There is no such segment manifest."""

    code, status = "ledger_segment_not_found", 404


class LedgerSegmentRefused(WireError):
    """The segment, or a shard beside it, is not what it should be; `refusal`, `where`. Nothing was removed."""

    code, status = "ledger_segment_refused", 409

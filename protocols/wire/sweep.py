"""Refusals of the shared sweep state. Each carries `word`, the engine's status word, and `reason` for a person."""

from typing import Any, ClassVar

from .base import WireError


class SweepStateNotConfigured(WireError):
    """The binding SWEEP_STATE is missing."""

    code, status = "sweep_state_not_configured", 503


class SweepStateUnavailable(WireError):
    """The sweep object failed; the log has the reason."""

    code, status = "sweep_state_unavailable", 500


class SweepUsage(WireError):
    """The body is not what the verb takes; `reason` names the member."""

    code, status = "sweep_usage", 400


class SweepRefusal(WireError):
    """A status word other than OK and STALE-RECLAIMED; nothing was written."""

    code, status = "sweep_refused", 409
    word: ClassVar[str] = "REFUSED"

    def __init__(self, reason: str = "", **fields: Any) -> None:
        super().__init__(word=self.word, reason=reason, **fields)


class SweepNotFound(SweepRefusal):
    """There is no such shared state yet."""

    code, status, word = "sweep_not_found", 404, "NO-STATE"


class SweepLocked(SweepRefusal):
    """Another writer holds a live lease; `lease` shows it."""

    code, status, word = "sweep_locked", 423, "LOCKED"


class SweepLeaseLost(SweepRefusal):
    """The caller is not the holder, or its fencing token is over."""

    code, status, word = "sweep_lease_lost", 409, "LEASE-LOST"


class SweepCursorRefused(SweepRefusal):
    """The item is not there, or the cursor would go back."""

    code, status, word = "sweep_cursor_refused", 409, "REFUSED"


class SweepExists(SweepRefusal):
    """There is another shared state under that name already; `replace` replaces it."""

    code, status, word = "sweep_exists", 409, "REFUSED"


class SweepItemInvalid(SweepRefusal):
    """The item is no JSON object, or too large; of a batch nothing was written."""

    code, status, word = "sweep_item_invalid", 422, "ERROR"


class SweepDocumentCorrupt(SweepRefusal):
    """The text is no state file, or holds what a shared state cannot."""

    code, status, word = "sweep_document_corrupt", 422, "CORRUPT"

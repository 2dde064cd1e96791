"""Refusals of session commits on the state plane. `reason` tells a person what was wrong."""

from .base import WireError


class SessionCommitsNotConfigured(WireError):
    """The binding SESSION_COMMITS or STATE_SNAPSHOTS is missing."""

    code, status = "session_commits_not_configured", 503


class SessionCommitsUnavailable(WireError):
    """The store or the object failed; the log has the reason."""

    code, status = "session_commits_unavailable", 500


class SessionUsage(WireError):
    """The body is not what the verb takes; `reason` names the member."""

    code, status = "session_usage", 400


class SessionLocked(WireError):
    """Another publisher holds a live lease; `lease` shows it."""

    code, status = "session_locked", 423


class SessionLeaseLost(WireError):
    """The caller holds no lease, or its fencing token is over; nothing was written."""

    code, status = "session_lease_lost", 409


class SessionLostRace(WireError):
    """The pointer is no longer the one that was read; nothing was written. `etag` is the present one or null."""

    code, status = "session_lost_race", 412


class SessionObjectNotFound(WireError):
    """There is no such object under this session."""

    code, status = "session_object_not_found", 404


class SessionObjectExists(WireError):
    """Other bytes lie under this key already; keys are never overwritten."""

    code, status = "session_object_exists", 409


class SessionObjectTooLarge(WireError):
    """More bytes than one request carries; `maxBytes` says how many."""

    code, status = "session_object_too_large", 413


class SessionReadRefused(WireError):
    """A document or object that the strict reader refuses; `kind` is its class."""

    code, status = "session_read_refused", 422

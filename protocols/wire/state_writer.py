"""Refusals of the state-writer coordinator (spec state-plane-protocol 10)."""

from .base import WireError


class InvalidStateWriterTicket(WireError):
    """A member of the ticket breaks its rule."""

    code, status = "invalid_state_writer_ticket", 400


class InvalidStateWriterHeartbeat(WireError):
    """`ticket_id`, `owner` or `lease_token` of a heartbeat is missing or malformed."""

    code, status = "invalid_state_writer_heartbeat", 400


class InvalidStateWriterRelease(WireError):
    """`ticket_id`, `owner` or `lease_token` of a release is missing or malformed."""

    code, status = "invalid_state_writer_release", 400


class StateWriterTicketNotActive(WireError):
    """The lease is not held by this ticket, owner and token."""

    code, status = "state_writer_ticket_not_active", 409


class StateWriterTicketCompleted(WireError):
    """The ticket was released; its id never lives twice."""

    code, status = "state_writer_ticket_completed", 409


class StateWriterTicketExpired(WireError):
    """The ticket's lease ran out, or it waited too long without asking; its id never lives twice."""

    code, status = "state_writer_ticket_expired", 409


class StateWriterTicketIdentity(WireError):
    """The ticket id came back with other members; nothing was changed (`state-writer/ticket-identity-is-fixed`)."""

    code, status = "state_writer_ticket_identity", 500
    retryable = False

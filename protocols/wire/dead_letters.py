"""Refusals of the dead letters (spec state-plane-protocol 11.7)."""

from .base import WireError


class InvalidDeadLetterStatus(WireError):
    """`status` must be `open`, `replayed`, `resolved` or `all`."""

    code, status = "invalid_dead_letter_status", 400


class InvalidDeadLetterIds(WireError):
    """`ids` must be a list of different ids that are not blank, within the call's bound."""

    code, status = "invalid_dead_letter_ids", 400


class InvalidIdempotencyKey(WireError):
    """`idempotency_key` must be 1 to 200 of A-Z a-z 0-9 . _ : -"""

    code, status = "invalid_idempotency_key", 400


class InvalidRecoveryGuard(WireError):
    """`inventory_fingerprint`, `recovery_aliases` and `recovery_targets` go together, well formed and for the
    given ids."""

    code, status = "invalid_recovery_guard", 400


class InvalidResolutionNote(WireError):
    """`note` must be a text of 1 to 500 characters."""

    code, status = "invalid_resolution_note", 400

"""Routes of the lease holder that the reference has and only their refusals are recorded
(`auth/lease-endpoints-need-no-signature`).

This queue hands out no finalizer-only work, so there is never a finalization to acknowledge, retry or skip,
and a state
writer's progress is telemetry that nothing here consumes: every call is answered as one that names nothing known.
"""

from typing import Any

from moorage.protocols.wire import Reply, WireError, reply, wire_method
from moorage.protocols.wire.terminal import (
    InvalidTerminalFinalizationAcknowledgement,
    InvalidTerminalFinalizationRetry,
    InvalidTerminalFinalizationSkip,
)

from .base import QueueBase

_REFUSALS: dict[str, type[WireError]] = {
    "attempt": InvalidTerminalFinalizationAcknowledgement,
    "retry": InvalidTerminalFinalizationRetry,
    "skip": InvalidTerminalFinalizationSkip,
}


class TerminalMethods(QueueBase):
    """Finalization and progress."""

    @wire_method
    def terminal_finalization(self, operation: str, members: dict[str, Any]) -> Reply:
        """Refuses: there is no finalization under any lease."""
        raise _REFUSALS[operation]

    @wire_method
    def state_writer_progress(self, members: dict[str, Any]) -> Reply:
        """202 `{ok: false, accepted: false}`: no state writer of the queue is at work."""
        return reply({"ok": False, "accepted": False}, 202)

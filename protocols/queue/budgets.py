"""How often and how long a publication that fails is tried again, by what it failed of.

Reason by reason, as the reference has it; spec state-plane-protocol 11.5 gives the third permanent failure only.
Failures of all kinds are counted together, from the first one on.
"""

from dataclasses import dataclass
from typing import Final

HOUR_MS: Final = 60 * 60_000
ARTIFACT_FAILURES: Final = 3
"""From this failure on, an artifact that is not there is not waited for: a fresh review makes another one."""


@dataclass(frozen=True, slots=True)
class Budget:
    """Spent by the `failures`-th failure, or by one that comes `age_ms` after the first (None: however late)."""

    failures: int
    age_ms: int | None

    def is_spent(self, failures: int, first_failed_at: int, now: int) -> bool:
        """Whether the last failure was one too many. Times in milliseconds."""
        return failures >= self.failures or (self.age_ms is not None and now >= first_failed_at + self.age_ms)


TRANSIENT: Final = Budget(48, 24 * HOUR_MS)
UNKNOWN: Final = Budget(14, HOUR_MS)
PERMANENT: Final = Budget(3, None)


def budget_of(kind: str, reason: str) -> Budget | None:
    """The budget of a failing completion kind with its reason; None for an artifact, whose place another takes."""
    if reason == "unknown_failure":
        return UNKNOWN
    if kind == "permanent_failure":
        return PERMANENT
    return None if reason == "artifact_unavailable" else TRANSIENT


def needs_fresh_review(reason: str, failures: int) -> bool:
    """Whether the artifact has been missing for long enough."""
    return reason == "artifact_unavailable" and failures >= ARTIFACT_FAILURES

"""Which comment versions are admitted, which one counts, and how long a failing one waits.

Spec state-plane-protocol 6. All outcomes of admission are one table of (what is known) to (what to write, what to
say).
"""

from dataclasses import dataclass
from enum import Enum
from typing import Final, Literal

RETENTION_MS: Final = 30 * 24 * 60 * 60 * 1000
DUE_LIMIT: Final = 16
PRUNE_LOT: Final = 1000
VISIBILITY_ATTEMPTS: Final = 16
MAX_DETAIL: Final = 500

FIRST_DELAY_MS: Final = 15_000
MAX_DELAY_MS: Final = 15 * 60_000
MIN_DELAY_MS: Final = 1_000

Stage = Literal["verify_pending", "enqueue_pending", "effects_pending"]
STAGES: Final[tuple[Stage, ...]] = ("verify_pending", "enqueue_pending", "effects_pending")
Outcome = Literal["pending", "completed", "rejected", "superseded"]


class Detail(Enum):
    """Why a receipt ended; the codes a repeated request is answered with."""

    NEWER = "newer_comment_version"
    SIBLING = "verified_sibling_version"
    OLDER = "older_comment_version"
    OBSERVED = "already_observed"
    PRIVATE = "private_target_unsupported"
    MISSING = "source_comment_missing"
    ITEM_MISMATCH = "source_comment_item_mismatch"
    CHANGED = "source_comment_changed"
    NOT_OPEN = "target_not_open"
    HEAD_CHANGED = "requested_head_changed"
    VISIBILITY_EXHAUSTED = "target_visibility_unverified_exhausted"
    TARGET_DISABLED = "target_not_enabled"


@dataclass(frozen=True, slots=True)
class KnownReceipt:
    """The receipt that this very version already has."""

    outcome: Outcome
    detail: str | None


@dataclass(frozen=True, slots=True)
class Watermark:
    """The newest version of the comment that was ever seen. `updated_at` in milliseconds."""

    updated_at: int
    version_id: str


@dataclass(frozen=True, slots=True)
class Admission:
    """What to do with a version.

    `reason` is what a refused request hears; `stored_detail` is the receipt that a first refusal leaves;
    `supersede` ends the comment's older pending versions; `raise_watermark` makes this one the newest.
    """

    accepted: bool
    deduped: bool = False
    reason: str | None = None
    stored_detail: Detail | None = None
    supersede: bool = False
    raise_watermark: bool = False


def admit(receipt: KnownReceipt | None, watermark: Watermark | None, updated_at: int, version_id: str) -> Admission:
    """The decision on a version of a comment (the table of spec state-plane-protocol 6).

    Versions of equal time are both admitted; the watermark stays with the first until one of them is verified.
    """
    if receipt is not None:
        if receipt.outcome in {"pending", "completed"}:
            return Admission(accepted=True, deduped=True)
        return Admission(accepted=False, reason=receipt.detail)
    if watermark is not None and watermark.updated_at > updated_at:
        return Admission(accepted=False, reason="older comment version", stored_detail=Detail.OLDER)
    if watermark is not None and watermark.updated_at == updated_at:
        if watermark.version_id == version_id:
            reason = "semantic command version already observed"
            return Admission(accepted=False, reason=reason, stored_detail=Detail.OBSERVED)
        return Admission(accepted=True)
    return Admission(accepted=True, supersede=True, raise_watermark=True)


def is_current(stage: Stage, watermark: Watermark | None, updated_at: int, version_id: str) -> bool:
    """Whether a version may still be worked on: the watermark's time, and once verified also its identity."""
    if watermark is None or watermark.updated_at != updated_at:
        return False
    return stage == "verify_pending" or watermark.version_id == version_id


def next_attempt_at(now: int, attempts: int, requested: int | None = None) -> int:
    """When a failing version is tried again: 15 s x 2^(n-1) after the n-th failure, at least 1 s and at most 15 min.

    A time that the other side demanded counts where it is later, within the same 15 minutes.
    """
    delay = min(FIRST_DELAY_MS << min(max(attempts, 1) - 1, 16), MAX_DELAY_MS)
    delay = max(delay, (requested or 0) - now, MIN_DELAY_MS)
    return now + min(delay, MAX_DELAY_MS)

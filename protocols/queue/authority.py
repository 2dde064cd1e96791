"""Which of two events of one pull request is the newer one.

Spec state-plane-protocol 11.1; `exact-review-enqueue/pull-request-heads`, `-authority`, `-times`. Issue events
and commands have
no source authority: they always count.
"""

from msgspec import UNSET

from .decisions import RE_REVIEW, Decision
from .times import parse_time


def has_authority(decision: Decision) -> bool:
    """Whether a decision speaks for a state of the pull request, and so may be stale."""
    return (
        decision.is_pull_request
        and decision.source_action != RE_REVIEW
        and decision.command_status_marker is UNSET
        and decision.publication is UNSET
    )


def is_stale(present: Decision, incoming: Decision) -> bool:
    """Whether `incoming` says nothing newer than `present`.

    Times decide first; authority numbers between equal or missing times; without either, a head counts when it was
    verified. A head that differs from the present one must be verified in any case.
    """
    if not has_authority(incoming) or not present.is_pull_request:
        return False
    verified = incoming.source_head_verified is True
    other_head = UNSET not in (present.source_head_sha, incoming.source_head_sha) and (
        present.source_head_sha != incoming.source_head_sha
    )
    if other_head and not verified:
        return True
    before, after = (
        parse_time(decision.source_updated_at) if isinstance(decision.source_updated_at, str) else None
        for decision in (present, incoming)
    )
    if before is not None and after is not None and before != after:
        return after < before
    if isinstance(present.source_authority_seq, int):
        return not isinstance(incoming.source_authority_seq, int) or (
            incoming.source_authority_seq <= present.source_authority_seq
        )
    if isinstance(incoming.source_authority_seq, int):
        return False
    return present.source_head_verified is True and not verified

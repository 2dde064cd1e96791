"""Receipts around one outside write: an attempt before it, exactly one outcome after it (spec action-ledger 2, 14).

The attempt says that something may have happened outside, so it is a mutation, and so is every outcome but a refusal
before anything was written: what may have happened is never reported as `mutation: false`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final, Literal

from .canonical import Json
from .derivation import derived_input, phase_transition
from .events import Event, build_event
from .parts import producer_input, subject_input
from .vocabulary import Status

Word = Literal["mutation", "dispatch"]


class Outcome(StrEnum):
    """How a write ended, as far as the writer can tell."""

    accepted = "accepted"
    rejected = "rejected"
    unknown = "outcome_unknown"


Stage = Literal["attempted"] | Outcome


@dataclass(frozen=True, slots=True)
class Form:
    """What a receipt says: its status, whether the write may be tried again safely, whether it may have happened."""

    status: Status
    retryable: bool
    mutation: bool


FORMS: Final[Mapping[str, Form]] = {
    "attempted": Form(Status.started, retryable=False, mutation=True),
    Outcome.accepted: Form(Status.completed, retryable=False, mutation=True),
    Outcome.rejected: Form(Status.failed, retryable=True, mutation=False),
    Outcome.unknown: Form(Status.failed, retryable=False, mutation=True),
}


@dataclass(frozen=True, slots=True)
class OutsideWrite:
    """One try of one outside write.

    `effect` is a JSON tree that names what is to happen outside, the same for every try; `number` counts the tries
    from 1. `word` is `dispatch` for a workflow dispatch. `producer` and `subject` have their camelCase members.
    """

    phase: str
    word: Word
    producer: Mapping[str, Any]
    subject: Mapping[str, Any]
    effect: Json
    number: int = 1
    attributes: Mapping[str, Any] = field(default_factory=dict)

    def attempt(self, at: str) -> Event:
        """The receipt that precedes the write; `at` is the writer's clock (`timestamps.millisecond_text`).

        Raises LedgerRefusal for a member that no event may have.
        """
        form, completion = FORMS["attempted"], f"{self.word}_attempted"
        transition = phase_transition(
            self.phase,
            form.status,
            {"receipt": "attempted", "identity": {"effect": self.effect, "try": self.number}},
            retryable=form.retryable,
            mutation=form.mutation,
        )
        given = derived_input(
            **transition,
            producer=self.producer,
            subject=self.subject,
            operation_identity=self.effect,
            attempt_identity={"try": self.number},
            idempotency_identity=self.effect,
            attributes={**self.attributes, "attempt": self.number, "completion_reason": completion},
        )
        return build_event(given, recorded_at=at)


def outcome_event(attempt: Event, outcome: Outcome, at: str) -> Event:
    """The receipt that closes `attempt`: of the same producer, subject, effect and attempt, its child.

    It needs nothing but the attempt as it is stored, so that another process can close what a killed one left open.
    """
    record, form = attempt.record, FORMS[outcome]
    producer, subject = producer_input(record["producer"]), subject_input(record["subject"])
    transition = phase_transition(
        record["event_type"],
        form.status,
        {"receipt": "outcome", "attempt": attempt.event_id},
        retryable=form.retryable,
        mutation=form.mutation,
    )
    attributes = dict(record["attributes"])
    attributes["completion_reason"] = f"{attributes['completion_reason'].removesuffix('_attempted')}_{outcome}"
    given = derived_input(
        **transition,
        producer=producer,
        subject=subject,
        parent_event_id=attempt.event_id,
        phase_seq=record["phase_seq"] + 1,
        idempotency_identity={"attempt": attempt.event_id},
        attributes=attributes,
    )
    # the attempt's own digests: their trees are not stored, and the outcome belongs to the same effect
    given |= {
        "operationId": record["operation_id"],
        "attemptId": record["attempt_id"],
        "idempotencyKeySha256": record["idempotency_key_sha256"],
    }
    return build_event(given, recorded_at=at)

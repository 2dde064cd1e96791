"""Receipts around one outside write (spec action-ledger 2 and 14; the seed's "receipt-aware writes").

The attempt is durable before the write is tried, and exactly one outcome after it: accepted, rejected before
anything was written, or unknown. A crash between leaves an open attempt, which recovery closes as a possible
mutation: what may have happened is never reported as `mutation: false`.
"""

from collections.abc import Mapping
from contextlib import AbstractContextManager
from enum import StrEnum
from types import TracebackType
from typing import TYPE_CHECKING, Any

from moorage.protocols.ledger.canonical import Json
from moorage.protocols.ledger.events import Event
from moorage.protocols.ledger.refusals import LedgerRefusal
from moorage.protocols.ledger.vocabulary import Status

if TYPE_CHECKING:
    from .recorder import Recorder


class Outcome(StrEnum):
    """How a write ended, as far as the writer can tell."""

    accepted = "accepted"
    rejected = "rejected"
    unknown = "outcome_unknown"


class Mutation:
    """What the block inside `mutation(…)` holds. Without a call to either method a normal end means accepted."""

    def __init__(self, attempt: Event | None) -> None:
        self.attempt = attempt
        self.outcome: Outcome | None = None
        self.recorded: Event | None = None
        self._attributes: dict[str, Any] = {}

    def _settle(self, outcome: Outcome, attributes: Mapping[str, Any]) -> None:
        if self.outcome is not None:
            raise LedgerRefusal("mutation-settled", f"the outcome is already {self.outcome}", "mutation")
        self.outcome = outcome
        self._attributes = dict(attributes)

    def accepted(self, **attributes: Any) -> None:
        """The other side took the write."""
        self._settle(Outcome.accepted, attributes)

    def rejected(self, **attributes: Any) -> None:
        """The write was refused before anything changed."""
        self._settle(Outcome.rejected, attributes)

    def unknown(self, **attributes: Any) -> None:
        """It cannot be told whether the write happened."""
        self._settle(Outcome.unknown, attributes)

    @property
    def attributes(self) -> dict[str, Any]:
        """Attributes that the outcome event will carry."""
        return self._attributes


class MutationContext(AbstractContextManager[Mutation]):
    """`with recorder.mutation(…) as write:` around one request.

    Options: `phase`, `identity` (different for every try), `idempotency_identity` (the same for every try),
    `component`, `subject`, and the other options of `record_phase_event`; `dispatch=True` for a workflow dispatch;
    `rejected_on`, exception classes that mean that nothing was written. Any other exception means unknown.
    Exceptions go on to the caller.
    """

    def __init__(self, recorder: "Recorder", options: Mapping[str, Any]) -> None:
        self._recorder = recorder
        self._options = dict(options)
        self._rejected_on: tuple[type[BaseException], ...] = tuple(self._options.pop("rejected_on", ()))
        self._word = "dispatch" if self._options.pop("dispatch", False) else "mutation"
        self._seq: int = self._options.pop("phase_seq", 1)
        self._parent: str | None = self._options.pop("parent_event_id", None)
        self._attributes: dict[str, Any] = dict(self._options.pop("attributes", None) or {})
        self._identity: Json = self._options.pop("identity")
        if "idempotency_identity" not in self._options:
            raise LedgerRefusal("missing-idempotency", "a mutation names its outside effect", "idempotency_identity")
        self._mutation: Mutation | None = None

    def __enter__(self) -> Mutation:
        attempt = self._recorder.record_phase_event(
            **self._options,
            status=Status.started,
            identity={"receipt": "attempted", "identity": self._identity},
            retryable=False,
            mutation=True,
            phase_seq=self._seq,
            parent_event_id=self._parent,
            attributes={**self._attributes, "completion_reason": f"{self._word}_attempted"},
        )
        self._mutation = Mutation(attempt)
        return self._mutation

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        mutation = self._mutation
        assert mutation is not None
        if mutation.outcome is None:
            if error is None:
                mutation.accepted()
            elif isinstance(error, self._rejected_on):
                mutation.rejected()
            else:
                mutation.unknown()
        outcome = mutation.outcome
        assert outcome is not None
        if outcome is not Outcome.rejected:
            self._recorder.mutated = True
        mutation.recorded = self._recorder.record_phase_event(
            **self._options,
            status=Status.completed if outcome is Outcome.accepted else Status.failed,
            identity={"receipt": "outcome", "identity": self._identity},
            retryable=outcome is Outcome.rejected,
            mutation=outcome is not Outcome.rejected,
            phase_seq=self._seq + 1,
            parent_event_id=None if mutation.attempt is None else mutation.attempt.event_id,
            attributes={
                **self._attributes,
                **mutation.attributes,
                "completion_reason": f"{self._word}_{outcome}",
            },
        )

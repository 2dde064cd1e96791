"""Receipts around one outside write (spec action-ledger 2 and 14; the seed's "receipt-aware writes").

The attempt is durable before the write is tried, and exactly one outcome after it: accepted, rejected before
anything was written, or unknown. A crash between leaves an open attempt, which recovery closes as a possible
mutation: what may have happened is never reported as `mutation: false`.
"""

from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any

from moorage.protocols.ledger.canonical import Json
from moorage.protocols.ledger.events import Event
from moorage.protocols.ledger.inputs import EventOptions, ReceiptOptions
from moorage.protocols.ledger.receipts import FORMS, Outcome
from moorage.protocols.ledger.refusals import LedgerRefusal

if TYPE_CHECKING:
    from .recorder import Recorder


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


@dataclass(frozen=True, slots=True)
class Receipts:
    """What the two receipts of a write have in common. `options` may hold the attempt's `phase_seq` and parent."""

    phase: str
    identity: Json
    idempotency_identity: Json
    component: str
    subject: Mapping[str, Any]
    options: ReceiptOptions


class MutationContext(AbstractContextManager[Mutation]):
    """What `Recorder.mutation` returns: records the attempt on entry and its outcome on exit."""

    def __init__(
        self, recorder: "Recorder", receipts: Receipts, word: str, rejected_on: tuple[type[BaseException], ...]
    ) -> None:
        self._recorder = recorder
        self._receipts = receipts
        self._word = word
        self._rejected_on = rejected_on
        self._mutation: Mutation | None = None

    def _record(self, stage: str, parent: str | None, seq: int, attributes: Mapping[str, Any]) -> Event | None:
        given, form = self._receipts, FORMS[stage]
        options: EventOptions = {
            **given.options,
            "phase_seq": seq,
            "parent_event_id": parent,
            "idempotency_identity": given.idempotency_identity,
            "attributes": {
                **given.options.get("attributes", {}),
                **attributes,
                "completion_reason": f"{self._word}_{stage}",
            },
        }
        return self._recorder.record_phase_event(
            phase=given.phase,
            status=form.status,
            identity={"receipt": stage if stage == "attempted" else "outcome", "identity": given.identity},
            component=given.component,
            subject=given.subject,
            retryable=form.retryable,
            mutation=form.mutation,
            **options,
        )

    def __enter__(self) -> Mutation:
        options = self._receipts.options
        attempt = self._record("attempted", options.get("parent_event_id"), options.get("phase_seq", 1), {})
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
        parent = None if mutation.attempt is None else mutation.attempt.event_id
        seq = self._receipts.options.get("phase_seq", 1) + 1
        mutation.recorded = self._record(outcome, parent, seq, mutation.attributes)

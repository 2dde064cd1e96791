"""An operator's word on a dispatch of unknown outcome (the seed's "Failed-review dispatch").

Automatic retry never repeats such a dispatch: the source revision stays closed until somebody looked at the workflow
runs and recorded here whether there is one. There is one reconciliation for a receipt; a contradicting second one is
an event conflict.
"""

from collections.abc import Iterable

from moorage.protocols.ledger.events import Event, build_event
from moorage.protocols.ledger.identity import event_key
from moorage.protocols.ledger.lanes import RECONCILED_ABSENT, RECONCILED_PRESENT
from moorage.protocols.ledger.parts import subject_input
from moorage.protocols.ledger.producers import partition_date, workflow_producer
from moorage.protocols.ledger.refusals import LedgerRefusal
from moorage.protocols.ledger.timestamps import millisecond_text

from .recorder import Recorder

_OPEN = ("dispatch_attempted", "dispatch_outcome_unknown")
_OUTCOMES = frozenset({"dispatch_accepted", "dispatch_rejected", "dispatch_outcome_unknown"})


def _completion(event: Event) -> str:
    return str(event.record.get("attributes", {}).get("completion_reason", ""))


def open_receipt(events: Iterable[Event], event_id: str) -> Event:
    """The receipt `event_id` among `events`, which nothing has settled yet but an operator's own word.

    Raises LedgerRefusal `missing`, and `settled` for an attempt whose dispatcher recorded an outcome: that one is
    to be reconciled where it is unknown, and nothing else where it is not.
    """
    receipt, outcome = None, None
    for event in events:
        if event.event_id == event_id:
            receipt = event
        elif event.parent == event_id and _completion(event) in _OUTCOMES:
            outcome = event
    if receipt is None:
        raise LedgerRefusal("missing", "no such dispatch receipt", event_id)
    if outcome is not None:
        raise LedgerRefusal(
            "settled", f"its outcome was recorded: {_completion(outcome)}, {outcome.event_id}", event_id
        )
    return receipt


def reconcile_dispatch(recorder: Recorder, receipt: Event, *, present: bool) -> Event | None:
    """Records whether the dispatch that `receipt` is about has a workflow run. None when recording is off.

    `receipt` is the outcome-unknown event, or the attempt when no outcome was recorded (`open_receipt` tells). Raises
    LedgerRefusal `not-a-receipt` for any other event, event-conflict when it was reconciled the other way.
    """
    if not recorder.enabled:
        return None
    record = receipt.record
    if record["event_type"] != "review.retry" or _completion(receipt) not in _OPEN:
        raise LedgerRefusal("not-a-receipt", "is no dispatch of open or unknown outcome", receipt.event_id)
    event = build_event(
        {
            "eventKey": event_key("review.retry.reconciled", {"receiptEventId": receipt.event_id}),
            "operationId": record["operation_id"],
            "attemptId": record["attempt_id"],
            "parentEventId": receipt.event_id,
            "phaseSeq": record["phase_seq"] + 1,
            "idempotencyKeySha256": record["idempotency_key_sha256"],
            "type": "review.retry",
            "producer": workflow_producer(recorder.environment, "dispatch_reconcile"),
            "subject": subject_input(record["subject"]),
            "action": {
                "name": "review.retry",
                "status": "recovered",
                "reasonCode": "manual",
                "retryable": not present,
                "mutation": present,
            },
            "attributes": {"completion_reason": RECONCILED_PRESENT if present else RECONCILED_ABSENT},
        },
        recorded_at=millisecond_text(recorder.now_ms()),
    )
    return recorder.store(event, partition_date(recorder.environment))

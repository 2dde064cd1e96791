"""External deliveries: one entry for each notification and target."""

from collections.abc import Iterable
from typing import Any

from ..events import Event
from .chronology import is_terminal, subject_name, summary, unique

_DELIVERED = frozenset({"sent", "published", "completed"})


def notification_deliveries(events: Iterable[Event]) -> dict[str, Any]:
    """By idempotency key (one notification to one target): last state, tries, and when it was delivered.

    Delivered stays delivered: a later planned, skipped or failed transition does not undo it.
    """
    deliveries: dict[str, Any] = {}
    for event in unique(events, ("notification.",)):
        record = event.record
        delivery = deliveries.setdefault(
            record["idempotency_key_sha256"],
            {
                "subject": subject_name(record["subject"]),
                "delivery_kind": None,
                "tries": 0,
                "delivered_at": None,
                "finished": False,
                "last": None,
            },
        )
        status = record["action"]["status"]
        kind = record.get("attributes", {}).get("delivery_kind")
        delivery["delivery_kind"] = kind if isinstance(kind, str) else delivery["delivery_kind"]
        delivery["last"] = summary(event)
        delivered = status in _DELIVERED
        if delivered or status == "failed":
            delivery["tries"] += 1
        if delivered and delivery["delivered_at"] is None:
            delivery["delivered_at"] = record["occurred_at"]
        delivery["finished"] = delivery["delivered_at"] is not None or (
            is_terminal(status) and not record["action"]["retryable"]
        )
    return deliveries

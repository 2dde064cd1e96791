"""What anybody may read of the queue: statistics, and the status of one item. Spec state-plane-protocol 11.10.

Counts are kept, not taken; where only a bounded look is affordable (ready items), the answer is exact up to
that bound.
Reading is not free of effect: expired leases are given back and the alarm is set, so that a lost alarm heals.
"""

from collections.abc import Mapping
from typing import Any

from moorage.protocols.javascript import iso_time, to_safe_integer
from moorage.protocols.queue import health, scheduled
from moorage.protocols.queue.dispatch import Dispatcher
from moorage.protocols.queue.items import DispatchFailure, QueueItem
from moorage.protocols.wire import Reply, reply, wire_method
from moorage.protocols.wire.queue import InvalidItemIdentity

from ..state_writer import StateWriter
from .batches import BatchMethods
from .dead_letters import DeadLetterMethods
from .direct import DirectPublicationMethods

TARGETS_SHOWN = 100
PUBLICATION_ENDINGS = ("published", "superseded", "semantic_deduped", "retried", "dead_lettered")
SHED_REASONS = ("backpressure", "scheduled_rate", "unattributed")


def _iso(milliseconds: int | None) -> str | None:
    return None if milliseconds is None else iso_time(milliseconds)


def _age(since: int | None, now: int) -> int | None:
    return None if since is None else max(0, now - since) // health.SECOND


def _failure(failed: DispatchFailure | None) -> dict[str, Any]:
    return {
        "dispatch_failure_status": failed.status if failed else None,
        "dispatch_failure_class": failed.failure_class if failed else None,
        "dispatch_failure_at": _iso(failed.at) if failed else None,
        "dispatch_failure_fingerprint": failed.fingerprint if failed else None,
        "dispatch_failure_detail": failed.detail if failed else None,
    }


def _dispatcher(found: Dispatcher) -> dict[str, Any]:
    return {
        "state": found.state,
        "reason": found.reason,
        "workflow_state": found.workflow_state,
        "checked_at": _iso(found.checked_at),
        "retry_at": _iso(found.retry_at),
        **_failure(found.failure),
        "dispatch_consecutive_failures": found.consecutive_failures,
    }


class StatsMethods(DeadLetterMethods, BatchMethods, DirectPublicationMethods):
    """`GET /api/exact-review-queue` and `/item`."""

    state_writer: StateWriter

    @wire_method
    async def item_status(self, target_repo: str | None, item_number: str | None) -> Reply:
        """200 with what the queue holds of one issue or pull request, spelled as asked."""
        repository = (target_repo or "").strip()
        number = to_safe_integer(item_number, minimum=1)
        owner, slash, name = repository.partition("/")
        if number is None or not slash or not owner or not name or "/" in name:
            raise InvalidItemIdentity
        key = f"{repository}#{number}"
        return reply(
            {
                "ok": True,
                "target_repo": repository,
                "item_number": number,
                "items": [self._status(item) for item in self.items.of_target(key)],
                "dead_letters": [
                    {
                        "dead_letter_id": letter.dead_letter_id,
                        "revision": letter.item.revision,
                        "status": letter.status,
                        "reason_code": letter.reason_code,
                        "attempts": letter.attempts,
                        "first_failed_at": iso_time(letter.first_failed_at),
                        "last_failed_at": iso_time(letter.last_failed_at),
                    }
                    for letter in self.dead_letters.of_target(key)
                    if letter.status == "open"
                ],
                "position_is_approximate": True,
            }
        )

    def _status(self, item: QueueItem) -> dict[str, Any]:
        pending = item.state == "pending"
        return {
            "lane": item.lane,
            "state": item.state,
            "parked_reason": item.parked_reason,
            "parked_recovery_attempts": item.parked_recovery_attempts,
            "backoff_reason": item.backoff_reason,
            "revision": item.revision,
            "attempts": item.attempts,
            **_failure(item.dispatch_failure),
            "created_at": iso_time(item.created_at),
            "next_attempt_at": _iso(item.next_attempt_at) if pending else None,
            "older_ready_count": self.items.older_ready(item, self.now()) if pending else 0,
        }

    @wire_method
    async def queue_stats(self) -> Reply:
        """200 with the statistics."""
        self.transaction(self.reclaim_expired)
        await self.reschedule()
        now, counts, totals = self.now(), self.items.counts(), self.metrics.totals()
        review, publication = self._review_lane(counts, totals), self._publication_lane(counts, totals)
        phases, pressure = self._phases(counts), self._pressure(review)
        wake = self.next_wake()
        value = {
            "generated_at": iso_time(now),
            "pending": review["pending"],
            "ready_pending": review["ready"],
            "admissible_pending": pressure["admissible_pending"],
            "shed_since_reset": sum(review["shed_reasons_since_reset"].values()),
            "dispatching": review["dispatching"],
            "leased": review["leased"],
            **self._oldest(phases),
            "handoff_health": self._handoff(review, phases),
            "lanes": {"review": review, "publication": publication},
            "pressure": pressure,
            "next_wake_at": _iso(wake),
            "dispatcher": _dispatcher(self.dispatcher()),
            "target_stats": [
                {
                    "target_repo": row["target_repo"],
                    "pending": row["pending"],
                    "dispatching": row["dispatching"],
                    "leased": row["leased"],
                    "oldest_pending_at": _iso(row["head_created_at"]),
                }
                for row in self.items.targets("review", TARGETS_SHOWN)
            ],
            "delivery_receipts": totals.get("delivery_receipts", 0),
            "scheduled_feed": self._feed(now),
            "state_writer": {"coordinator": self.state_writer.stats()},
            "storage_schema_version": 1,
            "legacy_rollback_available": False,
        }
        return reply(value)

    def _phases(self, counts: Mapping[tuple[str, str], int]) -> health.Phases:
        """Reviews by state; each state's oldest is the one that has been in it longest."""

        def phase(state: str, oldest: tuple[str, int] | None) -> health.Phase:
            key, since = oldest or (None, None)
            return health.Phase(counts["review", state], since, key)

        return health.Phases(
            phase("pending", self.items.oldest("review", "pending")),
            phase("dispatching", self.items.oldest_dispatch("review")),
            phase("leased", self.items.oldest_claim("review")),
        )

    def _oldest(self, phases: health.Phases) -> dict[str, Any]:
        now, found = self.now(), dict[str, Any]()
        for state in ("pending", "dispatching", "leased"):
            phase: health.Phase = getattr(phases, state)
            found[f"oldest_{state}_at"] = _iso(phase.since)
            found[f"oldest_{state}_age_seconds"] = phase.age(now)
            if state == "pending":
                found["oldest_pending_key"] = phase.key
        return found

    def _lane(self, lane: str, counts: Mapping[tuple[str, str], int], capacity: int) -> dict[str, Any]:
        held = {state: counts[lane, state] for state in ("pending", "dispatching", "leased", "parked")}
        now = self.now()
        ready, active = self.items.ready(lane, now), held["dispatching"] + held["leased"]
        oldest = self.items.oldest(lane, "pending")
        oldest_ready, oldest_backoff = self.items.oldest_waiting(lane, now)
        return {
            **held,
            "pending_depth": held["pending"],
            "ready": ready,
            "backoff": held["pending"] - ready,
            "capacity": capacity,
            "active": active,
            "available_slots": max(0, capacity - active),
            "oldest_pending_at": _iso(oldest[1]) if oldest else None,
            "oldest_pending_age_seconds": _age(oldest[1], now) if oldest else None,
            "oldest_pending_key": oldest[0] if oldest else None,
            "oldest_ready_at": _iso(oldest_ready),
            "oldest_ready_age_seconds": _age(oldest_ready, now),
            "oldest_backoff_at": _iso(oldest_backoff),
            "oldest_backoff_age_seconds": _age(oldest_backoff, now),
            "next_attempt_at": _iso(self.items.next_due(lane, "pending")),
        }

    def _totals(self, lane: str, names: tuple[str, ...], totals: dict[str, int]) -> dict[str, int]:
        return {f"{name}_total": totals.get(f"{lane}.{name}", 0) for name in names}

    def _review_flow(self, minutes: int) -> dict[str, Any]:
        window = self.metrics.window(minutes, self.now())
        shed = {reason: window.get(f"review.shed.{reason}", 0) for reason in SHED_REASONS[:2]}
        counts = {
            wire: window.get(f"review.{name}", 0)
            for wire, name in {"arrival": "enqueued", "successful": "completed", "retried": "retried"}.items()
        }
        counts["shed"] = sum(shed.values())
        return {
            "window_minutes": minutes,
            **counts,
            "shed_reasons": shed,
            **{f"{name}_rate_per_hour": count * 60 // minutes for name, count in counts.items()},
        }

    def _publication_flow(self, minutes: int) -> dict[str, Any]:
        window = self.metrics.window(minutes, self.now())
        names = {"enqueued": "enqueued", "resolved": "completed"} | {name: name for name in PUBLICATION_ENDINGS}
        counts = {wire: window.get(f"publication.{name}", 0) for wire, name in names.items()}
        rates = {name: count * 60 // minutes for name, count in counts.items()}
        arrivals = rates.pop("enqueued")
        return {
            "window_minutes": minutes,
            **counts,
            "arrival_rate_per_hour": arrivals,
            **{f"{name}_rate_per_hour": rate for name, rate in rates.items()},
            "net_drain_rate_per_hour": rates["resolved"] - arrivals,
        }

    def _review_lane(self, counts: Mapping[tuple[str, str], int], totals: dict[str, int]) -> dict[str, Any]:
        names = ("enqueued", "completed", "superseded", "semantic_deduped")
        shed = {reason: totals.get(f"review.shed.{reason}", 0) for reason in SHED_REASONS}
        return {
            **self._lane("review", counts, self.settings.review_capacity),
            **self._totals("review", names, totals),
            "shed_since_reset": sum(shed.values()),
            "shed_reasons_since_reset": shed,
            "flow": {"last_15_minutes": self._review_flow(15)},
        }

    def _publication_lane(self, counts: Mapping[tuple[str, str], int], totals: dict[str, int]) -> dict[str, Any]:
        names = ("enqueued", "completed", *PUBLICATION_ENDINGS, "refreshed")
        lane = self._lane("publication", counts, self.settings.publication_capacity)
        flow = {f"last_{minutes}_minutes": self._publication_flow(minutes) for minutes in (15, 60)}
        letters, direct, now = self.dead_letters.summary(), self.direct.counts(), self.now()
        return {
            **lane,
            **self._totals("publication", names, totals),
            "shed_since_reset": 0,
            "flow": flow,
            "health": health.publication_health(
                lane["pending"],
                lane["active"],
                lane["parked"],
                (lane["oldest_pending_age_seconds"] or 0) * health.SECOND,
                flow["last_15_minutes"]["net_drain_rate_per_hour"],
            ),
            "dead_letters": {
                "open": letters["open"],
                "limit": self.settings.dead_letter_limit,
                "oldest_failed_at": _iso(letters["oldest"]),
                "reasons": letters["reasons"],
            },
            "batches": {
                "enabled": self.settings.batching,
                "max_items": self.settings.batch_size,
                "max_concurrent": self.settings.batch_concurrent,
                "leased": self.batches.active(now),
            },
            "direct": {
                "enabled": self.settings.direct_publication,
                "health": {"status": "healthy", "store": "durable_object_sqlite"},
                **{state: direct[state] for state in ("pending", "retryable", "failed")},
                "oldest_pending_at": _iso(direct["oldest"]),
            },
        }

    def _handoff(self, review: dict[str, Any], phases: health.Phases) -> dict[str, Any]:
        """Whether hand-outs are claimed in time."""
        now, lease = self.now(), self.settings.dispatch_lease_ms
        late, stuck = health.handoff_limits(lease)
        total = review["pending"] + review["active"] + review["parked"]
        return {
            **health.handoff(phases, total, self.dispatcher().state, now, lease),
            "observed_at": iso_time(now),
            "warning_after_seconds": late // health.SECOND,
            "stalled_after_seconds": stuck // health.SECOND,
            "capacity": review["capacity"],
            "active": review["active"],
            "available_slots": review["available_slots"],
            "pending_depth": review["pending"],
            "shed_since_reset": review["shed_since_reset"],
            "phases": {state: getattr(phases, state).wire(now) for state in ("pending", "dispatching", "leased")},
        }

    def _pressure(self, review: dict[str, Any]) -> dict[str, Any]:
        admissible = self.items.admissible("review", self.now(), self.settings.target_capacity)
        load = health.Load(
            review["pending"], review["ready"], min(review["ready"], admissible), review["active"], review["capacity"]
        )
        return {
            **health.pressure(load, self.dispatcher().state),
            "capacity": load.capacity,
            "active": load.active,
            "pending": load.pending,
            "ready_pending": load.ready,
            "admissible_pending": load.admissible,
        }

    def _feed(self, now: int) -> dict[str, Any]:
        every = scheduled.limits(self.settings.scheduled_rate_per_hour, self.settings.scheduled_burst)
        stored = self.meta.buckets()
        shown = {
            name: {
                "target_rate_per_hour": rate,
                "burst": burst,
                "token_balance": int(scheduled.refilled(stored.get(name), rate, burst, now).tokens),
            }
            for name, (rate, burst) in every.items()
        }
        common = shown.pop("all")
        return {**common, "lanes": shown}

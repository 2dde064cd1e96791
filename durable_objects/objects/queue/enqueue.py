"""Events into the queue. Rules: `moorage.protocols.queue.admission`; spec state-plane-protocol 11.1."""

import logging
from typing import Any

from msgspec import UNSET

from moorage.protocols.javascript import trim
from moorage.protocols.queue import scheduled
from moorage.protocols.queue.admission import (
    GATED_TARGET,
    RESERVED_DELIVERY,
    Fold,
    Ingress,
    edit_fingerprint,
    fold_review,
    new_publication,
    new_review,
    newer_revision,
    parse_ingress,
)
from moorage.protocols.queue.decisions import SCHEDULED_ACTIONS, Decision, InvalidDecision, parse_decision
from moorage.protocols.queue.items import QueueItem
from moorage.protocols.wire import Reply, reply, wire_method
from moorage.protocols.wire.queue import (
    InvalidExactReviewIngress,
    InvalidExactReviewItem,
    MissingDeliveryId,
    ReservedDeliveryId,
)

from .base import QueueBase

logger = logging.getLogger(__name__)


class EnqueueMethods(QueueBase):
    """`enqueue`, and what the intake and recoveries use of it."""

    @wire_method
    async def enqueue(self, members: dict[str, Any], body_sha256: str | None = None) -> Reply:
        """202 with what became of the event. `body_sha256`: digest of the authenticated body, kept with the
        delivery."""
        delivery = trim(members["delivery_id"]) if isinstance(members.get("delivery_id"), str) else ""
        if not delivery:
            raise MissingDeliveryId
        if delivery.startswith(RESERVED_DELIVERY):
            raise ReservedDeliveryId
        try:
            decision = parse_decision(members.get("decision"))
        except InvalidDecision as error:
            logger.info("enqueue %s: %s", delivery[:80], error)
            raise InvalidExactReviewItem from None
        ingress = None
        if "ingress" in members:
            ingress = parse_ingress(members["ingress"], decision)
            if ingress is None:
                raise InvalidExactReviewIngress
        if not self.target_enabled(decision.target_repo):
            return reply({"ok": True, "accepted": False, "reason": "target not enabled"}, 202)
        await self.pass_gate(decision.target_repo)
        answer = self.transaction(lambda: self.admit_event(delivery, decision, ingress, body_sha256))
        # an event adds nothing to what is due by itself but something to hand out
        for ready in (self.next_hand_out(), self.next_departure()):
            if ready is not None:
                await self.wake(ready)
        return reply({"ok": True, **answer}, 202)

    def target_enabled(self, repository: str) -> bool:
        """Whether the target may be worked on at all (spec state-plane-protocol 2.6)."""
        return self.settings.clawhub or repository.lower() != GATED_TARGET

    def admit_event(
        self, delivery: str, decision: Decision, ingress: Ingress | None = None, body_sha256: str | None = None
    ) -> dict[str, Any]:
        """Folds the event into the queue, and the answer to it; inside the caller's transaction."""
        now, key = self.now(), decision.item_key
        if self.deliveries.seen(delivery, now):
            return {"deduped": True, "item_key": key}
        self.deliveries.add(delivery, body_sha256, now)
        if decision.publication is not UNSET:
            return self._admit_publication(decision)
        present = self.items.get(key)
        verified = decision.source_head_verified is True
        crossed = ingress is not None and self.ingress.came_by_other_route(ingress, decision.target_branch, verified)
        edit = edit_fingerprint(decision)
        unchanged = edit is not None and self.ingress.edit_unchanged(key.lower(), edit)
        pending = self.items.count("review", "pending")
        fold = fold_review(present, decision, pending, self.settings, crossed, unchanged)
        fold = self._within_rate(fold, decision)
        if ingress is not None:
            self.ingress.note(ingress, decision.target_branch, fold.action in {"create", "replace", "withdraw"}, now)
        if edit is not None and fold.action in {"create", "replace", "withdraw"}:
            self.ingress.note_edit(key.lower(), edit, now)
        return self._apply(fold, present, decision)

    def _within_rate(self, fold: Fold, decision: Decision) -> Fold:
        """A new scheduled review needs a token; a new ordinary one takes one where there is one."""
        if fold.action != "create":
            return fold
        admitted, buckets = scheduled.take(
            self.meta.buckets(),
            SCHEDULED_ACTIONS.get(decision.source_action),
            self.settings.scheduled_rate_per_hour,
            self.settings.scheduled_burst,
            self.now(),
        )
        self.meta.put_buckets(buckets)
        return fold if admitted else Fold("shed", reason="scheduled_rate")

    def _apply(self, fold: Fold, present: QueueItem | None, decision: Decision) -> dict[str, Any]:
        key = decision.item_key
        if fold.action == "shed":
            self.count("review", f"shed.{fold.reason}")
            return {"shed": True, "reason": fold.reason}
        if fold.action == "dedupe":
            if fold.answer.get("dedupe_scope") == "semantic_edited":
                self.count("review", "semantic_deduped")
                key = key.lower()
            return {"deduped": True, "item_key": key, **fold.answer}
        queued = {"queued": True, "item_key": key, "superseded_publications": 0}
        if fold.action == "create":
            self.create_review(decision)
        elif present is not None and fold.action != "keep":
            self._replace(present, decision, fold.action == "withdraw")
        return queued

    def create_review(self, decision: Decision, minimum: int = 1) -> QueueItem:
        """A new review with the item's next durable revision, at least `minimum`."""
        revision = self.next_revision(decision, minimum)
        item = new_review(decision, revision, self.now(), self.settings, self.not_before())
        self.items.put(item, None)
        self.count("review", "enqueued")
        return item

    def next_revision(self, decision: Decision, minimum: int) -> int:
        """The item's next durable revision; never below the target's publication head, for the publication of such a
        review would be superseded before it began."""
        least = max(minimum, self.heads.get(decision.target_key))
        return self.command_intakes.allocate_revision(decision.item_key, least)

    def _replace(self, present: QueueItem, decision: Decision, withdraw: bool) -> None:
        revision = self.next_revision(present.decision, present.revision + 1)
        if withdraw:
            self.supersessions.add(present, revision, decision.source_action, self.now())
            self.count("review", "superseded")
        after = newer_revision(
            present, decision, revision, self.now(), self.settings, withdraw=withdraw, not_before=self.not_before()
        )
        self.items.put(after, present)
        self.end_overtaken(present, after)

    def _admit_publication(self, decision: Decision) -> dict[str, Any]:
        """Only the newest lease revision of an item may be published
        (`exact-review-enqueue/publication-superseded`)."""
        assert decision.publication is not UNSET
        key, now = decision.item_key, self.now()
        revision = decision.publication.lease_revision or 0
        head = self.heads.get(decision.target_key)
        if revision and revision < head:
            self.count("publication", "superseded")
            return {
                "deduped": True,
                "item_key": key,
                "superseded": True,
                "publication_revision": revision,
                "superseded_by_revision": head,
            }
        superseded = self._supersede_publications(decision.target_key, revision) if revision > head else 0
        if revision:
            self.heads.advance(decision.target_key, revision, now)
        present = self.items.get(key)
        if present is None:
            self.items.put(new_publication(decision, 1, now), None)
            self.count("publication", "enqueued")
        else:
            after = newer_revision(present, decision, present.revision + 1, now, self.settings)
            self.items.put(after, present)
        return {"queued": True, "item_key": key, "superseded_publications": superseded}

    def _supersede_publications(self, target_key: str, revision: int) -> int:
        """Removes publications of older revisions that nobody works on."""
        removed = 0
        for item in self.items.of_target(target_key):
            publication = item.decision.publication
            if publication is UNSET or item.state == "leased":
                continue
            if (publication.lease_revision or 0) < revision:
                self.items.remove(item)
                self.end_overtaken(item, None)
                removed += 1
        if removed:
            self.count("publication", "superseded", removed)
        return removed

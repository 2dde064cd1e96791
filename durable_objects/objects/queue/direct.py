"""Direct publication and the lifecycle facts that completion needs. Rules:
`moorage.protocols.publication.direct`; spec 11.9.

The record tuple, the plan's receipt and the lease's decision change in one transaction: the record store and
the queue are
one object.
"""

import logging
from dataclasses import dataclass
from typing import Any

import msgspec
from msgspec import UNSET

from moorage.protocols.dead_letters import parse_cursor
from moorage.protocols.javascript import to_safe_integer
from moorage.protocols.publication import direct as rules
from moorage.protocols.publication.direct import DirectPlan, InvalidPlan
from moorage.protocols.queue.decisions import DirectLifecycle
from moorage.protocols.queue.endings import Ending, direct_lifecycle_of, plans_of
from moorage.protocols.queue.items import QueueItem
from moorage.protocols.wire import Reply, reply, wire_method
from moorage.protocols.wire.publication import (
    DirectPublicationConflict,
    DirectPublicationDisabled,
    DirectPublicationFenceNotOwned,
    InvalidDirectPublicationPlan,
)
from moorage.protocols.wire.queue import InvalidCursor, InvalidLimit

from ..records import Records
from .base import QueueBase

logger = logging.getLogger(__name__)
MAX_INVENTORY = 100

_SCHEMA = """
CREATE TABLE IF NOT EXISTS exact_review_direct_publication_plans (
  item_key TEXT NOT NULL,
  canonical_target_key TEXT NOT NULL,
  fence_key TEXT NOT NULL,
  revision INTEGER NOT NULL,
  identity_item_key TEXT NOT NULL,
  identity_revision INTEGER NOT NULL,
  claim_generation INTEGER NOT NULL,
  fingerprint TEXT NOT NULL,
  operations_json TEXT NOT NULL,
  lifecycle_json TEXT,
  total_bytes INTEGER NOT NULL,
  file_count INTEGER NOT NULL,
  state TEXT NOT NULL CHECK (state IN ('pending', 'committing', 'retryable', 'published', 'superseded', 'failed')),
  attempts INTEGER NOT NULL DEFAULT 1,
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL,
  next_attempt_at INTEGER,
  commit_sha TEXT,
  failure_reason TEXT,
  PRIMARY KEY (item_key, revision)
) STRICT, WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS exact_review_direct_publication_plans_target
  ON exact_review_direct_publication_plans (canonical_target_key, revision);
CREATE INDEX IF NOT EXISTS exact_review_direct_publication_plans_state
  ON exact_review_direct_publication_plans (state, updated_at, item_key, revision);
CREATE TABLE IF NOT EXISTS exact_review_lifecycle_projection_v1 (
  canonical_target_key TEXT NOT NULL,
  fence_key TEXT NOT NULL,
  revision INTEGER NOT NULL,
  plan_kind TEXT NOT NULL,
  receipt_outcome TEXT NOT NULL,
  terminal_disposition TEXT,
  terminal_reason TEXT,
  terminal_at INTEGER,
  created_at INTEGER NOT NULL,
  PRIMARY KEY (canonical_target_key, fence_key, revision)
) STRICT, WITHOUT ROWID;
"""


@dataclass(frozen=True, slots=True)
class Review:
    """The review whose outcome a plan publishes; `revision` is 0 where its publication names none.

    A publication counts revisions of its own: those of two plans compare only as those of their reviews.
    """

    item_key: str
    revision: int


class DirectPublications:
    """Plans and lifecycle facts over `ctx.storage`; every time is an argument, in milliseconds."""

    def __init__(self, storage: Any) -> None:
        self._sql = storage.sql
        self._sql.exec(_SCHEMA)

    def find(self, plan: DirectPlan) -> dict[str, Any] | None:
        """What was published under the plan's fence and revision, or None."""
        rows = self._sql.exec(
            "SELECT fingerprint, state, commit_sha FROM exact_review_direct_publication_plans"
            " WHERE item_key = ? AND revision = ?",
            plan.fence_key,
            plan.revision,
        ).toArray()
        return rows[0] if rows else None

    def newer(self, plan: DirectPlan, review: Review) -> list[int]:
        """Newer reviews of the target that were published already, by revision, at most 20."""
        rows = self._sql.exec(
            "SELECT DISTINCT identity_revision AS revision FROM exact_review_direct_publication_plans"
            " WHERE canonical_target_key = ? AND identity_revision > ? AND state = 'published'"
            " ORDER BY identity_revision LIMIT 20",
            plan.canonical_target_key.lower(),
            review.revision,
        )
        return [row["revision"] for row in rows]

    def add(self, plan: DirectPlan, review: Review, state: str, commit: str | None, now: int) -> None:
        """The plan's receipt; a plan has one, for ever the same."""
        lifecycle = None if plan.lifecycle is None else msgspec.json.encode(plan.lifecycle).decode()
        self._sql.exec(
            "INSERT INTO exact_review_direct_publication_plans (item_key, canonical_target_key, fence_key, revision,"
            " identity_item_key, identity_revision, claim_generation, fingerprint, operations_json, lifecycle_json,"
            " total_bytes, file_count, state, created_at, updated_at, commit_sha)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            plan.fence_key,
            plan.canonical_target_key.lower(),
            plan.fence_key,
            plan.revision,
            review.item_key,
            review.revision,
            plan.claim_generation,
            plan.fingerprint,
            plan.operations_json(),
            lifecycle,
            plan.total_bytes,
            len(plan.operations),
            state,
            now,
            now,
            commit,
        )

    def add_lifecycle(self, found: DirectLifecycle, now: int) -> None:
        """The receipt of an acknowledgement plan; one that is there is never changed."""
        self._sql.exec(
            "INSERT OR IGNORE INTO exact_review_lifecycle_projection_v1 (canonical_target_key, fence_key, revision,"
            " plan_kind, receipt_outcome, created_at) VALUES (?, ?, ?, ?, ?, ?)",
            found.canonical_target_key,
            found.fence_key,
            found.revision,
            found.plan.kind,
            found.receipt_outcome,
            now,
        )

    def end_lifecycle(self, found: DirectLifecycle, disposition: str, reason: str, now: int) -> None:
        """The terminal fact of one target, fence and revision; the first one stays. No receipt is made here."""
        self._sql.exec(
            "UPDATE exact_review_lifecycle_projection_v1 SET terminal_disposition = ?, terminal_reason = ?,"
            " terminal_at = ?"
            " WHERE canonical_target_key = ? AND fence_key = ? AND revision = ? AND terminal_at IS NULL",
            disposition,
            reason,
            now,
            found.canonical_target_key,
            found.fence_key,
            found.revision,
        )

    def lifecycle(self, target_key: str) -> list[dict[str, Any]]:
        """Every lifecycle fact of a target, by fence and revision."""
        rows = self._sql.exec(
            "SELECT * FROM exact_review_lifecycle_projection_v1 WHERE canonical_target_key = ?"
            " ORDER BY fence_key, revision",
            target_key,
        )
        return rows.toArray()  # type: ignore[no-any-return]

    def page(self, after: tuple[str, str, int], limit: int) -> list[dict[str, Any]]:
        """Lifecycle facts after (target, fence, revision), in that order."""
        rows = self._sql.exec(
            "SELECT * FROM exact_review_lifecycle_projection_v1"
            " WHERE (canonical_target_key, fence_key, revision) > (?, ?, ?)"
            " ORDER BY canonical_target_key, fence_key, revision LIMIT ?",
            *after,
            limit,
        )
        return rows.toArray()  # type: ignore[no-any-return]

    def counts(self) -> dict[str, Any]:
        """Plans by state and the oldest waiting one, for the queue's statistics; states are few and indexed."""
        found: dict[str, Any] = {}
        for state in ("pending", "retryable", "failed"):
            row = self._sql.exec(
                "SELECT count(*) AS n, min(updated_at) AS oldest FROM exact_review_direct_publication_plans"
                " WHERE state = ?",
                state,
            ).one()
            found[state] = row["n"]
            found.setdefault("oldest", row["oldest"])
        return found

    def prune(self, now: int) -> None:
        """Removes ended plans after seven days, 256 at a time."""
        for state in ("published", "superseded", "failed"):
            self._sql.exec(
                "DELETE FROM exact_review_direct_publication_plans WHERE (item_key, revision) IN (SELECT"
                " item_key, revision"
                " FROM exact_review_direct_publication_plans WHERE state = ? AND updated_at <= ?"
                " ORDER BY updated_at LIMIT 256)",
                state,
                now - rules.PLAN_RETENTION_MS,
            )


class DirectPublicationMethods(QueueBase):
    """`publication-results`, and the lifecycle of a lease."""

    direct: DirectPublications
    records: Records

    @wire_method
    def publish_directly(self, members: dict[str, Any]) -> Reply:
        """202 with the receipt. Refuses as spec state-plane-protocol 11.9 has it, always with `fallback_required`."""
        if not self.settings.direct_publication:
            raise DirectPublicationDisabled
        try:
            plan = rules.parse_plan(members)
            answer = self.transaction(lambda: self._publish(plan))
        except InvalidPlan as error:
            logger.info("direct publication plan: %s", error)
            raise InvalidDirectPublicationPlan from None
        receipt = {"canonical_target_key": plan.canonical_target_key, "fence_key": plan.fence_key}
        return reply({"ok": True, **answer, **receipt, "state_commit_sha": answer["state_commit_sha"]}, 202)

    @wire_method
    def lifecycle_inventory(self, members: dict[str, Any]) -> Reply:
        """200 `{ok, lifecycle, next_cursor}`: the facts by target, fence and revision; `cursor` is
        `target|fence|revision`."""
        limit = to_safe_integer(members["limit"], 1, MAX_INVENTORY) if "limit" in members else MAX_INVENTORY
        if limit is None:
            raise InvalidLimit
        target, _, rest = parse_cursor(members).partition("|")
        fence, _, revision = rest.partition("|")
        if rest and not (revision.isascii() and revision.isdigit() and len(revision) <= 16):
            raise InvalidCursor
        found = self.direct.page((target, fence, int(revision or 0)), limit + 1)
        shown = found[:limit]
        last = shown[-1] if len(found) > limit else None
        cursor = f"{last['canonical_target_key']}|{last['fence_key']}|{last['revision']}" if last else None
        return reply({"ok": True, "lifecycle": shown, "next_cursor": cursor})

    def _publish(self, plan: DirectPlan) -> dict[str, Any]:
        known = self.direct.find(plan)
        if known is not None:
            if known["fingerprint"] != plan.fingerprint:
                raise DirectPublicationConflict
            return _receipt(deduped=True, superseded=known["state"] == "superseded", commit=known["commit_sha"])
        item = self._fenced(plan)
        review = _review_of(item, plan)
        newer = self.direct.newer(plan, review) if review.revision else []
        if newer:
            self.direct.add(plan, review, "superseded", None, self.now())
            self._save(item, plan, "superseded")
            return _receipt(superseded=True, revisions=newer)
        packet = self.records.read(plan.slug, "decision-packets", plan.number)
        operations = rules.tuple_operations(plan, packet.digest if packet is not None else None)
        revision = self.records.apply(
            plan.slug,
            plan.number,
            operations,
            item_key=plan.fence_key,
            claim_generation=plan.claim_generation,
            at_least=plan.revision,
        )
        commit = f"do-revision:{revision}"
        self.direct.add(plan, review, "published", commit, self.now())
        if review.revision:
            self.heads.advance(plan.canonical_target_key, review.revision, self.now())
        self._save(item, plan, "accepted")
        self.count("publication", "direct_published")
        return _receipt(accepted=True, commit=commit)

    def _fenced(self, plan: DirectPlan) -> QueueItem:
        """The item whose live claim the caller holds. Raises DirectPublicationFenceNotOwned."""
        item = self.items.get(plan.fence_key)
        if item is None or item.state != "leased" or self.is_expired(item):
            raise DirectPublicationFenceNotOwned
        held = (item.lease_revision, item.claim_generation, item.decision.target_key.lower())
        if held != (plan.revision, plan.claim_generation, plan.canonical_target_key.lower()):
            raise DirectPublicationFenceNotOwned
        return item

    def _save(self, item: QueueItem, plan: DirectPlan, outcome: str) -> None:
        """Makes the lease a publication that remembers what follows the record."""
        after = msgspec.structs.replace(rules.as_publication(item, plan, outcome), updated_at=self.now())
        self.items.put(after, item)
        if after.lane != item.lane:
            self.count("review", "completed")
            self.count("publication", "enqueued")
        found = direct_lifecycle_of(after)
        if found is not None:
            self.direct.add_lifecycle(found, self.now())

    def end_lifecycle(self, item: QueueItem, ending: Ending, outcome: str, disposition: str | None) -> None:
        """The terminal fact of the lease's direct publication: its old target, fence and revision, and no new
        receipt.

        A failure that is tried again is no end, unless a newer revision takes over.
        """
        found = direct_lifecycle_of(item)
        if found is None or found.revision is UNSET:
            return
        if ending.drift:
            self.direct.end_lifecycle(found, "requeue", "source_drift_requeue", self.now())
        elif ending.requeued and item.has_newer_revision:
            self.direct.end_lifecycle(found, disposition or "requeue", "newer_revision", self.now())
        elif not ending.requeued:
            ended = rules.terminal_disposition(found, outcome, ending.burial is not None, disposition)
            self.direct.end_lifecycle(found, ended, f"completed_{outcome}", self.now())

    def end_overtaken(self, before: QueueItem, after: QueueItem | None) -> None:
        """The terminal fact of a plan that nobody follows up any more: something newer took the place of `before`."""
        kept = [] if after is None else plans_of(after)
        for found in plans_of(before):
            if found not in kept and found.revision is not UNSET:
                self.direct.end_lifecycle(found, "superseded", "newer_revision", self.now())


def _review_of(item: QueueItem, plan: DirectPlan) -> Review:
    decision = item.held_decision
    if decision is None or decision.publication is UNSET:
        return Review(plan.fence_key, plan.revision)
    return Review(decision.publication.item_key, decision.publication.lease_revision or 0)


def _receipt(
    accepted: bool = False,
    deduped: bool = False,
    superseded: bool = False,
    revisions: list[int] | None = None,
    commit: str | None = None,
) -> dict[str, Any]:
    return {
        "accepted": accepted,
        "deduped": deduped,
        "superseded": superseded,
        "superseded_revisions": revisions or [],
        "state_commit_sha": commit,
    }

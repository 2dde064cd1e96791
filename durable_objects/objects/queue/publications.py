"""The publication lane for its producers: list, supersede, reconcile. Spec state-plane-protocol 11.11 as far
as recorded."""

from typing import Any

from msgspec import UNSET

from moorage.protocols.dead_letters import parse_cursor
from moorage.protocols.javascript import ABSENT, iso_time, to_safe_integer
from moorage.protocols.queue.items import QueueItem
from moorage.protocols.wire import Reply, reply, wire_method
from moorage.protocols.wire.publication import InvalidPublicationCandidates, InvalidPublicationReconcile
from moorage.protocols.wire.queue import InvalidLimit

from .base import QueueBase

MAX_PAGE = 100
MAX_CANDIDATES = 100
MAX_RECONCILED = 1000
SAMPLE = 20
# Terminal states of publishers that wrote into Git; nothing here produces them, their counts stay 0.
_LEGACY = (
    "lineage_duplicate_eligible",
    "lineage_duplicate_changed",
    "lineage_refreshed",
    "legacy_terminal_candidates",
    "legacy_terminal_selected",
    "legacy_terminal_eligible",
    "legacy_terminal_changed",
    "legacy_state_batch_terminal_candidates",
    "legacy_state_batch_terminal_selected",
    "legacy_state_batch_terminal_producer_succeeded",
    "legacy_state_batch_terminal_eligible",
    "legacy_state_batch_terminal_changed",
)


class PublicationMethods(QueueBase):
    """What is waiting to be published, and what no longer needs to be."""

    @wire_method
    def list_publications(self, members: dict[str, Any]) -> Reply:
        """200 `{ok, publications, next_cursor}`, by key."""
        limit = to_safe_integer(members["limit"], 1, MAX_PAGE) if "limit" in members else MAX_PAGE
        if limit is None:
            raise InvalidLimit
        found = self.items.publications(parse_cursor(members), limit + 1)
        shown = found[:limit]
        return reply(
            {
                "ok": True,
                "publications": [_row(item) for item in shown],
                "next_cursor": shown[-1].key if len(found) > limit else None,
            }
        )

    @wire_method
    def supersede_publications(self, members: dict[str, Any]) -> Reply:
        """200 `{ok, superseded, skipped}`: waiting publications of exactly these revisions go."""
        value = members.get("items")
        if not isinstance(value, list) or not 1 <= len(value) <= MAX_CANDIDATES:
            raise InvalidPublicationCandidates
        candidates = []
        for entry in value:
            revision = to_safe_integer(entry.get("revision", ABSENT), minimum=1) if isinstance(entry, dict) else None
            if revision is None or not isinstance(entry.get("item_key"), str):
                raise InvalidPublicationCandidates
            candidates.append((entry["item_key"], revision))
        superseded = self.transaction(lambda: sum(self._supersede(key, revision) for key, revision in candidates))
        return reply({"ok": True, "superseded": superseded, "skipped": len(candidates) - superseded})

    def _supersede(self, key: str, revision: int) -> bool:
        item = self.items.get(key)
        if (
            item is None
            or item.lane != "publication"
            or item.revision != revision
            or item.state not in {"pending", "parked"}
        ):
            return False
        self.items.remove(item)
        self.end_overtaken(item, None)
        self.count("publication", "superseded")
        return True

    @wire_method
    def reconcile_publications(self, members: dict[str, Any]) -> Reply:
        """200 with counts: waiting publications older than their target's head, removed when `apply` is true.

        Looks at `max_items` publications from `cursor` on, by key. One that a command asked for is eligible and
        stays: whether its command was acknowledged is not known here. `sample` has the rows that the reference's
        maintenance client reads.
        """
        apply = members.get("apply", False)
        most = to_safe_integer(members["max_items"], 1, MAX_RECONCILED) if "max_items" in members else MAX_PAGE
        if not isinstance(apply, bool) or most is None:
            raise InvalidPublicationReconcile
        found = self.items.publications(parse_cursor(members), most)
        stale = [item for item in found if self._is_stale(item)]
        changed = []
        if apply:
            safe = [item for item in stale if not item.asked_by_command]
            changed = self.transaction(lambda: [item for item in safe if self._supersede(item.key, item.revision)])
        left = [item for item in stale if item not in changed]
        held = sum(item.batch_id is not None for item in found)
        counts = {
            "scanned": len(found),
            "legacy_terminal_scanned": 0,
            "eligible": len(stale),
            "changed": len(changed),
            "eligible_remaining": len(left),
            "stale_revision_eligible": len(stale),
            "stale_revision_changed": len(changed),
            **dict.fromkeys(_LEGACY, 0),
            "protected_batch_items": held,
            "protected_lineage_items": 0,
            "oldest_eligible_age_seconds": self._oldest_age(stale),
            "oldest_remaining_age_seconds": self._oldest_age(left),
            "sample": [self._stale_row(item) for item in stale[:SAMPLE]],
        }
        return reply({"ok": True, "apply": apply, **counts})

    def _is_stale(self, item: QueueItem) -> bool:
        publication = item.decision.publication
        if publication is UNSET or publication.lease_revision is None or item.state not in {"pending", "parked"}:
            return False
        return publication.lease_revision < self.heads.get(item.decision.target_key)

    def _stale_row(self, item: QueueItem) -> dict[str, Any]:
        publication, asked = item.decision.publication, item.asked_by_command
        assert publication is not UNSET
        return {
            "item_key": item.key,
            "queue_revision": item.revision,
            "reason": "stale_revision",
            "target_key": item.decision.target_key,
            "publication_revision": publication.lease_revision,
            "superseded_by_revision": self.heads.get(item.decision.target_key),
            "lineage_claim_generation": None,
            "retained_item_key": None,
            "command_context": asked,
            "acknowledgement_state": "unavailable" if asked else "not_required",
            "acknowledgement_unavailable_reason": "projection_missing" if asked else None,
            "successor_fence_state": None,
            "supersede_safe": not asked,
            "producer_run_id": publication.producer_run_id,
            "producer_run_attempt": publication.producer_run_attempt,
        }

    def _oldest_age(self, items: list[QueueItem]) -> int | None:
        return (self.now() - min(item.created_at for item in items)) // 1000 if items else None


def _row(item: QueueItem) -> dict[str, Any]:
    return {
        "item_key": item.key,
        "revision": item.revision,
        "state": item.state,
        "created_at": iso_time(item.created_at),
        "attempts": item.attempts,
        "decision": item.decision.wire(),
    }

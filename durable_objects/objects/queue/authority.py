"""Source authority: a number for every pull request event, and its verification against the code host.

Spec state-plane-protocol 11.11, state-plane-storage 3 and 5; `exact-review-enqueue/source-authority`. A
reservation is durable
before its number is told, so that an event whose sender dies is still enqueued by the alarm, once its head is
verified.
"""

import hashlib
import json
import logging
import re
from typing import Any, Final

import msgspec

from moorage.protocols.javascript import to_safe_integer, trim
from moorage.protocols.queue.admission import Ingress, parse_ingress
from moorage.protocols.queue.backoff import review_delay, within_reach
from moorage.protocols.queue.decisions import Decision, InvalidDecision, parse_decision
from moorage.protocols.wire import Reply, reply, wire_method
from moorage.protocols.wire.queue import InvalidSourceAuthorityReservation, SourceAuthorityUnavailable

from ...runtime.errors import DurableObjectAbort
from ...runtime.outgoing import outgoing
from ..codehost.contract import CodeHostError
from .base import QueueBase

logger = logging.getLogger(__name__)
MAX_ATTEMPTS: Final = 16
RESERVATION_RETENTION_MS: Final = 7 * 24 * 60 * 60 * 1000
# the sender has this long to enqueue the event itself
FIRST_CHECK_MS: Final = 60_000
LOT: Final = 16
SEQUENCE_KEY: Final = "exact-review-source-authority-sequence:v1"
_DELIVERY: Final = re.compile(r"[A-Za-z0-9_.:-]{1,200}")
_SCHEMA = """
CREATE TABLE IF NOT EXISTS exact_review_source_authority (
  delivery_id TEXT PRIMARY KEY,
  identity TEXT NOT NULL,
  sequence INTEGER NOT NULL,
  installation_id INTEGER NOT NULL,
  decision_json TEXT NOT NULL,
  ingress_json TEXT,
  attempts INTEGER NOT NULL DEFAULT 0,
  next_attempt_at INTEGER,
  reserved_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS exact_review_source_authority_due
  ON exact_review_source_authority (next_attempt_at) WHERE next_attempt_at IS NOT NULL;
CREATE INDEX IF NOT EXISTS exact_review_source_authority_age ON exact_review_source_authority (reserved_at);
"""


def identity_of(decision: Decision, installation: int) -> str:
    """What a delivery id stands for: target, branch, action, head and installation; not the draft state."""
    meaning = [
        decision.target_repo.lower(),
        decision.target_branch,
        decision.item_number,
        decision.source_action,
        None if decision.source_head_sha is msgspec.UNSET else decision.source_head_sha,
        installation,
    ]
    return hashlib.sha256(json.dumps(meaning).encode()).hexdigest()


class SourceAuthority:
    """Reservations over `ctx.storage`; every time is an argument, in milliseconds."""

    def __init__(self, storage: Any) -> None:
        self._sql = storage.sql
        self._kv = storage.kv
        self._sql.exec(_SCHEMA)

    def reserve(
        self, delivery: str, decision: Decision, installation: int, ingress: Ingress | None, now: int
    ) -> int | None:
        """The delivery's number, the same every time; None when the delivery stands for another event."""
        identity = identity_of(decision, installation)
        rows = self._sql.exec(
            "SELECT identity, sequence FROM exact_review_source_authority WHERE delivery_id = ?", delivery
        ).toArray()
        if rows:
            return rows[0]["sequence"] if rows[0]["identity"] == identity else None
        sequence = int(self._kv.get(SEQUENCE_KEY) or 0) + 1
        self._kv.put(SEQUENCE_KEY, sequence)
        self._sql.exec(
            "INSERT INTO exact_review_source_authority VALUES (?, ?, ?, ?, ?, ?, 0, ?, ?)",
            delivery,
            identity,
            sequence,
            installation,
            msgspec.json.encode(decision).decode(),
            None if ingress is None else msgspec.json.encode(ingress).decode(),
            now + FIRST_CHECK_MS,
            now,
        )
        return sequence

    def due(self, now: int) -> list[dict[str, Any]]:
        """Reservations to be verified, at most 16."""
        rows = self._sql.exec(
            "SELECT delivery_id, sequence, decision_json, ingress_json, attempts FROM exact_review_source_authority"
            " WHERE next_attempt_at <= ? ORDER BY next_attempt_at LIMIT ?",
            now,
            LOT,
        )
        return rows.toArray()  # type: ignore[no-any-return]

    def next_attempt_at(self) -> int | None:
        """When the next reservation is due."""
        rows = self._sql.exec(
            "SELECT next_attempt_at FROM exact_review_source_authority WHERE next_attempt_at IS NOT NULL"
            " ORDER BY next_attempt_at LIMIT 1"
        ).toArray()
        return rows[0]["next_attempt_at"] if rows else None

    def set_next(self, delivery: str, attempts: int, at: int | None) -> None:
        """The next attempt; None: no more."""
        self._sql.exec(
            "UPDATE exact_review_source_authority SET attempts = ?, next_attempt_at = ? WHERE delivery_id = ?",
            attempts,
            at,
            delivery,
        )

    def prune(self, now: int) -> None:
        """Removes reservations of the week before last, a bounded lot."""
        self._sql.exec(
            "DELETE FROM exact_review_source_authority WHERE delivery_id IN (SELECT delivery_id"
            " FROM exact_review_source_authority WHERE reserved_at <= ? ORDER BY reserved_at LIMIT 1000)",
            now - RESERVATION_RETENTION_MS,
        )


class AuthorityMethods(QueueBase):
    """`source-authority`, and the alarm's part of it."""

    authority: SourceAuthority

    @wire_method
    async def reserve_source_authority(self, members: dict[str, Any]) -> Reply:
        """200 `{ok, source_authority_seq}`; another event under the same delivery id is a conflict."""
        raw = members.get("delivery_id")
        delivery = trim(raw) if isinstance(raw, str) else ""
        installation = to_safe_integer(members.get("installation_id"), minimum=1)
        try:
            decision = parse_decision(members.get("decision"))
        except InvalidDecision:
            raise InvalidSourceAuthorityReservation from None
        if not _DELIVERY.fullmatch(delivery) or installation is None or not decision.is_pull_request:
            raise InvalidSourceAuthorityReservation
        ingress: Ingress | None = None
        if members.get("ingress") is not None:
            ingress = parse_ingress(members["ingress"], decision)
            if ingress is None or ingress.route != "direct_webhook":
                raise InvalidSourceAuthorityReservation
        if decision.publication is not msgspec.UNSET:
            raise InvalidSourceAuthorityReservation
        await self.pass_gate(decision.target_repo)
        sequence = self.transaction(
            lambda: self.authority.reserve(delivery, decision, installation, ingress, self.now())
        )
        if sequence is None:
            raise SourceAuthorityUnavailable
        await self.reschedule()
        return reply({"ok": True, "source_authority_seq": sequence})

    async def run_reservations(self) -> None:
        """Enqueues due reservations whose head the code host confirms; one that no longer holds is dropped."""
        if self.codehost is None:
            return
        for row in self.authority.due(self.now()):
            try:
                await self._verify_reservation(row)
            except DurableObjectAbort:
                raise
            except Exception:
                # one reservation that meets a defect must not hold back those behind it
                logger.exception("reservation %s", row["delivery_id"])
                self._try_again(row)

    def _try_again(self, row: dict[str, Any], retry_at: int | None = None) -> None:
        attempts, now = row["attempts"] + 1, self.now()
        at = max(now + review_delay(attempts, self.random()), within_reach(retry_at, now))
        self.authority.set_next(row["delivery_id"], attempts, at if attempts < MAX_ATTEMPTS else None)

    async def _verify_reservation(self, row: dict[str, Any]) -> None:
        host, delivery = self.codehost, row["delivery_id"]
        decision = msgspec.json.decode(row["decision_json"], type=Decision)
        if host is None or self.deliveries.seen(delivery, self.now()):
            self.authority.set_next(delivery, row["attempts"], None)
            return
        try:
            target = await outgoing(lambda: host.target(decision))
        except CodeHostError as error:
            self._try_again(row, error.retry_at)
            return
        verified = target.state == "open" and decision.source_head_sha in {msgspec.UNSET, target.head_sha}
        ingress = msgspec.json.decode(row["ingress_json"], type=Ingress) if row["ingress_json"] else None

        def write() -> None:
            self.authority.set_next(delivery, row["attempts"], None)
            if verified:
                confirmed = msgspec.structs.replace(
                    decision, source_head_verified=True, source_authority_seq=row["sequence"]
                )
                self.admit_event(delivery, confirmed, ingress)

        self.transaction(write)

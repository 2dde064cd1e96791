"""Command intakes, their watermarks and receipts, and the durable revision of every item.

Spec state-plane-protocol 6, state-plane-storage 2.2. Rules: `moorage.protocols.intake`. Nothing acts on a command
before `admit` has returned.
"""

from typing import Any

import msgspec

from moorage.protocols.intake import admission as rules
from moorage.protocols.intake.admission import Detail, KnownReceipt, Outcome, Stage, Watermark
from moorage.protocols.intake.versions import CommandIntake, InvalidIntake, parse_intake
from moorage.protocols.queue.decisions import Decision, revision_key

_SCHEMA = """
CREATE TABLE IF NOT EXISTS exact_review_command_intakes (
  command_version_id TEXT PRIMARY KEY,
  source_comment_key TEXT NOT NULL,
  source_updated_at INTEGER NOT NULL,
  record_json TEXT NOT NULL,
  next_attempt_at INTEGER NOT NULL
) STRICT;
CREATE INDEX IF NOT EXISTS exact_review_command_intakes_due
  ON exact_review_command_intakes (next_attempt_at, command_version_id);
CREATE INDEX IF NOT EXISTS exact_review_command_intakes_comment ON exact_review_command_intakes (source_comment_key);
CREATE TABLE IF NOT EXISTS exact_review_command_watermarks (
  source_comment_key TEXT PRIMARY KEY,
  source_updated_at INTEGER NOT NULL,
  command_version_id TEXT NOT NULL,
  body_digest TEXT NOT NULL
) STRICT;
CREATE TABLE IF NOT EXISTS exact_review_command_receipts (
  command_version_id TEXT PRIMARY KEY,
  source_comment_key TEXT NOT NULL,
  outcome TEXT NOT NULL CHECK (outcome IN ('pending', 'completed', 'rejected', 'superseded')),
  observed_at INTEGER NOT NULL,
  detail TEXT
) STRICT;
CREATE INDEX IF NOT EXISTS exact_review_command_receipts_age
  ON exact_review_command_receipts (outcome, observed_at, command_version_id);
CREATE INDEX IF NOT EXISTS exact_review_command_receipts_comment
  ON exact_review_command_receipts (source_comment_key, outcome);
CREATE TABLE IF NOT EXISTS exact_review_command_bay_journeys (
  command_version_id TEXT PRIMARY KEY,
  bay_journey_delivery_id TEXT NOT NULL
) STRICT;
CREATE TABLE IF NOT EXISTS exact_review_item_revisions (
  item_key TEXT PRIMARY KEY,
  last_revision INTEGER NOT NULL CHECK (last_revision >= 0)
) STRICT;
"""


class IntakeRecord(msgspec.Struct, frozen=True, rename="camel"):
    """An admitted version on its way through the three stages. Times in milliseconds."""

    intake: CommandIntake
    stage: Stage
    attempts: int
    next_attempt_at: int
    admitted_at: int
    verified_decision: Decision | msgspec.UnsetType = msgspec.UNSET


_decoder = msgspec.json.Decoder(IntakeRecord)


class CommandIntakeStore:
    """The intake over `ctx.storage`; every time is an argument, in milliseconds."""

    def __init__(self, storage: Any) -> None:
        self._storage = storage
        self._sql = storage.sql
        self._sql.exec(_SCHEMA)

    def admit(self, members: Any, now: int) -> dict[str, Any] | None:
        """Keeps the version that `members` describe; None when they describe none.

        `{accepted, deduped, commandVersionId[, bayJourneyDeliveryId]}`, or `{accepted: false, reason,
        commandVersionId}`.
        """
        try:
            intake = parse_intake(members)
        except InvalidIntake:
            return None
        return self.admit_intake(intake, now)

    def admit_intake(self, intake: CommandIntake, now: int) -> dict[str, Any]:
        """`admit` for what is parsed already."""
        return self._storage.transactionSync(lambda: self._admit(intake, now))  # type: ignore[no-any-return]

    def _admit(self, intake: CommandIntake, now: int) -> dict[str, Any]:
        version = intake.command_version_id
        found = rules.admit(self.receipt(version), self.watermark(intake.comment_key), intake.updated_at, version)
        if not found.accepted:
            if found.stored_detail is not None:
                self._put_receipt(intake, "rejected", found.stored_detail.value, now)
            return {"accepted": False, "reason": found.reason, "commandVersionId": version}
        if not found.deduped:
            self._insert(intake, found, now)
        answer: dict[str, Any] = {"accepted": True, "deduped": found.deduped, "commandVersionId": version}
        journey = self._rows(
            "SELECT bay_journey_delivery_id FROM exact_review_command_bay_journeys WHERE command_version_id = ?",
            version,
        )
        if journey:
            answer["bayJourneyDeliveryId"] = journey[0]["bay_journey_delivery_id"]
        return answer

    def _insert(self, intake: CommandIntake, found: rules.Admission, now: int) -> None:
        if found.supersede:
            self._supersede(intake, Detail.NEWER, now)
        if found.raise_watermark:
            self._put_watermark(intake)
        self._put_receipt(intake, "pending", None, now)
        self._put(IntakeRecord(intake, "verify_pending", 0, now, now))
        if isinstance(intake.decision.bay_journey_delivery_id, str):
            self._sql.exec(
                "INSERT OR IGNORE INTO exact_review_command_bay_journeys VALUES (?, ?)",
                intake.command_version_id,
                intake.decision.bay_journey_delivery_id,
            )

    def receipt(self, version_id: str) -> KnownReceipt | None:
        """The version's receipt, or None."""
        rows = self._rows(
            "SELECT outcome, detail FROM exact_review_command_receipts WHERE command_version_id = ?", version_id
        )
        return KnownReceipt(rows[0]["outcome"], rows[0]["detail"]) if rows else None

    def watermark(self, comment_key: str) -> Watermark | None:
        """The comment's watermark, or None."""
        rows = self._rows(
            "SELECT source_updated_at, command_version_id FROM exact_review_command_watermarks"
            " WHERE source_comment_key = ?",
            comment_key,
        )
        return Watermark(rows[0]["source_updated_at"], rows[0]["command_version_id"]) if rows else None

    def due(self, now: int) -> list[IntakeRecord]:
        """At most 16 versions whose time has come, by time and id."""
        rows = self._rows(
            "SELECT record_json FROM exact_review_command_intakes WHERE next_attempt_at <= ?"
            " ORDER BY next_attempt_at, command_version_id LIMIT ?",
            now,
            rules.DUE_LIMIT,
        )
        return [_decoder.decode(row["record_json"]) for row in rows]

    def next_attempt_at(self) -> int | None:
        """When the next version is due, or None when there is none."""
        rows = self._rows(
            "SELECT next_attempt_at FROM exact_review_command_intakes ORDER BY next_attempt_at,"
            " command_version_id LIMIT 1"
        )
        return rows[0]["next_attempt_at"] if rows else None

    def is_current(self, record: IntakeRecord) -> bool:
        """Whether no other version of the comment has overtaken this one."""
        intake = record.intake
        return rules.is_current(
            record.stage, self.watermark(intake.comment_key), intake.updated_at, intake.command_version_id
        )

    def mark_verified(self, record: IntakeRecord, now: int) -> bool:
        """The code host has confirmed this version: it takes the watermark and ends its siblings. False when it
        came too late.
        """

        def write() -> bool:
            intake = record.intake
            if not rules.is_current(
                "verify_pending", self.watermark(intake.comment_key), intake.updated_at, intake.command_version_id
            ):
                return False
            self._put_watermark(intake)
            self._supersede(intake, Detail.SIBLING, now)
            return True

        return self._storage.transactionSync(write)  # type: ignore[no-any-return]

    def advance(self, version_id: str, stage: Stage, now: int, verified: Decision) -> None:
        """Moves a version to `stage`, due at once, with a fresh count of attempts; an unknown version is left
        alone.
        """
        record = self.get(version_id)
        if record is not None:
            self._put(
                msgspec.structs.replace(
                    record, stage=stage, attempts=0, next_attempt_at=now, verified_decision=verified
                )
            )

    def defer(
        self, record: IntakeRecord, now: int, detail: str, retry_at: int | None = None, counted: bool = True
    ) -> None:
        """Tries the version again later; its pending receipt shows the cause. `counted` false: no failure of its
        own.
        """
        self._defer(record, now, detail, retry_at, counted, back=False)

    def retry_verification(self, record: IntakeRecord, now: int, detail: str) -> None:
        """Back to verification: what had been verified no longer holds."""
        self._defer(record, now, detail, None, True, back=True)

    def _defer(
        self, record: IntakeRecord, now: int, detail: str, retry_at: int | None, counted: bool, back: bool
    ) -> None:
        version = record.intake.command_version_id

        def write() -> None:
            stored = self.get(version)
            if stored is None:
                return
            attempts = stored.attempts + counted
            changed = msgspec.structs.replace(
                stored, attempts=attempts, next_attempt_at=rules.next_attempt_at(now, attempts, retry_at)
            )
            if back:
                changed = msgspec.structs.replace(changed, stage="verify_pending", verified_decision=msgspec.UNSET)
            self._put(changed)
            self._sql.exec(
                "UPDATE exact_review_command_receipts SET detail = ? WHERE command_version_id = ? AND outcome ="
                " 'pending'",
                detail[: rules.MAX_DETAIL],
                version,
            )

        self._storage.transactionSync(write)

    def finish(self, version_id: str, outcome: Outcome, now: int, detail: str | None) -> None:
        """Ends a version: its receipt becomes terminal, its intake goes. A terminal receipt is never changed
        again.
        """

        def write() -> None:
            self._sql.exec(
                "UPDATE exact_review_command_receipts SET outcome = ?, observed_at = ?, detail = ?"
                " WHERE command_version_id = ? AND outcome = 'pending'",
                outcome,
                now,
                detail[: rules.MAX_DETAIL] if detail is not None else None,
                version_id,
            )
            self._sql.exec("DELETE FROM exact_review_command_intakes WHERE command_version_id = ?", version_id)

        self._storage.transactionSync(write)

    def prune_terminal_receipts(self, now: int) -> None:
        """Removes terminal receipts 30 days after their last change, with their journeys; a bounded lot at a time."""
        for outcome in ("completed", "rejected", "superseded"):
            gone = self._rows(
                "DELETE FROM exact_review_command_receipts WHERE command_version_id IN (SELECT command_version_id"
                " FROM exact_review_command_receipts WHERE outcome = ? AND observed_at <= ?"
                " ORDER BY observed_at LIMIT ?) RETURNING command_version_id",
                outcome,
                now - rules.RETENTION_MS,
                rules.PRUNE_LOT,
            )
            for row in gone:
                self._sql.exec(
                    "DELETE FROM exact_review_command_bay_journeys WHERE command_version_id = ?",
                    row["command_version_id"],
                )

    def allocate_revision(self, item_key: str, minimum: int = 1, retained: int = 0) -> int:
        """The item's next revision: at least `minimum`, above every earlier one and above `retained`. Durable."""
        key = revision_key(item_key)
        rows = self._rows("SELECT last_revision FROM exact_review_item_revisions WHERE item_key = ?", key)
        revision = max(minimum, (rows[0]["last_revision"] if rows else 0) + 1, retained + 1)
        self._sql.exec("INSERT OR REPLACE INTO exact_review_item_revisions VALUES (?, ?)", key, revision)
        return revision

    def _rows(self, text: str, *bindings: Any) -> list[dict[str, Any]]:
        return self._sql.exec(text, *bindings).toArray()  # type: ignore[no-any-return]

    def get(self, version_id: str) -> IntakeRecord | None:
        """An admitted version that has not ended, or None."""
        rows = self._rows(
            "SELECT record_json FROM exact_review_command_intakes WHERE command_version_id = ?", version_id
        )
        return _decoder.decode(rows[0]["record_json"]) if rows else None

    def _put(self, record: IntakeRecord) -> None:
        self._sql.exec(
            "INSERT OR REPLACE INTO exact_review_command_intakes VALUES (?, ?, ?, ?, ?)",
            record.intake.command_version_id,
            record.intake.comment_key,
            record.intake.updated_at,
            msgspec.json.encode(record).decode(),
            record.next_attempt_at,
        )

    def _put_watermark(self, intake: CommandIntake) -> None:
        self._sql.exec(
            "INSERT OR REPLACE INTO exact_review_command_watermarks VALUES (?, ?, ?, ?)",
            intake.comment_key,
            intake.updated_at,
            intake.command_version_id,
            intake.command_body_digest,
        )

    def _put_receipt(self, intake: CommandIntake, outcome: Outcome, detail: str | None, now: int) -> None:
        self._sql.exec(
            "INSERT INTO exact_review_command_receipts VALUES (?, ?, ?, ?, ?)",
            intake.command_version_id,
            intake.comment_key,
            outcome,
            now,
            detail,
        )

    def _supersede(self, intake: CommandIntake, detail: Detail, now: int) -> None:
        self._sql.exec(
            "UPDATE exact_review_command_receipts SET outcome = 'superseded', observed_at = ?, detail = ?"
            " WHERE source_comment_key = ? AND outcome = 'pending' AND command_version_id <> ?",
            now,
            detail.value,
            intake.comment_key,
            intake.command_version_id,
        )
        self._sql.exec(
            "DELETE FROM exact_review_command_intakes WHERE source_comment_key = ? AND command_version_id <> ?",
            intake.comment_key,
            intake.command_version_id,
        )

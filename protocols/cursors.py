"""Compare-and-set cursors of the fan-out and the recovery lanes (spec state-plane-protocol 5, storage 3).

A cursor is a position with a revision. The position may go anywhere; the revision only grows, by one a write, and a
write must name the revision that it replaces.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, TypeAlias

from .javascript import ABSENT, MAX_SAFE_INTEGER, to_safe_integer
from .wire.cursors import (
    FanoutCursorRevisionConflict,
    FanoutCursorStoreInvalid,
    InvalidAuditBatch,
    InvalidFanoutCursor,
)

AUDIT: Final = "audit"
MODES: Final = frozenset({"hot-intake", "normal-review", AUDIT})
_PLACEHOLDER_MODE: Final = re.compile(r"review-placeholder-[0-9a-f]{16}-(?:open|closed)", re.ASCII)
_REPOSITORY: Final = re.compile(r"[\w.-]+/[\w.-]+", re.ASCII)
_RUN_ID: Final = re.compile(r"[1-9][0-9]*", re.ASCII)
_TIME: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", re.ASCII)

AuditBatch: TypeAlias = dict[str, Any]
"""`{"remainingTargets": [{"targetRepo", "defaultBranch", "visibility"}], "outstandingRunIds": [text],
"dispatchingTarget": text or None}`."""


def is_mode(text: str) -> bool:
    """Whether `text` names a cursor; anything else is a missing route (`cursors/unknown-modes`)."""
    return text in MODES or _PLACEHOLDER_MODE.fullmatch(text) is not None


def storage_key(mode: str) -> str:
    """The key-value entry of the cursor `mode`."""
    return f"target-fanout-cursor:v1:{mode}"


@dataclass(frozen=True, slots=True)
class Cursor:
    """The state of one cursor. `audit_batch` is ABSENT until one was written to it, None when it was cleared."""

    mode: str
    next_cursor: int = 0
    revision: int = 0
    updated_at: str | None = None
    audit_batch: Any = ABSENT

    def answer(self) -> dict[str, Any]:
        """What GET and PUT answer, and what a conflict shows as `current`.

        `audit_batch` is a member once a batch was ever written. A later revision of the reference shows null before
        that too; the recorded sequences (`cursors/unknown-modes` and others) do not, and they decide.
        """
        value: dict[str, Any] = {
            "ok": True,
            "mode": self.mode,
            "next_cursor": self.next_cursor,
            "revision": self.revision,
            "updated_at": self.updated_at,
        }
        if self.audit_batch is not ABSENT:
            value["audit_batch"] = self.audit_batch
        return value

    def stored(self) -> dict[str, Any]:
        """The value of the storage entry."""
        value: dict[str, Any] = {
            "mode": self.mode,
            "nextCursor": self.next_cursor,
            "revision": self.revision,
            "updatedAt": self.updated_at,
        }
        if self.audit_batch is not ABSENT:
            value["auditBatch"] = self.audit_batch
        return value


@dataclass(frozen=True, slots=True)
class CursorWrite:
    """A checked PUT. `audit_batch` ABSENT leaves the stored batch, None clears it."""

    next_cursor: int
    expected_revision: int
    audit_batch: Any = ABSENT


def parse_audit_batch(value: Any) -> AuditBatch:
    """The batch in its normal form, without members that it does not name. Raises InvalidAuditBatch."""
    if not isinstance(value, Mapping):
        raise InvalidAuditBatch
    targets, run_ids = value.get("remainingTargets"), value.get("outstandingRunIds")
    dispatching = value.get("dispatchingTarget")
    if not isinstance(targets, list) or not isinstance(run_ids, list):
        raise InvalidAuditBatch
    checked = [_target(target) for target in targets]
    if not all(isinstance(run_id, str) and _RUN_ID.fullmatch(run_id) for run_id in run_ids):
        raise InvalidAuditBatch
    if len(set(run_ids)) != len(run_ids):
        raise InvalidAuditBatch
    if dispatching is not None and dispatching not in [target["targetRepo"] for target in checked]:
        raise InvalidAuditBatch
    return {"remainingTargets": checked, "outstandingRunIds": list(run_ids), "dispatchingTarget": dispatching}


def _target(value: Any) -> dict[str, str]:
    if not isinstance(value, Mapping):
        raise InvalidAuditBatch
    repository, branch = value.get("targetRepo"), value.get("defaultBranch")
    if not isinstance(repository, str) or not _REPOSITORY.fullmatch(repository):
        raise InvalidAuditBatch
    if not isinstance(branch, str) or not branch or value.get("visibility") != "PUBLIC":
        raise InvalidAuditBatch
    return {"targetRepo": repository, "defaultBranch": branch, "visibility": "PUBLIC"}


def parse_write(mode: str, members: Mapping[str, Any]) -> CursorWrite:
    """A PUT's body; numbers are lenient (`cursors/revision-null-is-zero`, `cursors/huge-values`).

    `audit_batch` is looked at on mode `audit` alone. Raises InvalidFanoutCursor, InvalidAuditBatch.
    """
    next_cursor = to_safe_integer(members.get("next_cursor", ABSENT))
    expected = to_safe_integer(members.get("expected_revision", ABSENT))
    if next_cursor is None or expected is None:
        raise InvalidFanoutCursor
    batch = members.get("audit_batch", ABSENT) if mode == AUDIT else ABSENT
    if batch is not ABSENT and batch is not None:
        batch = parse_audit_batch(batch)
    return CursorWrite(next_cursor, expected, batch)


def _stored_integer(value: Any) -> int:
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= MAX_SAFE_INTEGER:
        raise FanoutCursorStoreInvalid
    return value


def read_stored(mode: str, value: Any) -> Cursor:
    """The cursor that the storage entry `value` of `mode` holds; a new one for None.

    Raises FanoutCursorStoreInvalid for anything that `Cursor.stored` does not write.
    """
    if value is None:
        return Cursor(mode)
    if not isinstance(value, Mapping) or value.get("mode") != mode:
        raise FanoutCursorStoreInvalid
    updated_at = value.get("updatedAt")
    if not isinstance(updated_at, str) or not _TIME.fullmatch(updated_at):
        raise FanoutCursorStoreInvalid
    batch = value.get("auditBatch", ABSENT)
    if batch is not ABSENT and batch is not None:
        try:
            batch = parse_audit_batch(batch)
        except InvalidAuditBatch:
            raise FanoutCursorStoreInvalid from None
    revision = _stored_integer(value.get("revision"))
    if revision < 1:
        raise FanoutCursorStoreInvalid
    return Cursor(mode, _stored_integer(value.get("nextCursor")), revision, updated_at, batch)


def decide(current: Cursor, write: CursorWrite, now: str) -> Cursor:
    """The cursor after `write`, at the ISO time `now`.

    Raises FanoutCursorRevisionConflict with `current` when the revision is another one, FanoutCursorStoreInvalid
    when it cannot grow.
    """
    if write.expected_revision != current.revision:
        raise FanoutCursorRevisionConflict(current=current.answer())
    if current.revision >= MAX_SAFE_INTEGER:
        raise FanoutCursorStoreInvalid
    after = replace(current, next_cursor=write.next_cursor, revision=current.revision + 1, updated_at=now)
    return after if write.audit_batch is ABSENT else replace(after, audit_batch=write.audit_batch)

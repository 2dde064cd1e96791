"""One version of a command comment: its immutable identity and its form.

Spec state-plane-protocol 6; vectors `command-intake/*`. The identity is comment id, update time and body digest,
and nothing else (`command-intake/command-id-ignores-the-repository`).
"""

import re
from typing import Any, Final

import msgspec

from ..javascript import MAX_SAFE_INTEGER
from ..queue.decisions import COMMAND_ORIGINS, RE_REVIEW, Decision, InvalidDecision, parse_decision
from ..queue.times import parse_time

_DIGEST: Final = re.compile(r"[0-9a-f]{64}")
_SERVICE_ONLY: Final = ("sourceHeadVerified", "sourceCommentVerified", "sourceAuthoritySeq", "sourceUpdatedAt")
_DIGITS36: Final = "0123456789abcdefghijklmnopqrstuvwxyz"


class InvalidIntake(ValueError):
    """A member is missing, has a bad value or contradicts another one; the message names it."""


class CommandIntake(msgspec.Struct, frozen=True, rename="camel"):
    """One comment version as accepted; `decision` in normal form, times as sent."""

    protocol_version: int
    command_version_id: str
    installation_id: int
    source_comment_id: int
    source_comment_updated_at: str
    command_body_digest: str
    command_origin: str
    decision: Decision

    @property
    def comment_key(self) -> str:
        """Whose watermark counts: `<repository in lower case>:<comment id>`."""
        return f"{self.decision.target_repo.lower()}:{self.source_comment_id}"

    @property
    def updated_at(self) -> int:
        """The comment's update time in milliseconds."""
        return parse_time(self.source_comment_updated_at) or 0


def base36(number: int) -> str:
    """`number` in base 36, lower case, with a sign before 1970."""
    digits = ""
    rest = abs(number)
    while rest:
        rest, digit = divmod(rest, 36)
        digits = _DIGITS36[digit] + digits
    return ("-" if number < 0 else "") + (digits or "0")


def version_id(comment_id: int, updated_at: int, body_digest: str) -> str:
    """`command-<comment id>-<update time in ms, base 36>-<digest>`."""
    return f"command-{comment_id}-{base36(updated_at)}-{body_digest}"


def status_marker(item_number: int, command_version_id: str) -> str:
    """The hidden line that finds the status comment of a command again."""
    return f"<!-- clawsweeper-command-status:{item_number}:{RE_REVIEW}:{command_version_id} -->"


def _identifier(members: dict[str, Any], name: str) -> int:
    value = members.get(name)
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= MAX_SAFE_INTEGER:
        raise InvalidIntake(f"{name} must be a positive integer")
    return value


def _must(holds: bool, message: str) -> None:
    if not holds:
        raise InvalidIntake(message)


def parse_intake(members: Any) -> CommandIntake:
    """The intake that a request's members describe. Raises InvalidIntake, which names the member."""
    if not isinstance(members, dict):
        raise InvalidIntake("an intake is an object")
    version = members.get("protocolVersion")
    _must(version == 1 and isinstance(version, int) and not isinstance(version, bool), "protocolVersion must be 1")
    installation, comment = (_identifier(members, name) for name in ("installationId", "sourceCommentId"))
    updated_text = members.get("sourceCommentUpdatedAt")
    updated = parse_time(updated_text)
    if updated is None:
        raise InvalidIntake("sourceCommentUpdatedAt must be an ISO 8601 time")
    digest = members.get("commandBodyDigest")
    _must(
        isinstance(digest, str) and bool(_DIGEST.fullmatch(digest)),
        "commandBodyDigest must be 64 lower-case hex digits",
    )
    origin = members.get("commandOrigin")
    _must(
        isinstance(origin, str) and origin in COMMAND_ORIGINS,
        "commandOrigin must be hosted_webhook or comment_router",
    )
    identity = version_id(comment, updated, str(digest))
    _must(members.get("commandVersionId") == identity, "commandVersionId must follow from comment, time and digest")
    decision = _parse_decision(members.get("decision"), members, identity)
    return CommandIntake(1, identity, installation, comment, str(updated_text), str(digest), str(origin), decision)


def _parse_decision(raw: Any, members: dict[str, Any], identity: str) -> Decision:
    _must(isinstance(raw, dict), "decision must be an object")
    for name in ("sourceCommentId", "sourceCommentUpdatedAt", "commandBodyDigest", "commandOrigin"):
        _must(raw.get(name) == members.get(name), f"decision.{name} must repeat {name}")
    _must(raw.get("sourceDeliveryId") == identity, "decision.sourceDeliveryId must be the commandVersionId")
    for name in _SERVICE_ONLY:
        _must(name not in raw, f"decision.{name} is added by the service alone")
    number = raw.get("itemNumber")
    _must(isinstance(number, int) and not isinstance(number, bool), "decision.itemNumber must be an integer")
    event = "pull_request" if raw.get("itemKind") == "pull_request" else "issues"
    _must(raw.get("sourceEvent") == event, "decision.sourceEvent must be that of decision.itemKind")
    _must(raw.get("sourceAction") == RE_REVIEW, f"decision.sourceAction must be {RE_REVIEW}")
    _must(raw.get("supersedesInProgress") is False, "decision.supersedesInProgress must be false")
    _must(isinstance(raw.get("additionalPrompt"), str), "decision.additionalPrompt must be a text")
    try:
        decision = parse_decision(raw)
    except InvalidDecision as error:
        raise InvalidIntake(f"decision: {error}") from None
    _must(
        raw.get("commandStatusMarker") == status_marker(decision.item_number, identity),
        "decision.commandStatusMarker must be that of the item and the commandVersionId",
    )
    return decision

"""A decision: what is to be reviewed or published, and why. Its form, its key, and what may not be in it.

Spec state-plane-protocol 11.1. Parsing is lenient where the reference is
(`exact-review-enqueue/lenient-decisions`): spaces around names, numbers as text, any truthy
`supersedesInProgress`, unknown members dropped. A member that is present with a bad value makes the whole
decision invalid.
"""

import math
import re
from collections.abc import Callable, Mapping
from typing import Any, Final, Literal

import msgspec
from msgspec import UNSET, UnsetType

from ..javascript import ABSENT, to_number, to_safe_integer, trim
from .times import parse_time

PUBLISH: Final = "exact_review_artifact_publish"
SHARD_RECOVERY: Final = "failed_review_shard_recovery"
RETENTION_RECOVERY: Final = "artifact_retention_recovery"
DRIFT_REQUEUE: Final = "source_drift_requeue"
RE_REVIEW: Final = "re_review"
LOW_PRIORITY_ACTIONS: Final = frozenset({SHARD_RECOVERY, RETENTION_RECOVERY, DRIFT_REQUEUE})
SCHEDULED_ACTIONS: Final[Mapping[str, str]] = {
    "scheduled_hot_intake": "hot_intake",
    "scheduled_normal_backfill": "normal_backfill",
}
PROOF_SCENARIOS: Final = frozenset({"web-ui-chat-proof", "telegram-bot-e2e-proof"})
COMMAND_ORIGINS: Final = frozenset({"hosted_webhook", "comment_router"})
MAX_PROMPT: Final = 5000
LIFECYCLE_KINDS: Final = frozenset(
    {
        "router",
        "router_deferred_coverage",
        "router_not_required",
        "requeue",
        "target_missing",
        "target_closed",
        "guarded_open",
        "policy_noop",
    }
)
RECEIPT_OUTCOMES: Final = frozenset({"accepted", "deduped", "superseded"})

_REPO: Final = re.compile(r"[A-Za-z0-9_.-]+/[A-Za-z0-9_.-]+")
_BRANCH: Final = re.compile(r"[A-Za-z0-9_./-]+")
_SHA: Final = re.compile(r"[0-9a-f]{40}")
_DIGEST: Final = re.compile(r"[0-9a-f]{64}")
_DELIVERY: Final = re.compile(r"[A-Za-z0-9_.:-]{1,200}")
_MARKER: Final = re.compile(r"<!-- clawsweeper-command-status:[^<>\r\n]{1,200} -->")
_RUN: Final = re.compile(r"[0-9]{1,30}")


class InvalidDecision(ValueError):
    """A member is missing or has a bad value; the message names it and says what would be right."""


class LifecyclePlan(msgspec.Struct, frozen=True):
    """What follows a publication: the comment router acknowledges it, nothing does, or the target ended otherwise."""

    kind: str


class DirectLifecycle(msgspec.Struct, frozen=True, rename="camel"):
    """The plan of a direct publication and what its receipt said, saved on the claimed lease decision."""

    plan: LifecyclePlan
    receipt_outcome: str
    canonical_target_key: str | UnsetType = UNSET
    fence_key: str | UnsetType = UNSET
    revision: int | UnsetType = UNSET


class Publication(msgspec.Struct, frozen=True, rename="camel"):
    """Which artifact of which producing run is to be published."""

    artifact_name: str
    producer_run_id: str
    producer_run_attempt: int
    source_sha: str
    item_key: str
    protocol_version: int
    lease_revision: int | None
    claim_generation: int | None
    live_proceeded: bool
    live_terminal_noop: bool
    live_terminal_missing: bool
    live_guarded_open: bool
    producer_decision: "Decision"
    direct_lifecycle: DirectLifecycle | UnsetType = UNSET


class Decision(msgspec.Struct, frozen=True, rename="camel"):
    """A decision in normal form; members that were not given are UNSET and left out when it is written."""

    target_repo: str
    target_branch: str
    item_number: int
    item_kind: Literal["issue", "pull_request"]
    source_event: Literal["issues", "pull_request"]
    source_action: str
    supersedes_in_progress: bool
    source_head_sha: str | UnsetType = UNSET
    source_base_sha: str | UnsetType = UNSET
    source_content_revision: str | UnsetType = UNSET
    source_is_draft: bool | UnsetType = UNSET
    source_head_verified: bool | UnsetType = UNSET
    source_authority_seq: int | UnsetType = UNSET
    source_updated_at: str | UnsetType = UNSET
    source_delivery_id: str | UnsetType = UNSET
    bay_journey_delivery_id: str | UnsetType = UNSET
    command_status_marker: str | UnsetType = UNSET
    status_comment_id: int | UnsetType = UNSET
    review_acknowledgement_comment_id: int | UnsetType = UNSET
    additional_prompt: str | UnsetType = UNSET
    codex_timeout_ms: float | UnsetType = UNSET
    media_proof_timeout_ms: float | UnsetType = UNSET
    source_comment_id: int | UnsetType = UNSET
    source_comment_updated_at: str | UnsetType = UNSET
    command_body_digest: str | UnsetType = UNSET
    command_origin: str | UnsetType = UNSET
    proof_allowed_scenarios: tuple[str, ...] | UnsetType = UNSET
    source_comment_verified: bool | UnsetType = UNSET
    publication: Publication | UnsetType = UNSET

    @property
    def target_key(self) -> str:
        """`owner/name#number` as spelled in the decision."""
        return f"{self.target_repo}#{self.item_number}"

    @property
    def item_key(self) -> str:
        """The queue's key: the target's, and for publications also the producing run and attempt."""
        if self.publication is UNSET:
            return self.target_key
        return f"{self.target_key}@publish:{self.publication.producer_run_id}:{self.publication.producer_run_attempt}"

    @property
    def lane(self) -> Literal["review", "publication"]:
        """Which of the two lanes of the queue it goes through."""
        return "review" if self.publication is UNSET else "publication"

    @property
    def is_pull_request(self) -> bool:
        """Whether the event has a head and so a source authority."""
        return self.source_event == "pull_request"

    def wire(self) -> dict[str, Any]:
        """The decision as clients read it."""
        value: dict[str, Any] = msgspec.to_builtins(self)
        saved = value.get("publication", {}).get("directLifecycle")
        if saved is not None:
            value["publication"]["directLifecycle"] = {name: saved[name] for name in ("plan", "receiptOutcome")}
        return value


def revision_key(item_key: str) -> str:
    """The key of an item's durable revision counter: without `@publish:…`.

    Spec section 6 has it in lower case; the recordings count each spelling of a repository on its own
    (`exact-review-enqueue/repository-case`), as the queue keeps an item for each.
    """
    return item_key.partition("@publish:")[0]


def utf16_units(text: str) -> int:
    """Length as the reference counts it."""
    return len(text) + sum(character > "\uffff" for character in text)


def _matching(pattern: re.Pattern[str], what: str, lower: bool = False) -> Callable[[Any], str]:
    def check(value: Any) -> str:
        text = trim(value) if isinstance(value, str) else ""
        text = text.lower() if lower else text
        if not pattern.fullmatch(text):
            raise InvalidDecision(f"must be {what}")
        return text

    return check


def _one_of(choices: frozenset[str]) -> Callable[[Any], str]:
    def check(value: Any) -> str:
        if not isinstance(value, str) or value not in choices:
            raise InvalidDecision(f"must be one of {', '.join(sorted(choices))}")
        return value

    return check


def _positive(value: Any) -> int:
    number = to_safe_integer(value, minimum=1)
    if number is None:
        raise InvalidDecision("must be an integer of at least 1")
    return number


def _boolean(value: Any) -> bool:
    if not isinstance(value, bool):
        raise InvalidDecision("must be true or false")
    return value


def _time(value: Any) -> str:
    if parse_time(value) is None:
        raise InvalidDecision("must be an ISO 8601 time")
    return str(value)


def _action(value: Any) -> str:
    text = trim(value) if isinstance(value, str) else ""
    if not text:
        raise InvalidDecision("must be a text that is not empty")
    return text


def _prompt(value: Any) -> str:
    if not isinstance(value, str) or utf16_units(value) > MAX_PROMPT or "\0" in value:
        raise InvalidDecision(f"must be a text of at most {MAX_PROMPT} characters without NUL")
    return value


def _milliseconds(value: Any) -> float | UnsetType:
    number = to_number(value)
    return number if math.isfinite(number) else UNSET


def _scenarios(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list) or len(value) > len(PROOF_SCENARIOS):
        raise InvalidDecision("must be a list of at most two scenarios")
    found = tuple(_one_of(PROOF_SCENARIOS)(entry) for entry in value)
    if len(set(found)) != len(found):
        raise InvalidDecision("must name each scenario once")
    return found


_REQUIRED: Final[Mapping[str, Callable[[Any], Any]]] = {
    "targetRepo": _matching(_REPO, "owner/name"),
    "targetBranch": _matching(_BRANCH, "a branch name"),
    "itemNumber": _positive,
    "itemKind": _one_of(frozenset({"issue", "pull_request"})),
    "sourceEvent": _one_of(frozenset({"issues", "pull_request"})),
    "sourceAction": _action,
}
_OPTIONAL: Final[Mapping[str, Callable[[Any], Any]]] = {
    "sourceHeadSha": _matching(_SHA, "40 hex digits", lower=True),
    "sourceBaseSha": _matching(_SHA, "40 hex digits", lower=True),
    "sourceContentRevision": _matching(_DIGEST, "64 hex digits", lower=True),
    "sourceIsDraft": _boolean,
    "sourceHeadVerified": _boolean,
    "sourceCommentVerified": _boolean,
    "sourceAuthoritySeq": _positive,
    "sourceUpdatedAt": _time,
    "sourceDeliveryId": _matching(_DELIVERY, "1 to 200 of A-Z a-z 0-9 _ . : -"),
    "bayJourneyDeliveryId": _matching(_DELIVERY, "1 to 200 of A-Z a-z 0-9 _ . : -"),
    "commandStatusMarker": _matching(_MARKER, "<!-- clawsweeper-command-status:X -->"),
    "statusCommentId": _positive,
    "reviewAcknowledgementCommentId": _positive,
    "additionalPrompt": _prompt,
    "codexTimeoutMs": _milliseconds,
    "mediaProofTimeoutMs": _milliseconds,
    "sourceCommentId": _positive,
    "sourceCommentUpdatedAt": _time,
    "commandBodyDigest": _matching(_DIGEST, "64 lower-case hex digits"),
    "commandOrigin": _one_of(COMMAND_ORIGINS),
    "proofAllowedScenarios": _scenarios,
}
_COMMAND_SOURCE: Final = ("sourceCommentId", "sourceCommentUpdatedAt", "commandBodyDigest", "commandOrigin")
_OUTCOMES: Final = ("liveProceeded", "liveTerminalNoop", "liveTerminalMissing", "liveGuardedOpen")


def _checked(name: str, check: Callable[[Any], Any], value: Any) -> Any:
    try:
        return check(value)
    except InvalidDecision as error:
        raise InvalidDecision(f"{name} {error}") from None


def parse_decision(value: Any) -> Decision:
    """The decision in normal form. Raises InvalidDecision, which names the member."""
    if not isinstance(value, dict):
        raise InvalidDecision("a decision is an object")
    members = {name: _checked(name, check, value.get(name)) for name, check in _REQUIRED.items()}
    members["supersedesInProgress"] = bool(value.get("supersedesInProgress")) or value.get(
        "supersedesInProgress"
    ) in ([], {})
    for name, check in _OPTIONAL.items():
        if name in value and (found := _checked(name, check, value[name])) is not UNSET:
            members[name] = found
    given = [name for name in _COMMAND_SOURCE if name in members]
    if given and len(given) != len(_COMMAND_SOURCE):
        raise InvalidDecision(f"{', '.join(_COMMAND_SOURCE)} must be given together")
    if "reviewAcknowledgementCommentId" in members and members["itemKind"] != "pull_request":
        raise InvalidDecision("reviewAcknowledgementCommentId belongs to pull requests")
    decision = msgspec.convert(members, Decision)
    publication = value.get("publication")
    if (decision.source_action == PUBLISH) != (publication is not None):
        raise InvalidDecision(f"publication must be present exactly when sourceAction is {PUBLISH}")
    if publication is None:
        return decision
    return msgspec.structs.replace(decision, publication=_parse_publication(publication, decision))


def _parse_publication(value: Any, decision: Decision) -> Publication:
    if not isinstance(value, dict):
        raise InvalidDecision("publication must be an object")
    run = value.get("producerRunId")
    if not isinstance(run, str) or not _RUN.fullmatch(run):
        raise InvalidDecision("producerRunId must be 1 to 30 digits")
    attempt = _checked("producerRunAttempt", _positive, value.get("producerRunAttempt", ABSENT))
    if value.get("artifactName") != f"exact-review-{run}-{attempt}":
        raise InvalidDecision("artifactName must be exact-review-<run>-<attempt>")
    source = value.get("sourceSha")
    if not isinstance(source, str) or not _SHA.fullmatch(source):
        raise InvalidDecision("sourceSha must be 40 lower-case hex digits")
    if value.get("itemKey") != decision.target_key:
        raise InvalidDecision("itemKey must be the decision's own <targetRepo>#<itemNumber>")
    version = to_safe_integer(value.get("protocolVersion", ABSENT), minimum=1, maximum=2)
    if version is None:
        raise InvalidDecision("protocolVersion must be 1 or 2")
    counters = {}
    for name in ("leaseRevision", "claimGeneration"):
        raw = value.get(name)
        counters[name] = (
            None if raw is None and version == 1 else _checked(name, _positive, ABSENT if raw is None else raw)
        )
    outcomes = {name: _checked(name, _boolean, value.get(name)) for name in _OUTCOMES}
    if sum(outcomes.values()) != 1:
        raise InvalidDecision(f"exactly one of {', '.join(_OUTCOMES)} must be true")
    producer = parse_decision(value.get("producerDecision"))
    same = ("target_repo", "target_branch", "item_number", "item_kind", "source_event")
    if producer.publication is not UNSET or any(getattr(producer, name) != getattr(decision, name) for name in same):
        raise InvalidDecision(
            "producerDecision must be a review of the same repository, branch, number, kind and event"
        )
    lifecycle = _parse_lifecycle(value["directLifecycle"]) if value.get("directLifecycle") is not None else UNSET
    return Publication(
        artifact_name=value["artifactName"],
        producer_run_id=run,
        producer_run_attempt=attempt,
        source_sha=source,
        item_key=decision.target_key,
        protocol_version=version,
        lease_revision=counters["leaseRevision"],
        claim_generation=counters["claimGeneration"],
        live_proceeded=outcomes["liveProceeded"],
        live_terminal_noop=outcomes["liveTerminalNoop"],
        live_terminal_missing=outcomes["liveTerminalMissing"],
        live_guarded_open=outcomes["liveGuardedOpen"],
        producer_decision=producer,
        direct_lifecycle=lifecycle,
    )


def parse_lifecycle_plan(value: Any) -> LifecyclePlan:
    """A plan: an object whose only member is a known `kind`. Raises InvalidDecision."""
    kind = value.get("kind") if isinstance(value, dict) and set(value) == {"kind"} else None
    if not isinstance(kind, str) or kind not in LIFECYCLE_KINDS:
        raise InvalidDecision(f"a lifecycle plan is {{kind}}, one of {', '.join(sorted(LIFECYCLE_KINDS))}")
    return LifecyclePlan(kind)


def _parse_lifecycle(value: Any) -> DirectLifecycle:
    if not isinstance(value, dict):
        raise InvalidDecision("directLifecycle must be an object")
    outcome = _checked("directLifecycle.receiptOutcome", _one_of(RECEIPT_OUTCOMES), value.get("receiptOutcome"))
    return DirectLifecycle(parse_lifecycle_plan(value.get("plan")), outcome)

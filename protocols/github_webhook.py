"""What a webhook delivery of the code host asks for: a review, a command, or nothing.

Spec state-plane-protocol 2.4; `auth/github-webhook`. Which repositories take part, who may command and how a
command is written are
settings; by default no repository takes part, and only owners, members and collaborators command.
"""

import hashlib
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from .intake.versions import status_marker, version_id
from .javascript import trim
from .ledger.canonical import sha256_text
from .queue.decisions import MAX_PROMPT, RE_REVIEW, utf16_units
from .queue.times import parse_time

REVIEWED_ACTIONS: Final[Mapping[str, frozenset[str]]] = {
    "pull_request": frozenset({"opened", "reopened", "synchronize", "edited", "ready_for_review"}),
    "issues": frozenset({"opened", "reopened", "edited"}),
}
COMMAND_ACTIONS: Final = frozenset({"created", "edited"})
DEFAULT_COMMAND: Final = "@clawsweeper re-review"
DEFAULT_COMMANDERS: Final = "OWNER,MEMBER,COLLABORATOR"

_REPOSITORY: Final = re.compile(r"[A-Za-z0-9_.-]+/[A-Za-z0-9_.-]+")


@dataclass(frozen=True, slots=True)
class WebhookPolicy:
    """Who takes part.

    `repositories`: lower case, `owner/name` or `owner/*`. `command`: the words that a command begins with.
    `commanders`: author
    associations, upper case.
    """

    repositories: frozenset[str]
    command: str
    commanders: frozenset[str]

    def takes_part(self, repository: str) -> bool:
        """Whether events of `owner/name` count."""
        name = repository.lower()
        return name in self.repositories or f"{name.partition('/')[0]}/*" in self.repositories


def read_policy(variable: Callable[[str], Any]) -> WebhookPolicy:
    """The policy from EXACT_REVIEW_TARGET_REPOSITORIES, EXACT_REVIEW_COMMAND and EXACT_REVIEW_COMMANDERS
    (comma-separated)."""

    def words(name: str, default: str) -> list[str]:
        return [word.strip() for word in str(variable(name) or default).split(",") if word.strip()]

    return WebhookPolicy(
        frozenset(word.lower() for word in words("EXACT_REVIEW_TARGET_REPOSITORIES", "")),
        # a blank one would make a command of every comment
        " ".join(str(variable("EXACT_REVIEW_COMMAND") or "").split()) or DEFAULT_COMMAND,
        frozenset(word.upper() for word in words("EXACT_REVIEW_COMMANDERS", DEFAULT_COMMANDERS)),
    )


@dataclass(frozen=True, slots=True)
class Ignored:
    """The delivery is acknowledged, and nothing follows, for `reason`."""

    reason: str


@dataclass(frozen=True, slots=True)
class Review:
    """An event to be enqueued. `decision` and `ingress` as the queue parses them; `installation_id` for the
    source authority."""

    decision: dict[str, Any]
    ingress: dict[str, str] | None
    installation_id: int | None


@dataclass(frozen=True, slots=True)
class Command:
    """A comment version for the command intake, as it parses it."""

    intake: dict[str, Any]


def interpret(event: str, payload: Mapping[str, Any], policy: WebhookPolicy) -> Ignored | Review | Command:
    """What the delivery asks for."""
    repository = _object(payload, "repository")
    name = repository.get("full_name")
    if not isinstance(name, str) or not _REPOSITORY.fullmatch(name) or not policy.takes_part(name):
        return Ignored("repository not eligible")
    if event in REVIEWED_ACTIONS:
        return _review(event, payload, repository)
    if event == "issue_comment":
        return _command(payload, repository, policy)
    return Ignored("event not supported")


def _object(value: Any, member: str) -> Mapping[str, Any]:
    found = value.get(member) if isinstance(value, Mapping) else None
    return found if isinstance(found, Mapping) else {}


def _installation(payload: Mapping[str, Any]) -> int | None:
    found = _object(payload, "installation").get("id")
    return found if isinstance(found, int) and not isinstance(found, bool) and found > 0 else None


def _digest(*parts: Any) -> str:
    return hashlib.sha256(json.dumps(parts, ensure_ascii=True).encode()).hexdigest()


def _review(event: str, payload: Mapping[str, Any], repository: Mapping[str, Any]) -> Ignored | Review:
    action = payload.get("action")
    if not isinstance(action, str) or action not in REVIEWED_ACTIONS[event]:
        return Ignored("action not supported")
    subject = _object(payload, "pull_request" if event == "pull_request" else "issue")
    if event == "issues" and "pull_request" in subject:
        return Ignored("event not supported")
    if subject.get("state") not in ("open", None):
        return Ignored("item not open")
    decision: dict[str, Any] = {
        "targetRepo": repository["full_name"],
        "targetBranch": repository.get("default_branch"),
        "itemNumber": subject.get("number"),
        "itemKind": "pull_request" if event == "pull_request" else "issue",
        "sourceEvent": event,
        "sourceAction": action,
        "supersedesInProgress": event == "pull_request",
    }
    if event == "issues":
        return Review(decision, None, None)
    head, base = _object(subject, "head").get("sha"), _object(subject, "base").get("sha")
    updated = subject.get("updated_at")
    optional = {
        "sourceHeadSha": head,
        "sourceBaseSha": base,
        "sourceIsDraft": subject.get("draft"),
        "sourceUpdatedAt": updated,
        "sourceContentRevision": _digest(subject.get("title"), subject.get("body")),
        # the signature is the code host's own word for this head
        "sourceHeadVerified": True if isinstance(head, str) else None,
    }
    decision |= {name: value for name, value in optional.items() if value is not None}
    fingerprint = _digest(decision["targetRepo"].lower(), decision["itemNumber"], action, head, updated)
    return Review(decision, {"route": "direct_webhook", "fingerprint": fingerprint}, _installation(payload))


def command_of(body: str, command: str) -> str | None:
    """What follows the command's words in its line and below, or None when no line begins with them.

    Quoted lines and code blocks do not command.
    """
    lines = body.replace("\r\n", "\n").split("\n")
    words, fenced = command.lower().split(), False
    for index, line in enumerate(lines):
        if line.lstrip().startswith(("```", "~~~")):
            fenced = not fenced
            continue
        if fenced or line.startswith(("    ", "\t", ">")):
            continue
        given = line.split()
        if [word.lower() for word in given[: len(words)]] == words:
            rest = " ".join(given[len(words) :])
            return trim("\n".join([rest, *lines[index + 1 :]]))
    return None


def _command(payload: Mapping[str, Any], repository: Mapping[str, Any], policy: WebhookPolicy) -> Ignored | Command:
    comment, issue, installation = _object(payload, "comment"), _object(payload, "issue"), _installation(payload)
    action, association = payload.get("action"), comment.get("author_association")
    if not isinstance(action, str) or action not in COMMAND_ACTIONS:
        return Ignored("action not supported")
    body = comment.get("body")
    prompt = command_of(body, policy.command) if isinstance(body, str) else None
    if prompt is None:
        return Ignored("no command")
    may = isinstance(association, str) and association in policy.commanders
    if _object(comment, "user").get("type") == "Bot" or not may:
        return Ignored("author may not command")
    updated, updated_at = comment.get("updated_at"), parse_time(comment.get("updated_at"))
    if installation is None or updated_at is None or not isinstance(comment.get("id"), int):
        return Ignored("comment not identified")
    while utf16_units(prompt) > MAX_PROMPT:
        prompt = prompt[: MAX_PROMPT // 2 if utf16_units(prompt[:MAX_PROMPT]) > MAX_PROMPT else MAX_PROMPT]
    digest = sha256_text(str(body))
    identity = version_id(comment["id"], updated_at, digest)
    is_pull = "pull_request" in issue
    source = {
        "sourceCommentId": comment["id"],
        "sourceCommentUpdatedAt": updated,
        "commandBodyDigest": digest,
        "commandOrigin": "hosted_webhook",
    }
    decision = {
        "targetRepo": repository["full_name"],
        "targetBranch": repository.get("default_branch"),
        "itemNumber": issue.get("number"),
        "itemKind": "pull_request" if is_pull else "issue",
        "sourceEvent": "pull_request" if is_pull else "issues",
        "sourceAction": RE_REVIEW,
        "supersedesInProgress": False,
        "sourceDeliveryId": identity,
        **source,
        "commandStatusMarker": status_marker(issue.get("number") or 0, identity),
        "additionalPrompt": prompt.replace("\0", ""),
    }
    intake = {"protocolVersion": 1, "commandVersionId": identity, "installationId": installation, **source}
    return Command({**intake, "decision": decision})

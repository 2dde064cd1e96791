"""The live copy of an event: settings, request, and the event that records a failure (spec action-ledger 15)."""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import quote

from .canonical import MAX_SAFE_INTEGER
from .events import Event, build_event
from .identity import event_key, idempotency_key
from .numbers import es_number
from .parts import producer_input, subject_input
from .producers import ident
from .refusals import LedgerRefusal
from .timestamps import millisecond_text
from .urls import HttpsUrl, parse_https
from .whitespace import trim

PREFIX: Final = "CLAWSWEEPER_CRABFLEET_"
DEFAULT_BASE: Final = "https://crabfleet.openclaw.ai"
DEFAULT_TIMEOUT_MS: Final = 10_000
MAX_TIMEOUT_MS: Final = 60_000
SESSIONS: Final = "/api/agent/interactive-sessions/"
FAILED: Final = "projection.failed"
_DESTINATION = "crabfleet"


@dataclass(frozen=True, slots=True)
class ProjectionSettings:
    """Where one event goes, taken when it is queued, so that a later change of the environment moves nothing."""

    base: str
    session: str
    token: str = field(repr=False)
    timeout_ms: int

    @property
    def url(self) -> str:
        """Address that takes the session's events."""
        return f"{self.base}{SESSIONS}{_component(self.session)}/events"


@dataclass(frozen=True, slots=True)
class ProjectionRequest:
    """One HTTP request. `headers` hold the token and are not shown."""

    url: str
    body: str
    timeout_ms: int
    headers: Mapping[str, str] = field(repr=False)
    method: str = "POST"


def _component(text: str) -> str:
    try:
        return quote(text, safe="-_.!~*'()")
    except UnicodeEncodeError:
        raise LedgerRefusal("projection-credentials", "must be Unicode text", f"{PREFIX}SESSION_ID") from None


def _base_url(text: str, where: str) -> HttpsUrl:
    url = parse_https(text)
    # A bare `?` or `#` is an empty query or fragment, which is none.
    if url is None or url.username or url.password or url.query or url.fragment:
        raise LedgerRefusal("projection-url", "must be HTTPS without credentials, query or fragment", where)
    return url


def check_timeout(value: float, where: str) -> int:
    """Milliseconds from 1 to 60000. Raises projection-timeout."""
    if not (math.isfinite(value) and value == int(value) and 1 <= value <= MAX_TIMEOUT_MS):
        raise LedgerRefusal("projection-timeout", f"must be whole milliseconds from 1 to {MAX_TIMEOUT_MS}", where)
    return int(value)


def projection_settings(environment: Mapping[str, str]) -> ProjectionSettings | None:
    """The settings that the environment holds; None when projection is off, whatever else is set.

    Raises LedgerRefusal: projection-credentials, -provenance-missing, -session-drift, -base-drift, -url, -timeout.
    """
    session = trim(environment.get(f"{PREFIX}SESSION_ID", ""))
    token = trim(environment.get(f"{PREFIX}AGENT_TOKEN", ""))
    if not session and not token:
        return None
    if not session or not token:
        raise LedgerRefusal("projection-credentials", "session id and agent token must be set together")
    registered_text = trim(environment.get(f"{PREFIX}WORK_STATE_URL", ""))
    if not registered_text:
        raise LedgerRefusal("projection-provenance-missing", "must be set", f"{PREFIX}WORK_STATE_URL")
    registered = _base_url(registered_text, f"{PREFIX}WORK_STATE_URL")
    suffix = f"{SESSIONS}{_component(session)}/work-state"
    if not registered.path.endswith(suffix):
        raise LedgerRefusal("projection-session-drift", "is not this session's", f"{PREFIX}WORK_STATE_URL")
    registered_base = registered.origin + registered.path[: -len(suffix)].rstrip("/")
    configured = _base_url(environment.get(f"{PREFIX}URL", DEFAULT_BASE), f"{PREFIX}URL")
    if configured.origin + configured.path.rstrip("/") != registered_base:
        raise LedgerRefusal(
            "projection-base-drift", "is not the base that the session was registered at", f"{PREFIX}URL"
        )
    timeout = environment.get(f"{PREFIX}TIMEOUT_MS")
    timeout_ms = DEFAULT_TIMEOUT_MS if timeout is None else check_timeout(es_number(timeout), f"{PREFIX}TIMEOUT_MS")
    return ProjectionSettings(registered_base, session, token, timeout_ms)


def projection_request(event: Event, settings: ProjectionSettings) -> ProjectionRequest:
    """The request that delivers `event`. Any 2xx answer is success."""
    record, subject = event.record, event.record["subject"]
    place = (
        f"{subject['repository']}#{subject['number']}"
        if "number" in subject
        else f"{subject['repository']}:{subject['kind']}"
    )
    message = f"{record['event_type']}:{record['action']['status']}:{place}"
    head = {"eventKey": record["event_key"], "type": "clawsweeper.action", "message": message}
    text = json.dumps(head, ensure_ascii=False, separators=(",", ":"))
    return ProjectionRequest(
        settings.url,
        f'{text[:-1]},"payload":{{"version":1,"event":{event.line}}}}}',
        settings.timeout_ms,
        {"authorization": f"Bearer {settings.token}", "content-type": "application/json"},
    )


def is_delivered(status: int) -> bool:
    """Whether an HTTP status means that the event arrived."""
    return 200 <= status <= 299


def failure_event(source: Event, now_ms: int) -> Event:
    """The retryable, redacted event that records a failed delivery of `source`; `now_ms` is the writer's clock."""
    record = source.record
    producer = producer_input(record["producer"])
    producer["component"] = ident(f"{producer['component']}.crabfleet_projection", 256)
    target = {"sourceEventId": source.event_id, "destination": _DESTINATION}
    given: dict[str, Any] = {
        "eventKey": event_key(FAILED, {**target, "producer": producer["component"]}),
        "operationId": record["operation_id"],
        "attemptId": record["attempt_id"],
        "parentEventId": source.event_id,
        "phaseSeq": min(record["phase_seq"] + 1, MAX_SAFE_INTEGER),
        "idempotencyKeySha256": idempotency_key(target),
        "type": FAILED,
        "producer": producer,
        "subject": subject_input(record["subject"]),
        "action": {
            "name": "crabfleet_projection",
            "status": "failed",
            "reasonCode": "append_failed",
            "retryable": True,
            "mutation": False,
        },
        "learning": {
            "category": "delivery",
            "signal": "retry_from_durable_ledger",
            "ruleId": "crabfleet_projection_failed",
            "confidence": 1,
        },
        "attributes": {"phase": "live_projection"},
        "privacy": {
            "classification": "internal",
            "redactionVersion": "v1",
            "fieldsDropped": ["error_detail", "response_body", "token"],
        },
    }
    return build_event(given, recorded_at=millisecond_text(now_ms), generated_at=record["recorded_at"])

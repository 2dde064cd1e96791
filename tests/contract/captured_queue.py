"""Captured exchanges of the review queue: each file starts on an empty server, lease ids are carried over.

What a client was handed out between two requests is not in the captures: it is looked up by item key among what the
queue dispatched here. Times and waits are compared by form.
"""

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from moorage.durable_objects.objects.codehost.local import RecordingCodeHost
from tests.support.local_queue import queue_over
from tests.support.plane import OPERATOR_SECRET, SIGNATURE, WEBHOOK_SECRET, Plane, sign

CHAINS: Mapping[str, tuple[str, ...]] = {
    "queue": ("queue",),
    "queue2": ("queue2", "dlq-inventory", "dlq-resolve"),
    "batch": ("batch",),
    "direct": ("direct",),
}
SETTINGS: Mapping[str, str] = {
    "EXACT_REVIEW_DISPATCH_DEBOUNCE_MS": "0",
    "EXACT_REVIEW_DISPATCH_DEBOUNCE_MAX_MS": "0",
}
UNSIGNED = tuple(f"/internal/exact-review/{operation}" for operation in ("claim", "heartbeat", "complete"))
OPERATOR = ("/dead-letters/list", "/dead-letters/resolve", "/dead-letters/recover-fresh")
RETRY_MS = 20 * 60_000
_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_ISO = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")
# Members of the statistics that belong to dashboards, to telemetry, or to a rollback that there is none of here
NOT_OURS = frozenset(
    {
        "bay_projection",
        "review_telemetry_health",
        "reservation_claim_observability",
        "state_writer",
        "legacy_rollback_available",
        "backoff_reasons",
        "parked_reasons",
        "phases",
        "message",
        "flow",
        "health",
        "capacity_control",
        "batches",
        "direct",
        "token_balance",
        "next_wake_at",
        "oldest_pending_age_seconds",
        "oldest_ready_at",
        "oldest_ready_age_seconds",
        "oldest_backoff_at",
        "oldest_backoff_age_seconds",
        "reason",
        "status",
        "checked_at",
    }
)


def form(value: Any, ours: frozenset[str] = frozenset()) -> Any:
    """`value` with times and waits by form, without the members that `ours` names."""
    if isinstance(value, dict):
        return {key: form(entry, ours) for key, entry in value.items() if key not in ours and key != "batch_wait_ms"}
    if isinstance(value, list):
        return [form(entry, ours) for entry in value]
    if isinstance(value, str):
        return _ISO.sub("<time>", value)
    return "<ms>" if isinstance(value, int) and value > 1_600_000_000_000 else value


class CapturedQueue:
    """One chain of captured files on a state plane of its own; `results` yields (file, number, want, got)."""

    def __init__(self, chain: str, folder: Path) -> None:
        self._files = CHAINS[chain]
        self._folder = folder
        self._host = RecordingCodeHost()
        self._leases: dict[str, str] = {}
        batching = {"EXACT_REVIEW_PUBLICATION_BATCHING_ENABLED": "1"} if chain == "batch" else {}
        self._plane = Plane({**SETTINGS, **batching}, queue_class=queue_over(self._host))

    def _exchanges(self) -> Iterator[tuple[str, int, Mapping[str, Any]]]:
        for name in self._files:
            for number, exchange in enumerate(
                json.loads((self._folder / f"{name}.json").read_text())["exchanges"], 1
            ):
                yield name, number, exchange

    async def results(self) -> list[tuple[str, int, Any, Any]]:
        """What was captured and what is answered here, in order."""
        found = []
        async with self._plane as plane:
            for name, number, exchange in self._exchanges():
                request = exchange["request"]
                body = await self._with_our_leases(request.get("body") or "")
                headers = {}
                if request["path"] not in UNSIGNED:
                    secret = OPERATOR_SECRET if request["path"].endswith(OPERATOR) else WEBHOOK_SECRET
                    headers[SIGNATURE] = sign(secret, body.encode())
                answer = await plane.request(request["method"], request["path"], headers=headers, body=body.encode())
                want = exchange["response"]
                dashboard = NOT_OURS if request["path"] == "/api/exact-review-queue" else frozenset[str]()
                found.append(
                    (
                        name,
                        number,
                        (want["status"], form(want["json"], dashboard)),
                        (answer.status, form(answer.json(), dashboard)),
                    )
                )
        return found

    async def _with_our_leases(self, body: str) -> str:
        members = json.loads(body) if body else {}
        captured = members.get("lease_id")
        if not isinstance(captured, str) or not _UUID.fullmatch(captured):
            return body
        if captured not in self._leases:
            key = members["item_key"]
            known = set(self._leases.values())

            def newest() -> str | None:
                for dispatch in reversed(self._host.dispatches):
                    payload = dispatch["client_payload"]
                    lease = str(payload["queue_lease_id"])
                    if payload["queue_claim"]["item_key"] == key and lease not in known:
                        return lease
                return None

            self._leases[captured] = await self._plane.until(newest, RETRY_MS) or captured
        return body.replace(captured, self._leases[captured])

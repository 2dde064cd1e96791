"""Replays exchanges that were captured between real clients and the reference, in order, on one state plane.

The files build on each other; `CHAIN` is their order. Values that differ from run to run (upload ids, etags, lease
tokens, object keys, list cursors) are learned from our answers and put into later requests, which are then signed
again. Times are compared by form alone. Where a capture and the recorded sequences disagree, the sequences win:
`ALLOWED` names each such rule.
"""

import asyncio
import base64
import binascii
import hashlib
import json
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from moorage.protocols.javascript import iso_time
from tests.support.asgi import Response
from tests.support.plane import SIGNATURE, Plane, sign
from tests.support.templates import parse_iso, short

from .result import CaseResult

FAMILY = "captured"
CHAIN = (
    "tuples",
    "blobs",
    "migrate-state-blobs",
    "migrate-state-blobs-again",
    "hydrate-cold",
    "prepare-cache-cold",
    "snapshots",
    "hydrate-snapshot",
    "prepare-cache",
    "hydrate-focused",
    "snapshot-upload",
    "cursors",
    "cursors-audit",
    "auth",
    "journal",
    "command",
    "etag",
    "artifact",
    "artifact-raw",
    "writer",
    "writer-raw",
)
START_MS = parse_iso("2026-11-30T14:17:00.000Z")
_ISO = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")
_TIME_MEMBERS = frozenset(
    {"createdAt", "expiresAt", "leaseExpiresAt", "leaseDeadlineAt", "responseAt", "validatedAt", "enqueuedAt"}
)
_LEARNED_MEMBERS = frozenset(
    {"uploadId", "etag", "leaseToken", "objectKey", "nextCursor", "lease_token", "object_key", "upload_id"}
)
_ARCHIVE_MEMBERS = frozenset({"bytes", "sha256"})


class Differs(Exception):
    """Our answer is not the captured one."""


class Learned:
    """Captured values that stand for others in this run."""

    def __init__(self) -> None:
        self._ours: dict[str, str] = {}

    def add(self, captured: Any, ours: Any) -> None:
        """From now on `ours` goes out where the capture has `captured`."""
        if isinstance(captured, str) and isinstance(ours, str) and captured != ours:
            self._ours[captured] = ours

    def knows(self, captured: str) -> bool:
        """Whether `captured` was learned."""
        return captured in self._ours

    def put_in(self, text: str) -> str:
        """`text` with our values in it."""
        for captured, ours in self._ours.items():
            text = text.replace(captured, ours)
        return text


def _same_time(want: Any, got: Any) -> bool:
    if isinstance(want, str):
        return isinstance(got, str) and _ISO.fullmatch(got) is not None
    return isinstance(got, int) and not isinstance(got, bool)


def match(want: Any, got: Any, learned: Learned, where: str = "$", archive: bool = False) -> None:
    """Raises Differs where `got` is another answer than `want`; learns what differs from run to run."""
    if isinstance(want, dict) and isinstance(got, dict):
        if set(want) != set(got):
            raise Differs(f"{where}: members {sorted(set(want) ^ set(got))} differ")
        inner = archive or "revisionWatermark" in want
        for name, value in want.items():
            ours = got[name]
            if name in _LEARNED_MEMBERS and isinstance(value, str) and isinstance(ours, str):
                learned.add(value, ours)
            elif (name in _TIME_MEMBERS and isinstance(value, int)) or (
                isinstance(value, str) and _ISO.fullmatch(value)
            ):
                if not _same_time(value, ours):
                    raise Differs(f"{where}.{name}: want a time, got {short(ours)}")
            elif not (inner and name in _ARCHIVE_MEMBERS and type(value) is type(ours)):
                match(value, ours, learned, f"{where}.{name}", inner)
    elif isinstance(want, list) and isinstance(got, list):
        if len(want) != len(got):
            raise Differs(f"{where}: want {len(want)} entries, got {len(got)}")
        for place, (value, ours) in enumerate(zip(want, got, strict=True)):
            match(value, ours, learned, f"{where}[{place}]", archive)
    elif isinstance(want, bool) != isinstance(got, bool) or want != got:
        raise Differs(f"{where}: want {short(want)}, got {short(got)}")


Allow = Callable[[Mapping[str, Any], Mapping[str, Any], Response], bool]


def _without_null_batches(value: Any) -> Any:
    if isinstance(value, dict):
        return {
            key: _without_null_batches(inner)
            for key, inner in value.items()
            if not (key == "audit_batch" and inner is None)
        }
    return value


def _audit_batch_never_written(request: Mapping[str, Any], want: Mapping[str, Any], got: Response) -> bool:
    if not request["path"].endswith("/cursors/audit") or (got.status, want["status"]) != (200, 200):
        return False
    return bool(_without_null_batches(want.get("json")) == got.json())


def _small_parts(request: Mapping[str, Any], want: Mapping[str, Any], got: Response) -> bool:
    return bool(request["path"].endswith("/multipart/complete") and got.json() == {"error": "invalid_blob_upload"})


def _export_limit(request: Mapping[str, Any], want: Mapping[str, Any], got: Response) -> bool:
    if not request["path"].endswith("/records/export") or "limit" in json.loads(request["body"]):
        return False
    try:
        match({**want["json"], "limit": 200}, got.json(), Learned())
    except Differs:
        return False
    return True


ALLOWED: dict[str, tuple[str, Allow]] = {
    "audit-batch-never-written": (
        "a later revision shows `audit_batch: null` before one was written; sequences `cursors/*` do not",
        _audit_batch_never_written,
    ),
    "small-parts": (
        "the captured server took parts of any size; `blobs/multipart-small-first-part` wants 5 MiB",
        _small_parts,
    ),
    "export-limit": (
        "the captured server had a default limit of 100; the sequences of area records have 200",
        _export_limit,
    ),
}
POLL_MS = 30_000
POLLS = 6


class _Run:
    def __init__(self, plane: Plane, secrets: Mapping[str, str]) -> None:
        self.plane = plane
        self.secrets = secrets
        self.learned = Learned()
        self.parts: dict[int, bytes] = {}
        self.acquires: dict[str, Mapping[str, Any]] = {}

    def _body(self, request: Mapping[str, Any]) -> bytes:
        text = self.learned.put_in(request["body"])
        if '"issuedAt"' in text:
            text = re.sub(r'"issuedAt":"[^"]*"', f'"issuedAt":"{iso_time(self.plane.clock.now())}"', text)
        return text.encode()

    def _headers(self, request: Mapping[str, Any], body: bytes) -> dict[str, str]:
        headers = {name: value for name, value in request["headers"].items() if name != "host"}
        given = headers.get(SIGNATURE)
        for secret in self.secrets.values():
            if given == sign(secret, request["body"].encode()):
                headers[SIGNATURE] = sign(secret, body)
        return headers

    async def exchange(self, exchange: Mapping[str, Any]) -> str | None:
        """Replays one exchange; the name of the rule that allows a difference, or None. Raises Differs."""
        request, want = exchange["request"], exchange["response"]
        if "/state-writer/" in request["path"]:
            await self._dropped_polls(request)
        body = self._body(request)
        path = self.learned.put_in(request["path"])
        got = await self.plane.request(request["method"], path, headers=self._headers(request, body), body=body)
        if request["path"].endswith("/multipart/part"):
            sent = json.loads(body)
            self.parts[sent["partNumber"]] = base64.b64decode(sent["contentBase64"])
        try:
            self._compare(want, got)
        except Differs as difference:
            for name, (_, allow) in ALLOWED.items():
                if allow(request, want, got):
                    if name == "small-parts":
                        await self._store_parts(json.loads(body))
                    return name
            raise Differs(f"{request['method']} {request['path']}: {difference}") from None
        return None

    async def _dropped_polls(self, request: Mapping[str, Any]) -> None:
        """Polls of a waiting ticket are not in the captures: a token that nobody was given was one's answer."""
        sent = json.loads(request["body"])
        if request["path"].endswith("/acquire"):
            self.acquires[sent.get("ticket_id", "")] = request
            return
        token, acquire = sent.get("lease_token"), self.acquires.get(sent.get("ticket_id", ""))
        if acquire is None or token in {None, "wrong"} or self.learned.knows(token):
            return
        for _ in range(POLLS):
            await self.plane.advance(POLL_MS)
            body = self._body(acquire)
            headers = self._headers(acquire, body)
            answer = await self.plane.request("POST", acquire["path"], headers=headers, body=body)
            given = answer.json()["ticket"]["leaseToken"]
            if given is not None:
                self.learned.add(token, given)
                return

    async def _store_parts(self, sent: Mapping[str, Any]) -> None:
        # what the captured upload left, so that the exchanges after it find it
        content = b"".join(self.parts[number] for number in sorted(self.parts))
        metadata = {"sha256": hashlib.sha256(content).hexdigest(), "verified": "client"}
        await self.plane.bucket.put(sent["path"], content, {"customMetadata": metadata})

    def _compare(self, want: Mapping[str, Any], got: Response) -> None:
        if got.status != want["status"]:
            raise Differs(f"status: want {want['status']}, got {got.status} {got.body[:200]!r}")
        for name, value in want.get("headers", {}).items():
            ours = got.headers.get(name)
            if name in {"content-length", "content-range"} and "gzip" in want.get("headers", {}).get(
                "content-type", ""
            ):
                continue
            if value != ours:
                raise Differs(f"header {name}: want {value!r}, got {ours!r}")
        if "json" in want:
            match(want["json"], got.json(), self.learned)
        elif "base64" in want and "gzip" not in want.get("headers", {}).get("content-type", ""):
            first = base64.b64decode(want["base64"])
            if got.body[: len(first)] != first or len(got.body) != want["bytes"]:
                raise Differs(f"body: {len(got.body)} bytes that differ, want {want['bytes']}")


async def _run_chain(folder: Path) -> list[CaseResult]:
    results = []
    documents = {
        name: json.loads((folder / f"{name}.json").read_text())
        for name in CHAIN
        if (folder / f"{name}.json").exists()
    }
    secrets = next(iter(documents.values()))["secrets"]
    variables = {
        "CLAWSWEEPER_WEBHOOK_SECRET": secrets["webhook"],
        "EXACT_REVIEW_OPERATOR_SECRET": secrets["operator"],
    }
    async with Plane(variables, start_ms=START_MS) as plane:
        run = _Run(plane, secrets)
        for name, document in documents.items():
            for place, exchange in enumerate(document["exchanges"], 1):
                case = f"{name}#{place}"
                await plane.advance(1)
                try:
                    rule = await run.exchange(exchange)
                except (Differs, binascii.Error) as difference:
                    results.append(CaseResult(FAMILY, name, case, "failed", str(difference)))
                else:
                    detail = "" if rule is None else ALLOWED[rule][0]
                    results.append(CaseResult(FAMILY, name, case, "skipped" if rule else "passed", detail))
    return results


def run(folder: Path) -> Iterator[CaseResult]:
    """The outcome of every captured exchange; `skipped` where a rule of `ALLOWED` says that the capture gives way."""
    yield from asyncio.run(_run_chain(folder))

"""Replays recorded request sequences against the state plane in this process, on a clock set by hand.

`run(folder, areas)` replays `<folder>/<area>.json`. The format is that of "State plane request sequences". Every
sequence gets a state plane of its own; `sleep` moves the clock, so nothing waits for real.
"""

import asyncio
import base64
import gzip
import hashlib
import io
import json
import tarfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from tests.support.asgi import Response
from tests.support.github import GithubStandIn, Served
from tests.support.plane import (
    OPERATOR_SECRET,
    SIGNATURE,
    WEBHOOK_SECRET,
    Plane,
    app_private_key,
)
from tests.support.templates import Mismatch, Scope, as_bytes, short

from .result import CaseResult, refuse_unknown
from .spoiled_signatures import signature_value

FAMILY = "state-plane"
SECRETS = {"webhook": WEBHOOK_SECRET, "operator": OPERATOR_SECRET, "wrong": WEBHOOK_SECRET + "-not"}
EXPECTATIONS = (
    "status", "headers", "json", "text", "base64", "empty", "body_sha256", "body_bytes", "targz", "subset", "collect",
)  # fmt: skip
DISPATCH_MS = 8000
"""How far the clock is moved, at most, until an awaited dispatch arrives."""


def run(folder: Path, areas: Sequence[str] | None = None) -> Iterator[CaseResult]:
    """The outcome of every sequence of `areas` (all files of `folder` by default)."""
    for path in sorted(folder.glob("*.json")):
        if areas is None or path.stem in areas:
            document = json.loads(path.read_text(encoding="utf-8"))
            if document.get("format") != 1:
                yield CaseResult(FAMILY, path.stem, path.name, "failed", f"unknown format {document.get('format')!r}")
                continue
            for sequence in document["sequences"]:
                yield replay(path.stem, sequence)


def replay(area: str, sequence: Mapping[str, Any]) -> CaseResult:
    """Replays one sequence on a fresh state plane."""
    name = sequence["name"]
    try:
        asyncio.run(_Replay(sequence).run())
    except Mismatch as mismatch:
        return CaseResult(FAMILY, area, name, "failed", str(mismatch))
    except Exception as failure:  # a crash is a failed sequence like any other; the run goes on
        return CaseResult(FAMILY, area, name, "failed", f"{type(failure).__name__}: {failure}"[:2000])
    return CaseResult(FAMILY, area, name, "passed")


def request_body(scope: Scope, request: Mapping[str, Any]) -> bytes | None:
    """The bytes of a request's body; None without one."""
    body = request.get("body")
    if body is None:
        return None
    if "json" in body:
        return json.dumps(scope.build(body["json"]), ensure_ascii=body.get("ascii", False)).encode()
    if "text" in body:
        return as_bytes(scope.build(body["text"]))
    return base64.b64decode(scope.build(body["base64"]))


def read_targz(data: bytes) -> list[dict[str, Any]]:
    """The entries of a gzip-compressed archive, as the recordings list them."""
    entries = []
    with tarfile.open(fileobj=io.BytesIO(gzip.decompress(data)), mode="r:") as archive:
        for member in archive.getmembers():
            handle = archive.extractfile(member)
            content = handle.read() if handle else b""
            entries.append(
                {
                    "path": member.name,
                    "mode": member.mode,
                    "uid": member.uid,
                    "gid": member.gid,
                    "mtime": int(member.mtime),
                    "owner": member.uname,
                    "group": member.gname,
                    "bytes": len(content),
                    "sha256": hashlib.sha256(content).hexdigest(),
                }
            )
    return entries


def compare(scope: Scope, want: Mapping[str, Any], answer: Response) -> None:
    """Raises Mismatch when `answer` is not the recorded one."""
    refuse_unknown(want, EXPECTATIONS, "response")
    text = answer.body[:300].decode("utf-8", "replace")
    if "status" in want and answer.status != want["status"]:
        raise Mismatch(f"status: want {want['status']}, got {answer.status} with body {text!r}")
    for name, value in (want.get("headers") or {}).items():
        scope.match(value, answer.headers.get(name.lower()), f"header {name}")
    if "json" in want:
        try:
            got = json.loads(answer.body)
        except ValueError:
            raise Mismatch(f"body: want JSON, got {text!r}") from None
        scope.match(want["json"], got, "$", want.get("subset", False))
    elif "text" in want:
        scope.match(want["text"], answer.body.decode("utf-8", "replace"), "body")
    elif "base64" in want:
        if base64.b64decode(scope.build(want["base64"])) != answer.body:
            raise Mismatch(f"body: bytes differ ({len(answer.body)} received)")
    elif "empty" in want and (answer.body == b"") != want["empty"]:
        raise Mismatch(f"body: want none, got {text!r}")
    if "body_sha256" in want:
        scope.match(want["body_sha256"], hashlib.sha256(answer.body).hexdigest(), "body digest")
    if "body_bytes" in want:
        scope.match(want["body_bytes"], len(answer.body), "body length")
    if "targz" in want:
        scope.match(want["targz"], read_targz(answer.body), "archive", True)
    if "collect" in want:
        scope.buffers.setdefault(want["collect"], bytearray()).extend(answer.body)


class _Replay:
    def __init__(self, sequence: Mapping[str, Any]) -> None:
        self.sequence = sequence
        self.github = GithubStandIn()

    async def run(self) -> None:
        """Replays the sequence. Raises Mismatch with the step's name."""
        config = self.sequence.get("config") or {}
        variables = dict(config.get("env") or {})
        served: Served | None = None
        if config.get("github"):
            served = Served(self.github)
            variables |= {
                "GITHUB_API_URL": served.url,
                "CLAWSWEEPER_APP_ID": "1",
                "CLAWSWEEPER_APP_PRIVATE_KEY": app_private_key(),
            }
        try:
            outside = (lambda: len(self.github.calls)) if served else None
            async with Plane(variables, without=config.get("without") or (), outside=outside) as self.plane:
                self.scope = Scope(self.plane.clock.now, {"ns": "t", **(self.sequence.get("vars") or {})})
                for number, step in enumerate(self.sequence["steps"], 1):
                    kind = step.get("kind", "http")
                    handler = getattr(self, f"_{kind}", None)
                    label = f"step {number} ({step.get('name') or kind})"
                    if handler is None:
                        raise Mismatch(f"{label}: unknown kind of step")
                    try:
                        await handler(step)
                    except Mismatch as mismatch:
                        raise Mismatch(f"{label}: {mismatch}") from None
        finally:
            if served is not None:
                served.close()

    async def _send(self, request: Mapping[str, Any]) -> Response:
        scope = self.scope
        body = request_body(scope, request)
        target = scope.text(request["path"])
        if request.get("query"):
            target += "?" + urlencode([(name, str(scope.build(value))) for name, value in request["query"].items()])
        headers = {"accept": "*/*"}
        if body is not None and not request.get("no_content_type"):
            headers["content-type"] = "application/json"
        who = request.get("signed_with", "none")
        if who != "none":
            form = request.get("signature", "valid")
            headers[request.get("signature_header", SIGNATURE)] = signature_value(form, SECRETS[who], body or b"")
        for name, value in (request.get("headers") or {}).items():
            headers[name] = scope.build(value)
        return await self.plane.request(request["method"], target, headers=headers, body=body)

    async def _http(self, step: Mapping[str, Any]) -> None:
        compare(self.scope, step["response"], await self._send(step["request"]))

    async def _repeat(self, step: Mapping[str, Any]) -> None:
        for index in range(step["from"], step["to"] + 1):
            self.scope.variables["i"] = index
            # requests one after another do not share a millisecond
            await self.plane.clock.advance(1)
            try:
                await self._http(step)
            except Mismatch as mismatch:
                raise Mismatch(f"i={index}: {mismatch}") from None

    async def _parallel(self, step: Mapping[str, Any]) -> None:
        answers = await asyncio.gather(*(self._send(request) for request in step["requests"]))
        counts: dict[str, int] = {}
        for answer in answers:
            counts[str(answer.status)] = counts.get(str(answer.status), 0) + 1
        if counts != step["statuses"]:
            raise Mismatch(f"statuses: want {step['statuses']}, got {counts}")
        for answer in answers:
            want = (step.get("each") or {}).get(str(answer.status))
            if want is not None:
                self.scope.match(want, answer.json(), f"[{answer.status}]", step.get("subset", False))

    async def _sleep(self, step: Mapping[str, Any]) -> None:
        await self.plane.advance(step["ms"])

    async def _clock(self, step: Mapping[str, Any]) -> None:
        await self.plane.jump(step["advance_ms"])

    async def _github(self, step: Mapping[str, Any]) -> None:
        self.github.update(step["routes"])

    async def _await_dispatch(self, step: Mapping[str, Any]) -> None:
        found = await self.plane.until(self.github.next_dispatch, step.get("timeout_ms", DISPATCH_MS))
        if found is None:
            raise Mismatch("no dispatch arrived")
        self.scope.match(step["dispatch"], found, "dispatch", step.get("subset", False))
        await self.plane.settle()

    async def _no_dispatch(self, step: Mapping[str, Any]) -> None:
        await self.plane.advance(step.get("within_ms", 700))
        if (found := self.github.next_dispatch()) is not None:
            raise Mismatch(f"a dispatch arrived and none was expected: {short(found)}")

    async def _store(self, step: Mapping[str, Any]) -> None:
        got = await self.plane.call_store(step["store"], step["op"], self.scope.build(step["args"]))
        if "threw" in step:
            if "threw" not in got:
                raise Mismatch(f"want an exception, got {short(got)}")
        else:
            self.scope.match({"result": step["result"]}, got)

    async def _check(self, step: Mapping[str, Any]) -> None:
        data = bytes(self.scope.buffers.get(step["buffer"], b""))
        if "targz" in step:
            self.scope.match(step["targz"], read_targz(data), "archive", True)
        if "bytes" in step:
            self.scope.match(step["bytes"], len(data), "buffer length")
        if "sha256" in step:
            self.scope.match(step["sha256"], hashlib.sha256(data).hexdigest(), "buffer digest")

"""The same verbs against a shared queue: the `JobQueue` object behind a state plane."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from moorage.protocols.jobs.errors import Refused
from moorage.protocols.jobs.routes import (
    DEFAULT_QUEUE,
    EVENTS_PATH,
    QUEUE_GRAMMAR,
    VERB_AUTH,
    WAIT_LIMIT_SECONDS,
    path_of,
)

from .extensions import MANIFEST, PROMPT, SCHEMA
from .folder import JobsFolder
from .presence import INSTRUCTIONS, FilePresence
from .targets import FolderFiles
from .transport import TIMEOUT_SECONDS, RemoteError, Transport

TARGETS_AT_ONCE = 100


class RemoteQueue:
    """A shared queue by its name. Raises `Refused` as the server refuses, `RemoteError` when it cannot be asked."""

    def __init__(
        self, transport: Transport, queue: str = DEFAULT_QUEUE, *, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        if not re.fullmatch(QUEUE_GRAMMAR, queue):
            raise Refused("usage", f"{queue!r} is no name of a queue: letters, digits, dot, dash, underscore")
        self._transport = transport
        self._queue = queue
        self._monotonic = monotonic

    def call(self, verb: str, body: Mapping[str, Any], *, timeout: float | None = None) -> dict[str, Any]:
        """Runs a verb."""
        who = VERB_AUTH[verb]
        key_id = None if who == "nobody" else who
        given = {key: value for key, value in body.items() if value is not None}
        return self._transport.call(path_of(verb, self._queue), given, key_id=key_id, timeout=timeout)

    def record(self, body: Mapping[str, Any], read_text: Callable[[], str]) -> dict[str, Any]:
        """`record`. A report that cannot be read is told to the server, which looks at the nonce first."""
        sent = dict(body)
        if body["status"] == "completed":
            try:
                sent["report"] = read_text()
            except Refused as error:
                sent["reportUnreadable"] = error.message
        return self.call("record", sent)

    def claim_wait(
        self, name: str | None = None, *, interval: int | None = None, timeout: int | None = None
    ) -> dict[str, Any]:
        """Claims, waiting on the server: each request is held until a job is there, and then asked again."""
        deadline = None if timeout is None else self._monotonic() + timeout
        while True:
            left = None if deadline is None else max(0.0, deadline - self._monotonic())
            wait = WAIT_LIMIT_SECONDS if left is None else min(WAIT_LIMIT_SECONDS, left)
            body = {"filter": name, "waitSeconds": wait, "interval": interval}
            answer = self.call("claim", body, timeout=wait + TIMEOUT_SECONDS)
            if answer["job"] is not None or (left is not None and left <= wait):
                return answer

    def events(self, after: int | None = None) -> Iterator[tuple[int, dict[str, Any]]]:
        """Events as they come, from after a number (None: from now on). A lost connection is resumed."""
        path = EVENTS_PATH.replace("{queue}", self._queue)
        last = after
        while True:
            try:
                suffix = "?from=now" if last is None else ""
                with self._transport.stream(path + suffix, last_event=last or 0) as lines:
                    for number, event in parse_stream(lines):
                        last = number
                        if event is not None:
                            yield number, event
            except RemoteError:
                if last is None:
                    raise
                last = self._resume(last)

    def _resume(self, last: int) -> int:
        self.call("status", {})  # raises when the state plane is really gone
        return last

    def close(self) -> None:
        """Closes the connections."""
        self._transport.close()

    def push(self, folder: JobsFolder) -> dict[str, Any]:
        """Brings a project's extensions, skills, settings, agent and targets to the shared queue; how many of each.

        The shared queue keeps the bodies: what it renders is what was pushed last.
        """
        entries = [
            {
                "manifest": json.loads(file.read_bytes()),
                "prompt": _text(file.with_name(PROMPT)),
                "reportSchema": _text(file.with_name(SCHEMA)),
            }
            for file in sorted(folder.extensions.glob(f"*/*/*/{MANIFEST}"))
        ]
        skills = {file.parent.name: file.read_text(encoding="utf-8") for file in folder.skills.glob("*/SKILL.md")}
        self.call("install", {"extensions": entries, "skills": skills, "config": dict(folder.config())})
        if FilePresence(folder).state() != "absent":
            self.call("agent", {"instructions": INSTRUCTIONS})
        problems: list[str] = []
        targets = [
            {
                "path": seen.target.path,
                "kind": seen.target.kind,
                "provider": seen.target.provider,
                "frontmatter": dict(seen.target.frontmatter),
                "annotations": dict(seen.annotations),
                "virtual": seen.target.virtual,
                "body": seen.body,
            }
            for seen in FolderFiles(folder).look(problems)
        ]
        for start in range(0, max(len(targets), 1), TARGETS_AT_ONCE):
            self.call("targets", {"targets": targets[start : start + TARGETS_AT_ONCE], "replace": start == 0})
        return {"extensions": len(entries), "skills": len(skills), "targets": len(targets), "problems": problems}


def parse_stream(lines: Iterator[str]) -> Iterator[tuple[int, dict[str, Any] | None]]:
    """The events of a server-sent event stream: number and event; None for a mark, which only moves the number."""
    number, data = 0, ""
    for line in lines:
        if line.startswith("id:"):
            number = int(line[3:])
        elif line.startswith("data:"):
            data += line[5:].lstrip()
        elif not line:
            yield number, json.loads(data) if data else None
            data = ""


def _text(path: Any) -> str | None:
    try:
        text: str = path.read_bytes().decode()
    except (OSError, UnicodeDecodeError):
        return None
    return text

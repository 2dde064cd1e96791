"""The same verbs against a shared queue: the `JobQueue` object behind a state plane."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from moorage.protocols.jobs.catalogue import SKILL_PREFIX
from moorage.protocols.jobs.errors import Refused
from moorage.protocols.jobs.routes import (
    DEFAULT_QUEUE,
    EVENTS_PATH,
    QUEUE_GRAMMAR,
    VERB_AUTH,
    WAIT_LIMIT_SECONDS,
    path_of,
)
from moorage.protocols.jobs.settings import DEFAULT_CLAIM_WAIT_SECONDS
from moorage.protocols.jobs.shared import AGENT_VERSION

from ..errors import ClientError, InvalidAnswer, RemoteError, TransportError, Unavailable
from .extensions import MANIFEST, PROMPT, SCHEMA, FileExtensions
from .folder import JobsFolder, read_json
from .presence import FilePresence
from .targets import FolderFiles
from .transport import Transport

TARGETS_AT_ONCE = 100
FAN_OUT_SECONDS = 600.0
"""How long a submit over every target may take."""
ONCE = frozenset({"submit", "claim", "record"})
"""Verbs whose second answer would be another one, so that they are never sent again by themselves."""


class RemoteQueue:
    """A shared queue by its name. Raises `Refused` as the server refuses, `ClientError` when it cannot be asked."""

    def __init__(
        self,
        transport: Transport,
        queue: str = DEFAULT_QUEUE,
        *,
        monotonic: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        if not re.fullmatch(QUEUE_GRAMMAR, queue):
            raise Refused("usage", f"{queue!r} is no name of a queue: letters, digits, dot, dash, underscore")
        self._transport = transport
        self._queue = queue
        self._monotonic = monotonic
        self._sleep = sleep

    def call(self, verb: str, body: Mapping[str, Any], *, wait: float = 0) -> dict[str, Any]:
        """Runs a verb."""
        who = VERB_AUTH[verb]
        given = {key: value for key, value in body.items() if value is not None}
        return self._transport.call(
            path_of(verb, self._queue),
            given,
            key_id=None if who == "nobody" else who,
            repeat=verb not in ONCE,
            wait=FAN_OUT_SECONDS if verb == "submit" and body.get("all") else wait,
        )

    def record(self, body: Mapping[str, Any], read_text: Callable[[], str]) -> dict[str, Any]:
        """`record`. A report that cannot be read is told to the server, which looks at the nonce first."""
        sent = dict(body)
        if body["status"] == "completed":
            try:
                # bytes that are no UTF-8 cannot travel as JSON text; in their place they are no JSON either
                sent["report"] = read_text().encode("utf-8", "surrogateescape").decode("utf-8", "replace")
            except Refused as error:
                sent["reportUnreadable"] = error.message
        return self.call("record", sent)

    def claim_wait(
        self, name: str | None = None, *, interval: int | None = None, timeout: int | None = None
    ) -> dict[str, Any]:
        """Claims, waiting on the server: each request is held until a job is there, and then asked again.

        Once the server has answered, a lost connection is waited out, `interval` seconds (2) at a time, until
        `timeout` has passed.
        """
        deadline = None if timeout is None else self._monotonic() + timeout
        reached = False
        while True:
            left = None if deadline is None else max(0.0, deadline - self._monotonic())
            wait = float(WAIT_LIMIT_SECONDS) if left is None else min(WAIT_LIMIT_SECONDS, left)
            try:
                answer = self.call("claim", {"filter": name, "waitSeconds": wait, "interval": interval}, wait=wait)
            except (TransportError, Unavailable):
                if not reached:
                    raise
                pause = float(interval or DEFAULT_CLAIM_WAIT_SECONDS)
                left = None if deadline is None else deadline - self._monotonic()
                if left is not None and left <= 0:
                    return {"job": None}
                self._sleep(pause if left is None else min(pause, left))
                continue
            reached = True
            if answer["job"] is not None or (left is not None and left <= wait):
                return answer

    def events(self, after: int | None = None) -> Iterator[tuple[int, dict[str, Any]]]:
        """Events as they come, from after a number (None: from now on). A lost connection is resumed."""
        path = EVENTS_PATH.replace("{queue}", self._queue)
        last = after
        reached = False
        while True:
            lines = self._transport.stream(path + ("?from=now" if last is None else ""), last_event=last or 0)
            try:
                for number, event in parse_stream(lines, last or 0):
                    reached = True
                    last = number
                    if event is not None:
                        yield number, event
            except ClientError as error:
                # what the service refuses for good is not asked again
                final = isinstance(error, RemoteError | InvalidAnswer) and not isinstance(error, Unavailable)
                if final or not reached:
                    raise
            self._sleep(DEFAULT_CLAIM_WAIT_SECONDS)

    def close(self) -> None:
        """Closes the connections."""
        self._transport.close()

    def push(self, folder: JobsFolder, progress: Callable[[int, int], None] | None = None) -> dict[str, Any]:
        """Brings a project's extensions, skills, settings, agent and targets to the shared queue; how many of each.

        The shared queue keeps the bodies: what it renders is what was pushed last. `progress` is told how many
        targets of how many are there.
        """
        counts = self.push_extensions(folder)
        if FilePresence(folder).state() != "absent":
            self.call("agent", {"version": AGENT_VERSION})
        return {**counts, **self.push_targets(folder, progress)}

    def push_extensions(self, folder: JobsFolder) -> dict[str, Any]:
        """Replaces extensions, skills and settings by those of the project."""
        entries = [
            {
                "manifest": read_json(file, {}),
                "prompt": _text(file.with_name(PROMPT)),
                "reportSchema": _text(file.with_name(SCHEMA)),
            }
            for file in sorted(folder.extensions.glob(f"*/*/*/{MANIFEST}"))
        ]
        skills = {
            skill.id.removeprefix(SKILL_PREFIX): {"version": skill.version, "body": skill.skill_body}
            for skill in FileExtensions(folder).skills()
        }
        self.call("install", {"extensions": entries, "skills": skills, "config": dict(folder.config())})
        return {"extensions": len(entries), "skills": len(skills)}

    def push_targets(self, folder: JobsFolder, progress: Callable[[int, int], None] | None = None) -> dict[str, Any]:
        """Replaces the targets by the project's files as they are now, and says what is wrong with any of them."""
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
            if progress is not None:
                progress(min(start + TARGETS_AT_ONCE, len(targets)), len(targets))
        return {"targets": len(targets), "problems": problems}


def parse_stream(lines: Iterator[str], number: int = 0) -> Iterator[tuple[int, dict[str, Any] | None]]:
    """The events of a server-sent event stream: number and event; None for a mark, which only moves the number.

    `number` is that of the last event before. Raises InvalidAnswer.
    """
    data = ""
    for line in lines:
        if line.startswith("id:"):
            given = line[3:].strip()
            # one that cannot be read moves nothing, or the next resume would start anew
            number = int(given) if given.isascii() and given.isdigit() else number
        elif line.startswith("data:"):
            data += line[5:].lstrip()
        elif not line:
            yield number, _event(data) if data else None
            data = ""


def _event(data: str) -> dict[str, Any]:
    try:
        value = json.loads(data)
    except ValueError:
        raise InvalidAnswer("an event of the stream is not JSON") from None
    if not isinstance(value, dict):
        raise InvalidAnswer("an event of the stream is not a JSON object")
    return value


def _text(path: Any) -> str | None:
    try:
        text: str = path.read_bytes().decode()
    except (OSError, UnicodeDecodeError):
        return None
    return text

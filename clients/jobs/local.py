"""A queue in a project's folder: the engine over its SQLite file and its four file interfaces."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from moorage.protocols.jobs import wire
from moorage.protocols.jobs.claim import ClaimOutcome
from moorage.protocols.jobs.engine import JobEngine
from moorage.protocols.jobs.ports import TargetResolver
from moorage.protocols.jobs.settings import resolve_claim_wait

from .database import QueueDatabase
from .extensions import FileExtensions
from .folder import JobsFolder
from .presence import FilePresence
from .resolvers import JoinedTargets
from .sidecars import SidecarSuppressions
from .targets import FileTargets, Scan
from .validation import validate


def wall_clock() -> int:
    """Now, in Unix milliseconds."""
    return time.time_ns() // 1_000_000


@dataclass(frozen=True, slots=True)
class Ambient:
    """Time and randomness, handed in. `monotonic` is in seconds; `sleep` waits that long."""

    now: Callable[[], int] = wall_clock
    draw: Callable[[int], str] = secrets.token_hex
    monotonic: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep


@dataclass(frozen=True, slots=True)
class LocalQueue:
    """The queue of one project. Close it when done, or use it in a `with`.

    ```python
    with LocalQueue.open(Path(".")) as queue:
        queue.call("submit", {"extension": "notes/brief", "node": "notes/a.md"})
        job = queue.call("claim", {})["job"]
    ```
    """

    folder: JobsFolder
    database: QueueDatabase
    engine: JobEngine
    files: FileTargets
    ambient: Ambient = field(default_factory=Ambient)

    @classmethod
    def open(
        cls,
        root: Path,
        *,
        ambient: Ambient | None = None,
        create: bool = False,
        more_targets: Mapping[str, TargetResolver] | None = None,
    ) -> LocalQueue:
        """Opens a project's queue. `more_targets` maps a path prefix to the resolver of such targets.

        Raises `Refused("no-database")` when there is none and `create` is off.
        """
        ambient = ambient or Ambient()
        folder = JobsFolder(root)
        database = QueueDatabase(folder.database, create=create)
        files = FileTargets(folder, database)
        engine = JobEngine(
            transact=database.transact,
            query=database.query,
            targets=JoinedTargets(files, more_targets or {}),
            catalogue=FileExtensions(folder),
            presence=FilePresence(folder),
            suppressions=SidecarSuppressions(folder, database),
            config=folder.config,
            validate=validate,
            now=ambient.now,
            draw=ambient.draw,
            log=lambda op, detail: folder.log(op, detail, now=ambient.now()),
        )
        return cls(folder, database, engine, files, ambient)

    def call(self, verb: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """Runs a verb of `moorage.protocols.jobs.wire`. Raises `Refused`."""
        return wire.call(self.engine, verb, body, "operator")

    def record(self, body: Mapping[str, Any], read_text: Callable[[], str]) -> dict[str, Any]:
        """`record`, with the report read only once nonce and state are right (spec 24, JB-1)."""
        return wire.record(self.engine, wire.parse({"report": "", **body}, wire.RecordBody), read_text)

    def claim_wait(
        self, name: str | None = None, *, interval: int | None = None, timeout: int | None = None
    ) -> ClaimOutcome:
        """Claims, waiting for a job: reap and claim every `interval` seconds until one is there or `timeout` is over.

        The outcome after a timeout has no handover (spec 14, blocking claim).
        """
        pause = resolve_claim_wait(self.folder.config(), interval)
        deadline = None if timeout is None else self.ambient.monotonic() + timeout
        while True:
            outcome = self.engine.claim(name)
            if outcome.handover is not None:
                return outcome
            left = None if deadline is None else deadline - self.ambient.monotonic()
            if left is not None and left <= 0:
                return outcome
            self.ambient.sleep(pause if left is None else min(pause, left))

    def scan(self) -> Scan:
        """Stores what the files are now."""
        return self.files.scan()

    def close(self) -> None:
        """Closes the file."""
        self.database.close()

    def __enter__(self) -> LocalQueue:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

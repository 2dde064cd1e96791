"""What the command line works with: the folder or the remote, time, and the three streams; handed in by tests."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TextIO

if TYPE_CHECKING:
    from .local import Ambient, LocalQueue
    from .remote import RemoteQueue


class Backend(Protocol):
    """A queue, here or elsewhere, as the command line sees it."""

    def call(self, verb: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """Runs a verb."""
        ...

    def record(self, body: Mapping[str, Any], read_text: Callable[[], str]) -> dict[str, Any]:
        """`record`, the report read when its turn comes."""
        ...

    def claim_wait(self, name: str | None, interval: int | None, timeout: int | None) -> dict[str, Any]:
        """`claim`, waiting."""
        ...

    def events(self, after: int | None, follow: bool) -> Iterator[tuple[int, dict[str, Any]]]:
        """Events past a number."""
        ...

    def close(self) -> None:
        """Lets go of it."""
        ...


@dataclass
class Environment:
    """One invocation. Without a remote the queue is the folder's."""

    root: Path = field(default_factory=Path)
    working: Path = field(default_factory=Path)
    remote: str | None = None
    queue: str = "default"
    ambient: Ambient | None = None
    stdin: Callable[[], str] = lambda: sys.stdin.buffer.read().decode("utf-8", "surrogateescape")
    stdout: TextIO | None = None
    stderr: TextIO | None = None
    interactive: Callable[[], bool] = lambda: bool(sys.stdin and sys.stdin.isatty())
    backend: Callable[[Environment], Backend] | None = None

    def open(self) -> Backend:
        """The queue. Raises `Refused("no-database")` when there is none in the folder."""
        if self.backend is not None:
            return self.backend(self)
        return RemoteBackend(self.shared()) if self.remote is not None else LocalBackend(self)

    def local(self, *, create: bool = False) -> LocalQueue:
        """The folder's queue, whatever the remote."""
        from .local import LocalQueue
        from .transport import Keys, Transport

        keys = Keys.from_environment()
        more: dict[str, Any] = {}
        if self.remote is None and (base := state_plane_url()) is not None and keys.webhook is not None:
            from moorage.protocols.jobs.records import RECORD_PREFIX

            from .resolvers import RecordTargets

            more[RECORD_PREFIX] = RecordTargets(Transport(base, keys))
        return LocalQueue.open(self.root, ambient=self.ambient, create=create, more_targets=more)

    def shared(self) -> RemoteQueue:
        """The remote queue."""
        from .remote import RemoteQueue
        from .transport import Transport

        return RemoteQueue(Transport(self.remote or ""), self.queue)

    def out(self, text: str) -> None:
        """Writes a line to standard output."""
        stream = self.stdout or sys.stdout
        stream.write(text + "\n")
        stream.flush()

    def err(self, text: str) -> None:
        """Writes a line to standard error."""
        stream = self.stderr or sys.stderr
        stream.write(text + "\n")
        stream.flush()


def state_plane_url() -> str | None:
    """Where records come from that a local job is about: `MOORAGE_URL`."""
    import os

    return os.environ.get("MOORAGE_URL") or None


class LocalBackend:
    """The queue of the folder."""

    def __init__(self, environment: Environment) -> None:
        self._queue = environment.local()

    def call(self, verb: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """Runs a verb."""
        return self._queue.call(verb, body)

    def record(self, body: Mapping[str, Any], read_text: Callable[[], str]) -> dict[str, Any]:
        """`record`."""
        return self._queue.record(body, read_text)

    def claim_wait(self, name: str | None, interval: int | None, timeout: int | None) -> dict[str, Any]:
        """`claim`, waiting."""
        from moorage.protocols.jobs.claim import ContentMissing

        found = self._queue.claim_wait(name, interval=interval, timeout=timeout).handover
        if isinstance(found, ContentMissing):
            raise found.refusal()
        return {"job": None if found is None else {"id": found.id, "nonce": found.nonce, "content": found.content}}

    def events(self, after: int | None, follow: bool) -> Iterator[tuple[int, dict[str, Any]]]:
        """Events past a number, None for those from now on; `follow` looks again twice a second."""
        from moorage.protocols.jobs.read import last_event

        last = self._queue.engine.read(last_event()) if after is None else after
        while True:
            found = self._queue.call("events", {"after": last})["events"]
            for entry in found:
                last = entry["seq"]
                yield last, entry["event"]
            if not found:
                if not follow:
                    return
                self._queue.ambient.sleep(0.5)

    def close(self) -> None:
        """Closes the file."""
        self._queue.close()


class RemoteBackend:
    """A shared queue."""

    def __init__(self, queue: RemoteQueue) -> None:
        self._queue = queue

    def call(self, verb: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """Runs a verb."""
        return self._queue.call(verb, body)

    def record(self, body: Mapping[str, Any], read_text: Callable[[], str]) -> dict[str, Any]:
        """`record`."""
        return self._queue.record(body, read_text)

    def claim_wait(self, name: str | None, interval: int | None, timeout: int | None) -> dict[str, Any]:
        """`claim`, waiting."""
        return self._queue.claim_wait(name, interval=interval, timeout=timeout)

    def events(self, after: int | None, follow: bool) -> Iterator[tuple[int, dict[str, Any]]]:
        """Events past a number; without `follow` those that are there."""
        if follow:
            yield from self._queue.events(after)
            return
        last = after or 0
        while found := self._queue.call("events", {"after": last})["events"]:
            for entry in found:
                last = entry["seq"]
                yield last, entry["event"]

    def close(self) -> None:
        """Closes the connections."""
        self._queue.close()

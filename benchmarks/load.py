"""A closed-loop HTTP load in a process of its own: each connection sends its next request at the answer."""

import asyncio
import base64
import hashlib
import hmac
import itertools
import json
import multiprocessing
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Protocol
from urllib.parse import urlsplit

SECRET = "benchmark-secret"


class Source(Protocol):
    """What one connection sends: `next()` gives the request's bytes, `answered` sees the answer's status and body."""

    def next(self) -> bytes: ...

    def answered(self, status: int, body: bytes) -> None: ...


class _Salt:
    """A random text of the process that asks: the warm-up must not write what the measurement writes."""

    _pid = 0
    _text = ""

    @classmethod
    def text(cls) -> str:
        """Eight hex digits."""
        if cls._pid != os.getpid():
            cls._pid, cls._text = os.getpid(), os.urandom(4).hex()
        return cls._text


def request(method: str, path: str, body: bytes = b"", *, signed: bool = False) -> bytes:
    """Returns a request's bytes."""
    lines = [f"{method} {path} HTTP/1.1", "host: 127.0.0.1", f"content-length: {len(body)}"]
    if body:
        lines.append("content-type: application/json")
    if signed:
        mac = hmac.digest(SECRET.encode(), body, "sha256").hex()
        lines.append(f"x-clawsweeper-exact-review-signature: sha256={mac}")
    return "\r\n".join([*lines, "", ""]).encode() + body


class Same:
    """The same request each time."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    def next(self) -> bytes:
        return self._data

    def answered(self, status: int, body: bytes) -> None:
        if status >= 300:
            raise AssertionError(f"{status}: {body[:200]!r}")


class CursorWrite:
    """Moves a cursor of its own: every value is another, since an equal value would dirty no page."""

    def __init__(self, connection: int, *, shared: bool = False) -> None:
        number = 0 if shared else connection
        self._path = f"/internal/state/cursors/review-placeholder-{number:016x}-open"
        self._revision = 0
        self._value = connection
        self.conflicts = 0

    def next(self) -> bytes:
        self._value += 1
        body = json.dumps({"next_cursor": self._value, "expected_revision": self._revision}).encode()
        return request("PUT", self._path, body, signed=True)

    def answered(self, status: int, body: bytes) -> None:
        answer = json.loads(body)
        if status == 409:
            self.conflicts += 1
            self._revision = answer["current"]["revision"]
        elif status == 202:
            self._revision = answer["revision"]
        else:
            raise AssertionError(f"{status}: {body[:200]!r}")


class RecordBatch:
    """A batch of 50 commit records of 4 KiB, new ones each time."""

    numbers = itertools.count()

    def __init__(self, connection: int, count: int = 50, size: int = 4096) -> None:
        self._connection, self._count, self._size = connection, count, size
        self._sequence = itertools.count()

    def next(self) -> bytes:
        records = []
        for _ in range(self._count):
            sha = hashlib.sha1(f"{_Salt.text()}:{self._connection}:{next(self._sequence)}".encode()).hexdigest()
            content = (sha * (self._size // 40 + 1))[: self._size]
            records.append({"sha": sha, "content": content, "digest": hashlib.sha256(content.encode()).hexdigest()})
        body = json.dumps({"repo_slug": "bench-repo", "records": records}).encode()
        return request("POST", "/internal/state/records/commits", body, signed=True)

    def answered(self, status: int, body: bytes) -> None:
        if status != 202:
            raise AssertionError(f"{status}: {body[:200]!r}")


class TupleWrite:
    """A new record tuple of 4 KiB each time."""

    def __init__(self, connection: int, size: int = 4096) -> None:
        self._size = size
        self._connection = connection
        self._numbers = itertools.count()

    def number(self) -> int:
        """The next item number."""
        return next(self._numbers) + self._connection * 1_000_000 + int(_Salt.text(), 16) % 1_000_000 * 100_000_000

    def next(self) -> bytes:
        number = self.number()
        content = (f"# {number}\n" * (self._size // 4))[: self._size].encode()
        names = ("items/%d.md", "closed/%d.md", "plans/%d.md", "decision-packets/%d.json")
        operations: list[dict[str, Any]] = [
            {"path": f"records/bench-repo/{name % number}", "expectedDigest": None} for name in names
        ]
        operations[0]["contentBase64"] = base64.b64encode(content).decode()
        body = json.dumps(
            {"deliveryId": f"bench-{number}", "key": f"bench-repo/{number}", "operations": operations}
        ).encode()
        return request("POST", "/internal/state/records/tuples", body, signed=True)

    def answered(self, status: int, body: bytes) -> None:
        if status != 202:
            raise AssertionError(f"{status}: {body[:200]!r}")


class BlobPut:
    """A new mutable blob each time."""

    def __init__(self, connection: int, size: int) -> None:
        self._connection, self._size = connection, size
        self._numbers = itertools.count()
        self._last = ""

    def name(self) -> str:
        """A name that is new."""
        return f"{_Salt.text()}-{self._connection}-{next(self._numbers)}"

    def path(self) -> str:
        """The path of the next blob."""
        return f"assets/bench/{self._size}/{self._last}"

    def next(self) -> bytes:
        name = self._last = self.name()
        content = hashlib.sha256(name.encode()).digest() * (self._size // 32)
        body = json.dumps(
            {
                "path": self.path(),
                "digest": hashlib.sha256(content).hexdigest(),
                "contentBase64": base64.b64encode(content).decode(),
            }
        ).encode()
        return request("POST", "/internal/state/blobs/put", body, signed=True)

    def answered(self, status: int, body: bytes) -> None:
        if status != 201:
            raise AssertionError(f"{status}: {body[:200]!r}")


@dataclass
class Result:
    """What a run measured. Times are seconds."""

    requests: int = 0
    seconds: float = 0.0
    latencies: list[float] = field(default_factory=list)
    conflicts: int = 0
    error: str = ""

    @property
    def rate(self) -> float:
        """Requests a second."""
        return self.requests / self.seconds if self.seconds else 0.0

    def percentile(self, share: float) -> float:
        """The latency that `share` of the requests stayed below, in milliseconds."""
        if not self.latencies:
            return 0.0
        ordered = sorted(self.latencies)
        return ordered[min(len(ordered) - 1, int(len(ordered) * share))] * 1000


class _Connection(asyncio.Protocol):
    def __init__(self, source: Source, result: Result, until: float, done: "asyncio.Future[None]") -> None:
        self._source, self._result, self._until, self._done = source, result, until, done
        self._buffer = bytearray()
        self._needed = -1
        self._status = 0
        self._sent = 0.0
        self._transport: Any = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport
        self._send()

    def _send(self) -> None:
        data = self._source.next()
        self._sent = time.perf_counter()
        self._transport.write(data)

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        if self._needed < 0:
            end = self._buffer.find(b"\r\n\r\n")
            if end < 0:
                return
            head = bytes(self._buffer[:end]).lower()
            self._status = int(head[9:12])
            _, _, rest = head.partition(b"content-length:")
            length = int(rest.split(b"\r\n", 1)[0]) if rest else 0
            self._needed = end + 4 + length
            self._start = end + 4
        if len(self._buffer) < self._needed:
            return
        now = time.perf_counter()
        self._result.latencies.append(now - self._sent)
        self._result.requests += 1
        body = bytes(self._buffer[self._start : self._needed])
        del self._buffer[: self._needed]
        self._needed = -1
        try:
            self._source.answered(self._status, body)
        except AssertionError as error:
            self._result.error = str(error)
            self._finish()
            return
        if now >= self._until:
            self._finish()
        else:
            self._send()

    def _finish(self) -> None:
        self._transport.close()
        if not self._done.done():
            self._done.set_result(None)

    def connection_lost(self, error: Exception | None) -> None:
        if not self._done.done():
            self._result.error = self._result.error or f"the server closed the connection: {error}"
            self._done.set_result(None)


async def _run(url: str, sources: list[Source], seconds: float) -> Result:
    loop = asyncio.get_running_loop()
    parts = urlsplit(url)
    result = Result()
    started = time.perf_counter()
    waiting = []
    for source in sources:
        done: asyncio.Future[None] = loop.create_future()
        waiting.append(done)
        await loop.create_connection(
            lambda source=source, done=done: _Connection(source, result, started + seconds, done),  # type: ignore[misc]
            parts.hostname or "127.0.0.1",
            parts.port or 80,
        )
    await asyncio.gather(*waiting)
    result.seconds = time.perf_counter() - started
    result.conflicts = sum(getattr(source, "conflicts", 0) for source in sources)
    return result


def _child(url: str, sources: list[Source], seconds: float, queue: Any) -> None:
    try:
        import uvloop
    except ImportError:
        queue.put(asyncio.run(_run(url, sources, seconds)))
    else:
        queue.put(uvloop.run(_run(url, sources, seconds)))


def run(url: str, sources: list[Source], seconds: float) -> Result:
    """Runs the load in a child process; one connection a source. Raises RuntimeError for a wrong answer."""
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    child = context.Process(target=_child, args=(url, sources, seconds, queue))
    child.start()
    result: Result = queue.get(timeout=seconds + 120)
    child.join()
    if result.error:
        raise RuntimeError(f"{url}: {result.error}")
    return result


def each(make: Any, connections: int) -> Iterator[Source]:
    """One source a connection."""
    return (make(number) for number in range(connections))

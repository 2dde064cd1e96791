"""Requests over HTTP: rate, CPU of the server a request, latency; each beside a baseline of the same run."""

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx

from . import disk, load, servers

READ = "/internal/state/cursors/hot-intake"


def measure(server: servers.Server, sources: list[load.Source], seconds: float) -> dict[str, Any]:
    """Warms up, then measures one load on one server."""
    if seconds > 1:
        load.run(server.url, sources[:1], 0.3)
    before = server.cpu()
    result = load.run(server.url, sources, seconds)
    row = {
        "rps": result.rate,
        "cpu_us": (server.cpu() - before) / max(1, result.requests) * 1e6,
        "p50_ms": result.percentile(0.5),
        "p99_ms": result.percentile(0.99),
        "connections": len(sources),
    }
    if result.conflicts:
        row["conflicts"] = result.conflicts
    return row


def same(data: bytes, connections: int) -> list[load.Source]:
    """The same request on every connection."""
    return [load.Same(data) for _ in range(connections)]


def hello(folder: Path, seconds: float) -> Iterator[tuple[str, dict[str, Any]]]:
    """A no-op request and a no-op object call."""
    with servers.baseline(folder / "asgi", "asgi", b"hello") as bare:
        base = measure(bare, same(load.request("GET", "/"), 32), seconds)
        base["what"] = "bare ASGI application, same bytes"
    with servers.hello(folder / "hello") as server:
        yield "no-op request", {**measure(server, same(load.request("GET", "/"), 32), seconds), "baseline": base}
        row = measure(server, same(load.request("GET", "/object"), 32), seconds)
        yield "no-op object call", {**row, "baseline": base}


def cursors(folder: Path, seconds: float) -> Iterator[tuple[str, dict[str, Any]]]:
    """Signed reads, durable writes and a compare-and-set race."""
    rate = disk.sync_rate(folder)
    alone = disk.commits(folder)
    with servers.state_plane(folder / "plane") as server:
        read = load.request("GET", READ, signed=True)
        body = httpx.get(server.url + READ, headers=_signature()).content
        with servers.baseline(folder / "starlette", "starlette", body) as bare:
            base = measure(bare, same(load.request("GET", READ), 32), seconds)
            base["what"] = "Starlette, same bytes, unsigned"
        yield "signed cursor read", {**measure(server, same(read, 32), seconds), "baseline": base}
        write = measure(server, [load.CursorWrite(number) for number in range(32)], seconds)
        one = measure(server, [load.CursorWrite(1000)], seconds)
        race = measure(server, [load.CursorWrite(number, shared=True) for number in range(32)], seconds)
    with servers.state_plane(folder / "undurable", "--no-durable") as server:
        base = measure(server, [load.CursorWrite(number) for number in range(32)], seconds)
        base |= {"what": "same server, syncing off", "disk_syncs": rate, "sqlite_commits": alone["rps"]}
    yield "signed cursor write, durable", {**write, "baseline": base}
    base_one = {**alone, "what": "SQLite alone, one synced commit a write", "disk_syncs": rate}
    yield "signed cursor write, 1 connection", {**one, "baseline": base_one}
    yield "compare-and-set race", {**race, "baseline": base}


def records(folder: Path, seconds: float) -> Iterator[tuple[str, dict[str, Any]]]:
    """Batches, tuples and focused reads."""
    base = {**disk.batches(folder), "what": "SQLite alone, the same rows in one synced transaction"}
    with servers.state_plane(folder / "records") as server:
        batch = measure(server, [load.RecordBatch(number) for number in range(4)], seconds)
        yield "batch of 50 records of 4 KiB", {**batch, "baseline": base}
        written = measure(server, [load.TupleWrite(number) for number in range(1, 17)], seconds)
        yield (
            "record tuple of 4 KiB",
            {**written, "baseline": {**disk.commits(folder / "plane"), "what": "SQLite alone"}},
        )
        load.run(server.url, [_Known()], 0)
        path = "/internal/state/records/bench-repo/items/1"
        body = httpx.get(server.url + path, headers=_signature()).content
        with servers.baseline(folder / "record", "starlette", body) as bare:
            base = measure(bare, same(load.request("GET", path), 32), seconds)
            base["what"] = "Starlette, same bytes, unsigned"
        read = measure(server, same(load.request("GET", path, signed=True), 32), seconds)
        yield "record read", {**read, "baseline": base}


def blobs(folder: Path, seconds: float) -> Iterator[tuple[str, dict[str, Any]]]:
    """Blobs of 64 KiB and 5 MiB, in and out."""
    with servers.state_plane(folder / "blobs") as server:
        for size, connections, name in ((65_536, 8, "64 KiB"), (5 * 1024 * 1024, 2, "5 MiB")):
            base = {**disk.files(folder, size), "what": "a new file and its folder, synced"}
            put = measure(server, [load.BlobPut(number, size) for number in range(connections)], seconds)
            yield f"blob put, {name}", {**put, "baseline": base}
            load.run(server.url, [_KnownBlob(size)], 0)
            body = b'{"path":"assets/bench/known-%d","offset":0,"length":%d}' % (size, size)
            data = load.request("POST", "/internal/state/blobs/chunk", body, signed=True)
            content = bytes(size)
            with servers.baseline(folder / f"bytes-{size}", "asgi", content) as bare:
                base = measure(bare, same(load.request("GET", "/"), connections), seconds)
                base["what"] = "bare ASGI application, same number of bytes"
            yield f"blob chunk, {name}", {**measure(server, same(data, connections), seconds), "baseline": base}


class _Known(load.TupleWrite):
    """Writes item 1, which is read afterwards."""

    def __init__(self) -> None:
        super().__init__(0)

    def number(self) -> int:
        return 1


class _KnownBlob(load.BlobPut):
    """Writes the blob that is read afterwards."""

    def __init__(self, size: int) -> None:
        super().__init__(0, size)

    def name(self) -> str:
        return f"known-{self._size}"

    def path(self) -> str:
        return f"assets/bench/{self.name()}"


def _signature() -> dict[str, str]:
    import hmac

    mac = hmac.digest(load.SECRET.encode(), b"", "sha256").hex()
    return {"x-clawsweeper-exact-review-signature": f"sha256={mac}"}


GROUPS = {"hello": hello, "cursors": cursors, "records": records, "blobs": blobs}


def run(groups: list[str], seconds: float) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yields `(name, figures)` for the groups asked for."""
    for name in groups:
        with tempfile.TemporaryDirectory(prefix="moorage-bench-") as folder:
            (Path(folder) / "plane").mkdir()
            yield from GROUPS[name](Path(folder), seconds)

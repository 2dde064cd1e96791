"""A Worker as a stranger has one: requests, object calls, start, reload, memory of objects, beside a bare server.

python -m benchmarks platform
"""

import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import httpx

from . import http, servers

STARTS = 5
RELOADS = 5
OBJECTS = 1000
SECONDS = 3.0

OBJECTS_WORKER = """
from workers import DurableObject, Response, WorkerEntrypoint

ANSWER = "0"

class Hello(DurableObject):
    async def count(self):
        total = (await self.ctx.storage.get("total") or 0) + 1
        await self.ctx.storage.put("total", total)
        return total

class Default(WorkerEntrypoint):
    async def fetch(self, request):
        name = request.url.rpartition("/")[2]
        return Response(str(await self.env.HELLO.getByName(name).count()) if name else ANSWER)
"""


def _lay(folder: Path, entry: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "wrangler.toml").write_text(servers.HELLO_WRANGLER)
    (folder / "entry.py").write_text(entry)
    return folder


def _serving(folder: Path, *arguments: str, command: str = "serve") -> AbstractContextManager[servers.Server]:
    chosen = servers.moorage(command, str(folder), "--log-level", "error", "--no-access-log", *arguments)
    return servers.running(chosen, folder, "/")


def requests(folder: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """A hello Worker and a call of its object: requests a second, CPU a request, latencies."""
    yield from http.hello(folder, SECONDS)


def _start_ms(start: Callable[[Path], AbstractContextManager[servers.Server]], folder: Path) -> float:
    taken = []
    for number in range(STARTS):
        place = folder / str(number)
        place.mkdir(parents=True)
        began = time.perf_counter()
        with start(place):
            taken.append((time.perf_counter() - began) * 1000)
    return statistics.median(taken)


def start(folder: Path) -> tuple[str, dict[str, Any]]:
    """Milliseconds from the command to its first answer; the median of several starts."""
    ours = _start_ms(lambda place: _serving(_lay(place, OBJECTS_WORKER)), folder / "ours")
    bare = _start_ms(lambda place: servers.baseline(place, "asgi", b"hello"), folder / "bare")
    return "start to first answer", {"ms": ours, "baseline": {"ms": bare, "what": "bare ASGI application"}}


def reload(folder: Path) -> tuple[str, dict[str, Any]]:
    """Milliseconds from saving a file under `moorage dev` to the first answer of the new code, with 100 objects."""
    taken = []
    with (
        _serving(_lay(folder / "reload", OBJECTS_WORKER), command="dev") as server,
        httpx.Client(base_url=server.url, timeout=30) as client,
    ):
        for number in range(100):
            client.get(f"/{number}").raise_for_status()
        for number in range(1, RELOADS + 1):
            began = time.perf_counter()
            _lay(folder / "reload", OBJECTS_WORKER.replace('ANSWER = "0"', f'ANSWER = "{number}"'))
            while client.get("/").text != str(number):
                if time.perf_counter() - began > 30:
                    raise RuntimeError("saving the file did not load it again")
            taken.append((time.perf_counter() - began) * 1000)
    worst = {"ms": max(taken), "what": "the slowest of them"}
    return "save to first answer", {"ms": statistics.median(taken), "baseline": worst}


def memory(folder: Path) -> tuple[str, dict[str, Any]]:
    """Resident bytes that 1,000 live objects add, each with a stored value, and those of the servers without any."""
    arguments = ("--idle-seconds", "3600", "--max-objects", str(OBJECTS))
    with _serving(_lay(folder / "memory", OBJECTS_WORKER), *arguments) as server:
        with httpx.Client(base_url=server.url, timeout=30) as client:
            client.get("/warm").raise_for_status()
            before = server.memory()
            for number in range(OBJECTS - 1):
                client.get(f"/{number}").raise_for_status()
        grown = server.memory() - before
    with servers.baseline(folder / "memory-bare", "asgi", b"hello") as bare:
        empty = bare.memory()
    return f"memory of {OBJECTS:,} objects", {
        "bytes": grown,
        "bytes_each": grown / OBJECTS,
        "without": before,
        "baseline": {"bytes": empty, "what": "bare ASGI application, whole process"},
    }


def run() -> dict[str, Any]:
    """Prints and returns, by case, rates with CPU and latencies, milliseconds or bytes, each with its baseline."""
    from .__main__ import line

    results: dict[str, Any] = {}
    with tempfile.TemporaryDirectory(prefix="bench-platform-") as name:
        folder = Path(name)
        for case, row in requests(folder):
            results[case] = row
            print(line(case, row), flush=True)
        for measure in (start, reload):
            case, row = measure(folder / measure.__name__)
            results[case] = row
            base = row["baseline"]
            print(f"{case:38}{row['ms']:>9,.0f} ms   {base['ms']:>9,.0f} ms  {base['what']}", flush=True)
        case, row = memory(folder)
        results[case] = row
        kib, base = 1024, row["baseline"]
        print(
            f"{case:38}{row['bytes'] / kib**2:>9,.1f} MiB ({row['bytes_each'] / kib:.1f} KiB each; server without "
            f"{row['without'] / kib**2:.1f} MiB)   {base['bytes'] / kib**2:.1f} MiB  {base['what']}",
            flush=True,
        )
    return results


if __name__ == "__main__":
    run()

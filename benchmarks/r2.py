"""Objects in and out of a bucket on disk, beside the bare file system doing the same in the same run.

Small ones are kept in the bucket's SQLite file, larger ones in files of their own.

The baseline of a put is a new file, written, hashed (MD5, which is the etag), synced and renamed; of a get, reading
it. It runs in as many threads as there are callers.
"""

import asyncio
import hashlib
import os
import resource
import tempfile
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from moorage.r2 import Bucket, R2ObjectBody, open_bucket

KIBIBYTE = 1024
CASES = (
    ("64 KiB", 64 * KIBIBYTE, 400),
    ("128 KiB", 128 * KIBIBYTE, 300),  # the largest that is kept in the catalogue
    ("192 KiB", 192 * KIBIBYTE, 300),
    ("5 MiB", 5 * KIBIBYTE**2, 24),
)
CALLERS = (1, 16)


def _cpu() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def _figures(seconds: list[float], wall: float, cpu: float) -> dict[str, float]:
    ordered = sorted(seconds)
    return {
        "rps": len(ordered) / wall,
        "cpu_us": cpu / len(ordered) * 1e6,
        "p50_ms": ordered[len(ordered) // 2] * 1e3,
        "p99_ms": ordered[int(len(ordered) * 0.99)] * 1e3,
    }


async def _ours(work: Callable[[int], Awaitable[None]], count: int, callers: int) -> dict[str, float]:
    seconds: list[float] = []
    numbers = iter(range(count))

    async def caller() -> None:
        for number in numbers:
            start = time.perf_counter()
            await work(number)
            seconds.append(time.perf_counter() - start)

    cpu, start = _cpu(), time.perf_counter()
    await asyncio.gather(*(caller() for _ in range(callers)))
    return _figures(seconds, time.perf_counter() - start, _cpu() - cpu)


def _bare(work: Callable[[int], None], count: int, callers: int) -> dict[str, float]:
    def timed(number: int) -> float:
        start = time.perf_counter()
        work(number)
        return time.perf_counter() - start

    cpu, start = _cpu(), time.perf_counter()
    with ThreadPoolExecutor(callers) as executor:
        seconds = list(executor.map(timed, range(count)))
    return _figures(seconds, time.perf_counter() - start, _cpu() - cpu)


def _write(folder: Path, number: int, data: bytes) -> None:
    hashlib.md5(data, usedforsecurity=False).hexdigest()
    path = folder / f"{number}.new"
    with path.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    path.rename(folder / str(number))


async def _measure(bucket: Bucket, folder: Path) -> dict[str, Any]:
    results: dict[str, Any] = {}

    def show(name: str, ours: dict[str, float], bare: dict[str, float]) -> None:
        results[f"r2 {name}"] = {**ours, "baseline": bare}
        print(
            f"r2: {name:<24} {ours['rps']:>7.0f}/s {ours['cpu_us']:>7.0f} µs CPU  p50 {ours['p50_ms']:>7.2f} ms  "
            f"p99 {ours['p99_ms']:>7.2f} ms   bare files {bare['rps']:>7.0f}/s {bare['cpu_us']:>7.0f} µs CPU"
        )

    for label, size, count in CASES:
        noise = os.urandom(size)

        def value(number: int, noise: bytes = noise) -> bytes:
            return number.to_bytes(8, "big") + noise[8:]

        for callers in CALLERS:
            prefix = f"{size}-{callers}"
            files = folder / prefix
            files.mkdir()

            async def put(number: int, prefix: str = prefix, value: Callable[[int], bytes] = value) -> None:
                await bucket.put(f"{prefix}/{number}", value(number))

            async def get(number: int, prefix: str = prefix) -> None:
                found = await bucket.get(f"{prefix}/{number}")
                assert isinstance(found, R2ObjectBody)
                await found.bytes()

            def write(number: int, files: Path = files, value: Callable[[int], bytes] = value) -> None:
                _write(files, number, value(number))

            def read(number: int, files: Path = files) -> None:
                (files / str(number)).read_bytes()

            many = f"{label}, {callers} callers" if callers > 1 else label
            show(
                f"put {many}", await _ours(put, count, callers), await asyncio.to_thread(_bare, write, count, callers)
            )
            show(
                f"get {many}", await _ours(get, count, callers), await asyncio.to_thread(_bare, read, count, callers)
            )
    return results


async def _run() -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="bench-r2-") as state:
        bucket = await open_bucket("file", name="bench", state_folder=Path(state))
        try:
            bare = Path(state) / "bare"
            bare.mkdir()
            return await _measure(bucket, bare)
        finally:
            await bucket.close()


def run() -> dict[str, Any]:
    """Prints and returns, by case, requests a second, CPU a request and latencies, each with its baseline."""
    return asyncio.run(_run())


if __name__ == "__main__":
    run()

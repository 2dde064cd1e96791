"""`make bench`: every figure beside its baseline. `BENCH_JSON=path` also writes JSON.

    python -m benchmarks [GROUP ...] [--seconds N]

Groups: hello, cursors, records, blobs; and by module: r2, ledger, jobs, sweep, queue, websockets.
"""

import argparse
import importlib
import json
import os
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from . import http

MODULES = ("r2", "ledger", "jobs", "sweep", "queue", "websockets", "platform")


def main(arguments: list[str] | None = None) -> int:
    """Runs the command; returns its exit status."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("groups", nargs="*", help="groups to run; all when none is named")
    parser.add_argument("--seconds", type=float, default=3.0, help="length of each measurement")
    options = parser.parse_args(arguments)
    modules = [name for name in MODULES if find_spec(f"benchmarks.{name}")]
    known = [*http.GROUPS, *modules]
    wanted = options.groups or known
    unknown = [name for name in wanted if name not in known]
    if unknown:
        parser.error(f"no group {unknown[0]!r}; there are {', '.join(known)}")
    figures: dict[str, Any] = {}
    print(f"{'':38}{'req/s':>9}{'CPU µs':>9}{'p50 ms':>8}{'p99 ms':>8}   baseline")
    for name, row in http.run([name for name in wanted if name in http.GROUPS], options.seconds):
        figures[name] = row
        print(line(name, row), flush=True)
    for name in wanted:
        if name in modules:
            print(f"\n{name}", flush=True)
            figures[name] = importlib.import_module(f"benchmarks.{name}").run()
    path = os.environ.get("BENCH_JSON")
    if path:
        Path(path).write_text(json.dumps(figures, indent=2, default=str))
    return 0


def line(name: str, row: dict[str, Any]) -> str:
    """One row of the table."""
    base = row["baseline"]
    compared = f"{base['rps']:>9,.0f} req/s {base['cpu_us']:>7,.0f} µs  {base['what']}"
    if "disk_syncs" in base:
        compared += f" (disk: {base['disk_syncs']:,.0f} syncs/s)"
    label = f"{name} ({row['connections']} conn.)"
    return (
        f"{label:38}{row['rps']:>9,.0f}{row['cpu_us']:>9,.0f}{row['p50_ms']:>8.2f}{row['p99_ms']:>8.2f}   {compared}"
    )


if __name__ == "__main__":
    sys.exit(main())

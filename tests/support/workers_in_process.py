"""Lays Workers out in folders and runs them in this process, with or without a real server."""

import textwrap
from pathlib import Path
from typing import Any

from moorage.durable_objects.runtime.web import Request, Response
from moorage.wrangler_compat.host.host import Host
from moorage.wrangler_compat.host.settings import HostSettings

HEAD = """
name = "{name}"
main = "entry.py"
compatibility_date = "2026-07-01"
compatibility_flags = ["python_workers"]
"""


def lay(folder: Path, entry: str, wrangler: str, name: str | None = None) -> Path:
    """Writes a Worker into `folder` and returns it; `wrangler` comes after the usual head."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "wrangler.toml").write_text(HEAD.format(name=name or folder.name) + wrangler)
    (folder / "entry.py").write_text(textwrap.dedent(entry))
    return folder


def host_of(state: Path, *folders: Path, clock: Any = None, mode: str = "dev", **settings: Any) -> Host:
    """A host of the Workers in `folders` that keeps its state in `state`; start and close it."""
    options = HostSettings(state=state, port=0, access_log=False, drain_seconds=5, **settings)
    return Host(list(folders), options, mode=mode, environ={}, clock=clock)


async def ask(host: Host, path: str, method: str = "GET", **options: Any) -> Response:
    """The first Worker's answer to a request."""
    request = Request(f"http://worker.test{path}", method=method, **options)
    return await host.fetch(host.workers[0], request)

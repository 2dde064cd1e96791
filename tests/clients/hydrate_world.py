"""A state plane with records and blobs, and the tree that it must become in a folder."""

from collections.abc import Awaitable, Callable
from pathlib import Path

import httpx

from moorage.clients.blobs import AsyncBlobs
from moorage.clients.http import AsyncHttp
from moorage.clients.hydrate import Wanted
from moorage.clients.hydrate.staging import MARKER
from moorage.clients.records import AsyncRecords
from moorage.clients.snapshots import AsyncSnapshots
from tests.support.http import PlaneTransport
from tests.support.plane import START_MS, WEBHOOK_SECRET, Plane

SLUG = "acme-widgets"
NOW = START_MS / 1000 + 5
ALL = Wanted()


async def no_sleep(seconds: float) -> None:
    pass


class World:
    """A plane with records, and what it must become in a folder. Requests whose path ends with `fail` are cut."""

    def __init__(self, plane: Plane) -> None:
        self.plane = plane
        self.fail: str | None = None
        self.on_request: Callable[[httpx.Request], Awaitable[None]] | None = None
        self.fail_after = 0
        self.transport = PlaneTransport(plane, self._before)
        self.http = AsyncHttp(
            "http://127.0.0.1:8787", WEBHOOK_SECRET, transport=self.transport, now=lambda: NOW, sleep=no_sleep
        )
        self.records = AsyncRecords(self.http)
        self.snapshots = AsyncSnapshots(self.http, now=lambda: NOW)
        self.blobs = AsyncBlobs(self.http)
        self.tree: dict[str, bytes] = {}

    async def _before(self, request: httpx.Request) -> httpx.Response | None:
        if self.on_request is not None:
            await self.on_request(request)
        if self.fail is not None and request.url.path.endswith(self.fail):
            self.fail_after -= 1
            if self.fail_after < 0:
                raise httpx.ReadError("cut")
        return None

    async def item(self, number: int, text: str | None, section: str = "items", slug: str = SLUG) -> None:
        for other in ("items", "closed"):
            self.tree.pop(f"records/{slug}/{other}/{number}.md", None)
        contents = {} if text is None else {section: text.encode()}
        await self.records.put(slug, number, contents)
        if text is not None:
            self.tree[f"records/{slug}/{section}/{number}.md"] = text.encode()

    async def commit(self, sha: str, text: str) -> None:
        await self.records.commit(SLUG, {sha: text.encode()})
        self.tree[f"records/{SLUG}/commits/{sha}.md"] = text.encode()

    async def blob(self, path: str, data: bytes) -> None:
        await self.blobs.put(path, data)
        self.tree[path] = data

    async def fill(self) -> None:
        for number in (1, 2, 10):
            await self.item(number, f"\ufeffitem {number}\n" if number == 2 else f"item {number}\n")
        await self.item(5, "gone\n")
        await self.item(5, None)
        await self.commit("a" * 40, "commit\n")
        await self.item(1, "gadget\n", slug="acme-gadgets")
        await self.blob("ledger/v1/a/b.jsonl", b"{}\n")
        await self.blob("assets/c.txt", b"c" * 300_000)

    def paths(self) -> list[str]:
        return [request.url.path.rpartition("/internal/state/")[2] for request in self.transport.seen]


def read_tree(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and path.name != MARKER
    }

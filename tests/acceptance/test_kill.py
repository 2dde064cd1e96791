"""SIGKILL under load: after each restart everything that was acknowledged is there, and nothing is there by half.

`make test` kills a few times; `make acceptance KILLS=200` is the proof.
"""

import asyncio
import base64
import contextlib
import hashlib
import hmac
import itertools
import json
import random
from pathlib import Path
from typing import Any

import httpx
import pytest

from moorage.r2.backends.file import INLINE_BYTES
from tests.support.serving import ServedProcess

SECRET = "kill-test-secret"
ENVIRON = {"CLAWSWEEPER_WEBHOOK_SECRET": SECRET, "EXACT_REVIEW_OPERATOR_SECRET": "operator"}
SMALL = 4
MODES = ("hot-intake", "normal-review", "audit")

ALARM_WORKER = """
import json
from workers import DurableObject, Response, WorkerEntrypoint

class Bell(DurableObject):
    async def set(self, number, moment):
        await self.ctx.storage.put(f"set/{number}", moment)
        if await self.ctx.storage.getAlarm() is None:
            await self.ctx.storage.setAlarm(moment)

    async def alarm(self):
        due = await self.ctx.storage.list({"prefix": "set/"})
        for key in due:
            await self.ctx.storage.put("rung/" + key[4:], 1)
            await self.ctx.storage.delete(key)

    async def state(self):
        return {"set": len(await self.ctx.storage.list({"prefix": "set/"})),
                "rung": sorted(int(key[5:]) for key in await self.ctx.storage.list({"prefix": "rung/"})),
                "alarm": await self.ctx.storage.getAlarm()}

class Default(WorkerEntrypoint):
    async def fetch(self, request):
        body = json.loads(await request.text() or "{}")
        if not body:
            return Response("ready")
        bell = self.env.BELLS.getByName(body["bell"])
        if "number" in body:
            await bell.set(body["number"], body["moment"])
            return Response("set")
        return Response.json(await bell.state())
"""

WRANGLER = """
name = "bells"
main = "entry.py"
compatibility_date = "2026-07-01"
compatibility_flags = ["python_workers"]

[[durable_objects.bindings]]
name = "BELLS"
class_name = "Bell"

[[migrations]]
tag = "v1"
new_sqlite_classes = ["Bell"]
"""


@pytest.fixture
def kills(pytestconfig: pytest.Config, full_size: bool) -> int:
    asked = pytestconfig.getoption("--kills")
    return int(asked) if asked is not None else 200 if full_size else SMALL


def signed(method: str, path: str, body: Any = None) -> dict[str, Any]:
    data = b"" if body is None else json.dumps(body).encode()
    mac = hmac.new(SECRET.encode(), data, hashlib.sha256).hexdigest()
    headers = {"x-clawsweeper-exact-review-signature": f"sha256={mac}"}
    return {"method": method, "url": path, "content": data, "headers": headers}


class Acknowledged:
    """What the server has acknowledged so far, and what it was asked for without an answer."""

    def __init__(self) -> None:
        self.cursors: dict[str, tuple[int, int]] = dict.fromkeys(MODES, (0, 0))
        self.asked: dict[str, int] = dict.fromkeys(MODES, 0)
        self.tuples: dict[int, str] = {}
        self.blobs: dict[str, str] = {}
        self.numbers = itertools.count(1)


async def load(url: str, known: Acknowledged, rng: random.Random) -> None:
    """Writes until the server is gone; each acknowledgement is noted before the next write."""
    async with httpx.AsyncClient(base_url=url, timeout=10) as client:
        await asyncio.gather(
            *(_cursors(client, known, mode) for mode in MODES),
            *(_tuples(client, known, rng) for _ in range(3)),
            *(_blobs(client, known, rng) for _ in range(2)),
        )


async def _cursors(client: httpx.AsyncClient, known: Acknowledged, mode: str) -> None:
    path = f"/internal/state/cursors/{mode}"
    with contextlib.suppress(httpx.TransportError):
        while True:
            current = (await client.request(**signed("GET", path))).json()
            known.cursors[mode] = (current["next_cursor"], current["revision"])  # what a reader saw is durable, too
            value = current["next_cursor"] + 1
            known.asked[mode] = value
            body = {"next_cursor": value, "expected_revision": current["revision"]}
            answer = await client.request(**signed("PUT", path, body))
            assert answer.status_code == 202, answer.text
            known.cursors[mode] = (value, answer.json()["revision"])


async def _tuples(client: httpx.AsyncClient, known: Acknowledged, rng: random.Random) -> None:
    with contextlib.suppress(httpx.TransportError):
        while True:
            number = next(known.numbers)
            content = f"# item {number}\n".encode() + rng.randbytes(rng.randrange(1, 3000)).hex().encode()
            base = "records/kill-test"
            operations = [
                {
                    "path": f"{base}/items/{number}.md",
                    "expectedDigest": None,
                    "contentBase64": base64.b64encode(content).decode(),
                },
                {"path": f"{base}/closed/{number}.md", "expectedDigest": None},
                {"path": f"{base}/plans/{number}.md", "expectedDigest": None},
                {"path": f"{base}/decision-packets/{number}.json", "expectedDigest": None},
            ]
            body = {"deliveryId": f"kill-{number}", "key": f"kill-test/{number}", "operations": operations}
            answer = await client.request(**signed("POST", "/internal/state/records/tuples", body))
            assert answer.status_code == 202, answer.text
            known.tuples[number] = hashlib.sha256(content).hexdigest()


async def _blobs(client: httpx.AsyncClient, known: Acknowledged, rng: random.Random) -> None:
    with contextlib.suppress(httpx.TransportError):
        while True:
            # of both kinds: in the bucket's catalogue, and in files
            content = rng.randbytes(rng.choice((rng.randrange(70_000), INLINE_BYTES + rng.randrange(2), 200_000)))
            digest = hashlib.sha256(content).hexdigest()
            path = f"assets/kill/{next(known.numbers)}.bin"
            body = {"path": path, "digest": digest, "contentBase64": base64.b64encode(content).decode()}
            answer = await client.request(**signed("POST", "/internal/state/blobs/put", body))
            assert answer.status_code == 201, answer.text
            known.blobs[path] = digest


async def check(url: str, known: Acknowledged, sample: random.Random) -> None:
    """Everything acknowledged is there, whole."""
    async with httpx.AsyncClient(base_url=url, timeout=30) as client:
        for mode in MODES:
            state = (await client.request(**signed("GET", f"/internal/state/cursors/{mode}"))).json()
            value, revision = known.cursors[mode]
            assert state["revision"] >= revision, f"the revision of {mode} went back"
            assert state["next_cursor"] in {value, known.asked[mode]}, mode
        numbers = list(known.tuples)
        for number in sample.sample(numbers, min(60, len(numbers))) + numbers[-20:]:
            answer = await client.request(**signed("GET", f"/internal/state/records/kill-test/items/{number}"))
            assert answer.status_code == 200, f"the acknowledged record {number} is gone"
            content = answer.json()["content"].encode()
            assert hashlib.sha256(content).hexdigest() == known.tuples[number]
            other = await client.request(**signed("GET", f"/internal/state/records/kill-test/plans/{number}"))
            assert other.json().get("deleted") is True, "a tuple is there by half"
        paths = list(known.blobs)
        for path in sample.sample(paths, min(40, len(paths))) + paths[-20:]:
            answer = await client.request(**signed("POST", "/internal/state/blobs/stat", {"path": path}))
            assert answer.status_code == 200, f"the acknowledged blob {path} is gone"
            size = answer.json()["blob"]["bytes"]
            assert answer.json()["blob"]["digest"] == known.blobs[path]
            if size:
                body = {"path": path, "offset": 0, "length": size}
                chunk = await client.request(**signed("POST", "/internal/state/blobs/chunk", body))
                assert hashlib.sha256(chunk.content).hexdigest() == known.blobs[path]


@pytest.mark.timeout(3600)
async def test_nothing_acknowledged_is_lost(tmp_path: Path, kills: int) -> None:
    known, rng = Acknowledged(), random.Random(20260701)
    for _ in range(kills):
        server = ServedProcess(tmp_path, ["--log-level", "error"], environ=ENVIRON).wait()
        try:
            await check(server.url, known, rng)
            work = asyncio.create_task(load(server.url, known, rng))
            await asyncio.sleep(rng.uniform(0.05, 0.6))
        finally:
            server.kill()
        await work
    server = ServedProcess(tmp_path, ["--log-level", "error"], environ=ENVIRON).wait()
    try:
        await check(server.url, known, rng)
    finally:
        assert server.stop() == 0
    assert known.tuples
    assert known.blobs
    assert all(revision > 0 for _, revision in known.cursors.values())


@pytest.mark.timeout(3600)
async def test_no_alarm_is_lost(tmp_path: Path, kills: int) -> None:
    (tmp_path / "wrangler.toml").write_text(WRANGLER)
    (tmp_path / "entry.py").write_text(ALARM_WORKER)
    rng, numbers = random.Random(7), itertools.count(1)
    acknowledged: dict[str, set[int]] = {f"bell-{index}": set() for index in range(5)}

    async def ring(client: httpx.AsyncClient, bell: str) -> None:
        import time

        with contextlib.suppress(httpx.TransportError):
            while True:
                number = next(numbers)
                moment = int(time.time() * 1000) + rng.randrange(1, 400)
                answer = await client.post("/", json={"bell": bell, "number": number, "moment": moment})
                assert answer.status_code == 200, answer.text
                acknowledged[bell].add(number)

    arguments = [str(tmp_path), "--log-level", "error", "--no-access-log"]
    for _ in range(max(2, kills // 4)):
        server = ServedProcess(tmp_path, arguments, ready="/").wait()
        async with httpx.AsyncClient(base_url=server.url, timeout=10) as client:
            work = asyncio.gather(*(ring(client, bell) for bell in acknowledged))
            await asyncio.sleep(rng.uniform(0.1, 0.6))
            server.kill()
            await work
    server = ServedProcess(tmp_path, arguments, ready="/").wait()
    try:
        async with httpx.AsyncClient(base_url=server.url, timeout=10) as client:
            for bell, wanted in acknowledged.items():
                for _ in range(200):
                    state = (await client.post("/", json={"bell": bell})).json()
                    if wanted <= set(state["rung"]):
                        break
                    await asyncio.sleep(0.1)
                assert wanted <= set(state["rung"]), f"{bell}: {len(wanted - set(state['rung']))} alarms are lost"
    finally:
        assert server.stop() == 0

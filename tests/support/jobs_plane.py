"""A state plane in this process with a job queue.

Requests have a `receive` that stays open until the client hangs up, as a server's, so that held requests are held.
"""

import asyncio
import json
from typing import Any

from moorage.durable_objects.objects.jobs import JobQueue

from .plane import OPERATOR_SECRET, WEBHOOK_SECRET, Plane, sign

SIGNATURE = "x-clawsweeper-exact-review-signature"


class Exchange:
    """One request: the application's task, and the ends of its two channels."""

    def __init__(self, app: Any, scope: dict[str, Any], body: bytes) -> None:
        self.chunks: asyncio.Queue[bytes | None] = asyncio.Queue()
        self.start: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        self._body: bytes | None = body
        self._gone = asyncio.Event()
        self.task = asyncio.ensure_future(self._run(app, scope))

    async def _run(self, app: Any, scope: dict[str, Any]) -> None:
        try:
            await app(scope, self._receive, self._send)
        except Exception as error:
            if not self.start.done():
                self.start.set_exception(error)
            raise
        finally:
            self.chunks.put_nowait(None)

    async def _receive(self) -> dict[str, Any]:
        if self._body is not None:
            body, self._body = self._body, None
            return {"type": "http.request", "body": body, "more_body": False}
        await self._gone.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: Any) -> None:
        if message["type"] == "http.response.start":
            self.start.set_result(dict(message))
        elif message.get("body"):
            self.chunks.put_nowait(message["body"])

    async def chunk(self) -> bytes:
        """The next chunk of the answer; empty at its end. Fails after 5 seconds without one."""
        async with asyncio.timeout(5):
            return await self.chunks.get() or b""

    async def hang_up(self) -> None:
        """The client goes away; returns when the application has noticed and ended."""
        self._gone.set()
        await asyncio.wait({self.task})


class JobsPlane(Plane):
    """`async with JobsPlane() as plane: await plane.verb("submit", {…})`."""

    async def __aenter__(self) -> "JobsPlane":
        self.env.JOB_QUEUE = self.runtime.namespace("state-plane-JobQueue", JobQueue, self.env)
        await super().__aenter__()
        return self

    def exchange(self, method: str, target: str, headers: dict[str, str], body: bytes) -> Exchange:
        path, _, query = target.partition("?")
        headers = {"content-length": str(len(body)), **headers}
        scope = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": method,
            "scheme": "http",
            "path": path,
            "raw_path": path.encode(),
            "query_string": query.encode(),
            "root_path": "",
            "headers": [(b"host", b"127.0.0.1:8787"), *((k.encode(), v.encode()) for k, v in headers.items())],
            "env": self.env,
        }
        return Exchange(self.app, scope, body)

    def start(self, verb: str, body: Any, *, queue: str = "default", secret: str | None = WEBHOOK_SECRET) -> Exchange:
        """Sends a verb and returns at once."""
        raw = json.dumps(body).encode()
        headers = {} if secret is None else {SIGNATURE: sign(secret, raw)}
        return self.exchange("POST", f"/internal/jobs/{queue}/{verb}", headers, raw)

    async def verb(
        self, verb: str, body: Any, *, queue: str = "default", secret: str | None = WEBHOOK_SECRET
    ) -> tuple[int, Any]:
        """Status and JSON of a verb."""
        return await finish(self.start(verb, body, queue=queue, secret=secret))

    async def operate(self, verb: str, body: Any, *, queue: str = "default") -> tuple[int, Any]:
        """As `verb`, with the operator's secret."""
        return await self.verb(verb, body, queue=queue, secret=OPERATOR_SECRET)

    def stream(self, last_event: int | None = None, query: str = "") -> Exchange:
        """Opens the event stream."""
        headers = {SIGNATURE: sign(WEBHOOK_SECRET, b"")}
        if last_event is not None:
            headers["last-event-id"] = str(last_event)
        return self.exchange("GET", f"/internal/jobs/default/stream{query}", headers, b"")


async def finish(exchange: Exchange) -> tuple[int, Any]:
    """Status and JSON of an answer, whole."""
    start = await exchange.start
    await exchange.task
    chunks = []
    while (chunk := await exchange.chunks.get()) is not None:
        chunks.append(chunk)
    return start["status"], json.loads(b"".join(chunks))

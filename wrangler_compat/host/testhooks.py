"""`POST /__test/clock` and `POST /__test/store`: recorded sequences are replayed through them from outside.

Served only with `--test-hooks`, which is refused on anything but loopback.
"""

import asyncio
import json
from typing import Any

from .clock import AdjustableClock
from .host import Host, Receive, Scope, Send


class TestHooks:
    """`clock` takes `{"advance_ms": n}` and answers when due alarms have run. `store` takes `{"store", "op", "args"}`
    and answers `{"result": …}` or `{"threw": …}`; what it reaches is the Worker's own `test_store(env, request)`.
    """

    __test__ = False

    def __init__(self, host: Host) -> None:
        self._host = host

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        body = b""
        more = True
        while more:
            message = await receive()
            body += message.get("body", b"")
            more = message.get("more_body", False)
        status, answer = await self._run(scope["method"], scope["path"], body)
        data = json.dumps(answer).encode()
        headers = [(b"content-type", b"application/json"), (b"content-length", str(len(data)).encode())]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": data})

    async def _run(self, method: str, path: str, body: bytes) -> tuple[int, Any]:
        try:
            request = json.loads(body or b"{}")
        except ValueError as error:
            return 400, {"error": f"the body is no JSON: {error}"}
        if method != "POST":
            return 405, {"error": "POST only"}
        if path == "/__test/clock":
            return await self._clock(request)
        if path == "/__test/store":
            return await self._store(request)
        return 404, {"error": "there are /__test/clock and /__test/store"}

    async def _clock(self, request: Any) -> tuple[int, Any]:
        clock = self._host.clock
        step = request.get("advance_ms") if isinstance(request, dict) else None
        if not isinstance(clock, AdjustableClock) or not isinstance(step, int) or step < 0:
            return 400, {"error": "advance_ms must be a number of milliseconds, 0 or more"}
        await clock.advance(step)
        runtime = self._host.runtime
        running = [] if runtime is None else list(runtime.namespaces.values())
        while any(namespace.alarms.running for namespace in running):  # noqa: ASYNC110 - none tells when all ended
            await asyncio.sleep(0.002)
        return 200, {"now": clock.now()}

    async def _store(self, request: Any) -> tuple[int, Any]:
        for worker in self._host.workers:
            hook = getattr(worker.module, "test_store", None)
            if hook is not None:
                answer = await hook(worker.env, request)
                return 200, answer
        return 404, {"error": "no Worker of this process has test_store(env, request)"}

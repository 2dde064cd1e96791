"""A state plane in this process with sweep states, for coroutines and, on a loop of its own, for plain code."""

import asyncio
import datetime
import json
from typing import Any, Literal

from moorage.clients import connection
from moorage.clients.http import Http
from moorage.durable_objects.objects.sweep_state import SweepState

from .http import PlaneTransport, Script
from .plane import OPERATOR_SECRET, WEBHOOK_SECRET, Plane

URL = "http://127.0.0.1:8787"
ENVIRONMENT = {"CLAWSWEEPER_WEBHOOK_SECRET": WEBHOOK_SECRET, "EXACT_REVIEW_OPERATOR_SECRET": OPERATOR_SECRET}
LONG_AGO_MS = 1_500_000_000_000
"""Before every instant in the recorded sequences: a signature made before its server started is refused."""


async def no_sleep(seconds: float) -> None:
    """For clients that try again."""


class SweepPlane(Plane):
    """`async with SweepPlane() as plane: await plane.verb("lease-acquire", {…})`."""

    def __init__(self, start_ms: int = LONG_AGO_MS) -> None:
        super().__init__(start_ms=start_ms)

    async def __aenter__(self) -> "SweepPlane":
        self.env.SWEEP_STATE = self.runtime.namespace("state-plane-SweepState", SweepState, self.env)
        await super().__aenter__()
        return self

    async def verb(
        self, verb: str, body: Any = None, *, sweep: str = "default", secret: str = WEBHOOK_SECRET
    ) -> tuple[int, Any]:
        """Status and JSON of a verb."""
        raw = b"" if body is None else json.dumps(body).encode()
        answer = await self.signed("POST", f"/internal/sweeps/{sweep}/{verb}", raw, secret=secret)
        return answer.status, json.loads(answer.body)

    async def operate(self, verb: str, body: Any = None, *, sweep: str = "default") -> tuple[int, Any]:
        """As `verb`, with the operator's secret."""
        return await self.verb(verb, body, sweep=sweep, secret=OPERATOR_SECRET)

    def stand_at(self, instant: str) -> None:
        """Puts the clock to an ISO 8601 instant, back as well as forth."""
        moment = datetime.datetime.fromisoformat(instant)
        self.clock._now = round(moment.timestamp() * 1000)


class HostedPlane:
    """A `SweepPlane` on a loop in a thread, to which plain code talks through clients of `opened`.

    `signature_version` 1 lets the clock go back: with version 2 a signature older than forgotten nonces is refused.
    """

    def __init__(self) -> None:
        self._host = Http("http://127.0.0.1:1", "unused", transport=Script([]))
        self.plane = SweepPlane()
        self.run(self.plane.__aenter__())
        self.signature_version: Literal[1, 2] = 2

    def run(self, work: Any) -> Any:
        """Runs a coroutine on the plane's loop."""
        return self._host.loop.run(work)

    def close(self) -> None:
        """Ends the plane."""
        self.run(self.plane.__aexit__())
        self._host.close()

    def opened(self, url: str | None, signature_version: int = 2, **more: Any) -> Http:
        """In place of `moorage.clients.connection.open_http`."""
        host = self._host

        class Across(PlaneTransport):
            async def handle_async_request(self, request: Any) -> Any:
                ask = super().handle_async_request(request)
                return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(ask, host.loop._loop))

        return REAL_OPEN(
            url,
            self.signature_version,
            transport=Across(self.plane),
            now=lambda: self.plane.clock.now() / 1000,
            sleep=no_sleep,
            **more,
        )


REAL_OPEN = connection.open_http

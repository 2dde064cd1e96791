"""A state plane in this process with the ledger's index, for coroutines and, on a loop of its own, for plain code."""

import json
from typing import Any

from moorage.clients.http import Http
from moorage.durable_objects.objects.ledger_index import LedgerIndex

from .http import Script
from .plane import WEBHOOK_SECRET, Plane
from .sweep_plane import HostedPlane


class LedgerPlane(Plane):
    """`async with LedgerPlane() as plane: await plane.verb("lock-acquire", {…})`."""

    async def __aenter__(self) -> "LedgerPlane":
        self.env.LEDGER_INDEX = self.runtime.namespace("state-plane-LedgerIndex", LedgerIndex, self.env)
        await super().__aenter__()
        return self

    async def verb(self, verb: str, body: Any = None, *, secret: str = WEBHOOK_SECRET) -> tuple[int, Any]:
        """Status and JSON of a verb."""
        raw = b"" if body is None else json.dumps(body).encode()
        answer = await self.signed("POST", f"/internal/ledger/{verb}", raw, secret=secret)
        return answer.status, json.loads(answer.body)


class HostedLedger(HostedPlane):
    """A `LedgerPlane` on a loop in a thread; see `HostedPlane`."""

    plane: LedgerPlane  # type: ignore[assignment]

    def __init__(self) -> None:
        self._host = Http("http://127.0.0.1:1", "unused", transport=Script([]))
        self.plane = LedgerPlane()
        self.run(self.plane.__aenter__())
        self.signature_version = 2

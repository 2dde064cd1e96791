"""A state plane in this process with session commits."""

import json
from typing import Any

from moorage.durable_objects.objects.sessions import SessionCommits

from .plane import SIGNATURE, WEBHOOK_SECRET, Plane, sign


class SessionsPlane(Plane):
    """`async with SessionsPlane() as plane: await plane.verb("lease-acquire", {…})`."""

    async def __aenter__(self) -> "SessionsPlane":
        self.env.SESSION_COMMITS = self.runtime.namespace("state-plane-SessionCommits", SessionCommits, self.env)
        await super().__aenter__()
        return self

    async def verb(
        self, verb: str, body: Any, *, session: str = "north/s01", secret: str | None = WEBHOOK_SECRET
    ) -> tuple[int, Any]:
        """Status and JSON of a verb; of `object-read` its headers and bytes."""
        raw = body if isinstance(body, bytes) else json.dumps(body).encode()
        headers = {} if secret is None else {SIGNATURE: sign(secret, raw)}
        answer = await self.request("POST", f"/internal/sessions/{session}/{verb}", headers=headers, body=raw)
        if verb == "object-read" and answer.status == 200:
            return 200, (dict(answer.headers), answer.body)
        return answer.status, json.loads(answer.body)

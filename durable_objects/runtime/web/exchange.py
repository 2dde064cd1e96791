"""The ASGI channels of one request, and what has passed on them."""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import Any

from .body import Receive, Send


class BodyTooLarge(Exception):
    """The request's body passed its limit while it was read."""


class Exchange:
    """`receive` and `send` of a server, watched.

    `started`: whether the head of the answer has gone out, with `status`; `complete`: whether its last piece has.
    `gone`: whether the server said that the client has left. `limit`: bytes that the request's body may have in all;
    `receive` raises BodyTooLarge beyond it.
    """

    __slots__ = ("_left", "_receive", "_send", "complete", "gone", "started", "status")

    def __init__(self, receive: Receive, send: Send, limit: int | None = None) -> None:
        self._receive = receive
        self._send = send
        self._left = limit
        self.started = self.complete = self.gone = False
        self.status = 0

    async def receive(self) -> MutableMapping[str, Any]:
        """The server's next message. Raises BodyTooLarge."""
        message = await self._receive()
        kind = message["type"]
        if kind == "http.request":
            if self._left is not None:
                self._left -= len(message.get("body", b""))
                if self._left < 0:
                    raise BodyTooLarge
        elif kind == "http.disconnect":
            self.gone = True
        return message

    async def send(self, message: MutableMapping[str, Any]) -> None:
        """Hands a message to the server."""
        kind = message["type"]
        if kind == "http.response.start":
            self.status = message["status"]
            self.started = True
        elif kind == "http.response.body" and not message.get("more_body"):
            self.complete = True
        await self._send(message)

"""The operations `ws.*` of the Durable Object vectors, and how their object opens and answers sockets."""

import json
from typing import Any
from urllib.parse import parse_qs, urlsplit

from moorage.durable_objects.runtime import WebSocketPair, WebSocketRequestResponsePair
from moorage.durable_objects.runtime.web import Response


class WebSocketMixin:
    """Operations act on the hibernating sockets, those with `tag` when the operation has one."""

    ctx: Any
    env: Any
    _key: str
    replies_to_close: bool

    def _web_sockets(self, operation: Any) -> Any:
        return self.ctx.getWebSockets(operation["tag"]) if "tag" in operation else self.ctx.getWebSockets()

    def _op_ws_count(self, operation: Any, args: list[Any], txn: Any) -> int:
        return len(self.ctx.getWebSockets(*args))

    def _op_ws_tags(self, operation: Any, args: list[Any], txn: Any) -> Any:
        return [self.ctx.getTags(ws) for ws in self._web_sockets(operation)]

    def _op_ws_acceptTags(self, operation: Any, args: list[Any], txn: Any) -> Any:
        pair = WebSocketPair.new()
        self.ctx.acceptWebSocket(pair[1], *args)
        return self.ctx.getTags(pair[1])

    def _op_ws_acceptPlain(self, operation: Any, args: list[Any], txn: Any) -> None:
        pair = WebSocketPair.new()
        pair[1].accept()
        self.ctx.acceptWebSocket(pair[1], *args)

    def _op_ws_attach(self, operation: Any, args: list[Any], txn: Any) -> None:
        for ws in self._web_sockets(operation):
            ws.serializeAttachment(*args)

    def _op_ws_attachments(self, operation: Any, args: list[Any], txn: Any) -> Any:
        return [ws.deserializeAttachment() for ws in self._web_sockets(operation)]

    def _op_ws_send(self, operation: Any, args: list[Any], txn: Any) -> None:
        for ws in self._web_sockets(operation):
            ws.send(*args)

    def _op_ws_close(self, operation: Any, args: list[Any], txn: Any) -> None:
        for ws in self._web_sockets(operation):
            ws.close(*args)

    def _op_ws_readyStates(self, operation: Any, args: list[Any], txn: Any) -> Any:
        return [ws.readyState for ws in self._web_sockets(operation)]

    def _op_ws_replyToClose(self, operation: Any, args: list[Any], txn: Any) -> None:
        self.replies_to_close = True

    def _op_ws_setAutoResponse(self, operation: Any, args: list[Any], txn: Any) -> None:
        self.ctx.setWebSocketAutoResponse(*([WebSocketRequestResponsePair.new(*args)] if args else []))

    def _op_ws_getAutoResponse(self, operation: Any, args: list[Any], txn: Any) -> Any:
        pair = self.ctx.getWebSocketAutoResponse()
        return None if pair is None else {"request": pair.request, "response": pair.response}

    def _op_ws_autoTimestamps(self, operation: Any, args: list[Any], txn: Any) -> Any:
        return [self.ctx.getWebSocketAutoResponseTimestamp(ws) is not None for ws in self._web_sockets(operation)]

    def _op_ws_setEventTimeout(self, operation: Any, args: list[Any], txn: Any) -> None:
        self.ctx.setHibernatableWebSocketEventTimeout(*args)

    def _op_ws_getEventTimeout(self, operation: Any, args: list[Any], txn: Any) -> Any:
        return self.ctx.getHibernatableWebSocketEventTimeout()

    def _open_socket(self, url: str) -> Any:
        parts = urlsplit(url)
        query = parse_qs(parts.query)
        client, server = WebSocketPair.new().object_values()
        if parts.path == "/plain":
            server.accept()
        else:
            tags = [tag for tag in query.get("tags", [""])[0].split(",") if tag]
            self.ctx.acceptWebSocket(server, tags)
            if "attach" in query:
                server.serializeAttachment(json.loads(query["attach"][0]))
        return Response(None, status=101, web_socket=client)

    def webSocketMessage(self, ws: Any, message: Any) -> None:
        text = message if isinstance(message, str) else f"binary {message.hex()}"
        attachment = json.dumps(ws.deserializeAttachment(), separators=(",", ":"))
        number = self.env.instances[self._key]
        self.env.log(self._key, f"message {text} instance={number} attachment={attachment}")
        if text.startswith("echo:"):
            ws.send(text.removeprefix("echo:"))
        elif text == "throw":
            raise Exception("thrown in webSocketMessage")
        elif text == "close-me":
            ws.close(4001, "asked")

    def webSocketClose(self, ws: Any, code: int, reason: str, clean: bool) -> None:
        listed = any(other is ws for other in self.ctx.getWebSockets())
        flags = f"clean={json.dumps(clean)} readyState={ws.readyState} listed={json.dumps(listed)}"
        self.env.log(self._key, f"close {code} {reason} {flags}")
        if self.replies_to_close:
            ws.close(code, reason)

    def webSocketError(self, ws: Any, error: Any) -> None:
        self.env.log(self._key, f"error {error}")

"""Chat rooms: one object a room, sockets that stay open while their room sleeps.

    moorage dev examples/chatroom       # then open http://127.0.0.1:8787/garden in two windows

A client says {"name": "Ada"} first and {"text": "hello"} afterwards. What is said is stored before anybody sees it.
"""

import json
from pathlib import Path
from urllib.parse import unquote

from js import WebSocketPair, WebSocketRequestResponsePair
from workers import DurableObject, Response, WorkerEntrypoint

MAX_NAME = 40
MAX_TEXT = 2000


class Room(DurableObject):
    """The room that its name says. Who is who lies in the sockets' attachments, so memory holds nothing."""

    def __init__(self, ctx, env):
        super().__init__(ctx, env)
        self.sql = ctx.storage.sql
        self.sql.exec("CREATE TABLE IF NOT EXISTS said (id INTEGER PRIMARY KEY, name TEXT, text TEXT)")
        # Browsers keep their connection alive with this; it wakes nobody.
        ctx.setWebSocketAutoResponse(WebSocketRequestResponsePair.new("ping", "pong"))

    async def fetch(self, request):
        client, server = WebSocketPair.new().object_values()
        self.ctx.acceptWebSocket(server)
        return Response(None, status=101, web_socket=client)

    def history(self):
        """What was said last, oldest first."""
        rows = self.sql.exec("SELECT name, text FROM said ORDER BY id DESC LIMIT ?", self.env.HISTORY).toArray()
        return [{"name": row["name"], "text": row["text"]} for row in reversed(rows)]

    def present(self):
        """The names of those who are in the room."""
        sockets = self.ctx.getWebSockets()
        return sorted(known["name"] for ws in sockets if (known := ws.deserializeAttachment()) is not None)

    def tell_all(self, message, but=None):
        text = json.dumps(message)
        for ws in self.ctx.getWebSockets():
            if ws is not but and ws.deserializeAttachment() is not None:
                ws.send(text)

    async def webSocketMessage(self, ws, message):
        try:
            said = json.loads(message)
            known = ws.deserializeAttachment()
            if known is None:
                self.enter(ws, said["name"])
            else:
                self.say(known["name"], said["text"])
        except (ValueError, TypeError, KeyError) as error:
            ws.send(json.dumps({"error": f"expected a name first, then texts: {error!r}"}))

    def enter(self, ws, name):
        name = str(name).strip()[:MAX_NAME]
        if not name or name in self.present():
            ws.close(4009, "this name is taken, or empty")
            return
        ws.serializeAttachment({"name": name})
        ws.send(json.dumps({"history": self.history(), "present": self.present()}))
        self.tell_all({"joined": name}, but=ws)

    def say(self, name, text):
        text = str(text)[:MAX_TEXT]
        self.sql.exec("INSERT INTO said (name, text) VALUES (?, ?)", name, text)
        self.sql.exec("DELETE FROM said WHERE id <= (SELECT max(id) FROM said) - ?", self.env.HISTORY)
        self.tell_all({"name": name, "text": text})

    async def webSocketClose(self, ws, code, reason, clean):
        known = ws.deserializeAttachment()
        ws.close(1000)
        if known is not None:
            self.tell_all({"left": known["name"]}, but=ws)


class Default(WorkerEntrypoint):
    """`/<room>` is a page, or the room's socket when the client asks for one."""

    async def fetch(self, request):
        name = unquote(request.url.split("/", 3)[3].partition("?")[0]) or "lobby"
        room = self.env.ROOMS.getByName(name)
        if request.headers.get("upgrade") == "websocket":
            return await room.fetch(request)
        if request.headers.get("accept") == "application/json":
            return Response.json({"present": await room.present(), "history": await room.history()})
        page = (Path(__file__).parent / "page.html").read_text()
        return Response(page, headers={"content-type": "text/html; charset=utf-8"})

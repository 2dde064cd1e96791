"""A tool server in the manner of the Model Context Protocol: JSON-RPC over ASGI, one object a session."""

import json

from starlette.applications import Starlette
from starlette.responses import JSONResponse, StreamingResponse
from starlette.routing import Route
from workers import DurableObject, Response, WorkerEntrypoint, asgi

TOOLS = {
    "add": {"description": "Adds two numbers", "parameters": ["a", "b"]},
    "remember": {"description": "Keeps a note in this session", "parameters": ["text"]},
    "recall": {"description": "Lists the notes of this session", "parameters": []},
}


class Session(DurableObject):
    def __init__(self, ctx, env):
        super().__init__(ctx, env)
        routes = [Route("/mcp", self.call, methods=["POST"]), Route("/mcp", self.events, methods=["GET"])]
        self.app = Starlette(routes=routes)

    async def fetch(self, request):
        return await asgi.fetch(self.app, request.js_object, self.env, self.ctx)

    async def call(self, request):
        message = await request.json()
        answer = {"jsonrpc": "2.0", "id": message.get("id")}
        try:
            return JSONResponse({**answer, "result": await self.run(message["method"], message.get("params") or {})})
        except KeyError as error:
            return JSONResponse({**answer, "error": {"code": -32602, "message": f"missing or unknown: {error}"}})

    async def run(self, method, params):
        storage = self.ctx.storage
        if method == "initialize":
            return {"serverInfo": {"name": "tools"}, "capabilities": {"tools": {}}}
        if method == "tools/list":
            return {"tools": [{"name": name, **tool} for name, tool in TOOLS.items()]}
        if method != "tools/call":
            raise KeyError(method)
        arguments = params.get("arguments", {})
        match params["name"]:
            case "add":
                return {"content": [{"type": "text", "text": str(arguments["a"] + arguments["b"])}]}
            case "remember":
                notes = await storage.get("notes") or []
                await storage.put("notes", [*notes, arguments["text"]])
                return {"content": []}
            case "recall":
                return {"content": [{"type": "text", "text": note} for note in await storage.get("notes") or []]}
        raise KeyError(params["name"])

    async def events(self, request):
        notes = await self.ctx.storage.get("notes") or []

        async def stream():
            for note in notes:
                yield f"data: {json.dumps(note)}\n\n"

        return StreamingResponse(stream(), media_type="text/event-stream")


class Default(WorkerEntrypoint):
    async def fetch(self, request):
        session = request.headers.get("mcp-session-id")
        if not session:
            return Response.json({"error": "the header mcp-session-id is missing"}, status=400)
        return await self.env.SESSIONS.getByName(session).fetch(request)

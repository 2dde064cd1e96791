"""A suite that runs inside a Worker: each check sees the bindings as programs do. GET /<module>/<check> runs one."""

import importlib
import traceback
from urllib.parse import urlsplit

from probe import Other, Probe
from workers import Response, WorkerEntrypoint

__all__ = ["Default", "Other", "Probe"]


class Default(WorkerEntrypoint):
    async def fetch(self, request):
        module, name = urlsplit(request.url).path.strip("/").split("/")
        check = getattr(importlib.import_module(module), name)
        try:
            await check(self.env)
        except Exception:
            return Response(traceback.format_exc(), status=500)
        return Response("ok")

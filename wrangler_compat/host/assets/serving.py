"""Answers requests from a folder of files."""

import logging
from typing import Any
from urllib.parse import urlsplit

from moorage.durable_objects.runtime.web import ReadableStream, Request, Response

from ...config.model import Assets
from ..values import BindingError
from . import rules
from .files import IN_MEMORY, Files, chunks, content_type

_log = logging.getLogger("moorage.host.assets")

# From this date on (or by the flag) a browser's navigation is answered by `not_found_handling` and not by the Worker.
NAVIGATION_DATE = "2025-04-01"
NAVIGATION_FLAGS = ("assets_navigation_prefers_asset_serving", "assets_navigation_has_no_effect")
CACHE_CONTROL = "public, max-age=0, must-revalidate"
_READING = frozenset({"GET", "HEAD"})


class StaticAssets:
    """The files of one Worker. `navigation`: whether navigations are kept from the Worker (see above)."""

    def __init__(self, config: Assets, *, has_worker: bool, navigation: bool) -> None:
        if config.directory is None:
            raise BindingError("assets: `directory` is missing; it names the folder of the files")
        if not config.directory.is_dir():
            raise BindingError(f"assets: the directory {config.directory} does not exist")
        rules.check(config.run_worker_first, config.html_handling, config.not_found_handling)
        self.config = config
        self.files = Files(config.directory)
        self._has_worker = has_worker
        self._navigation = navigation
        for name in ("_headers", "_redirects"):
            if (self.files.root / name).is_file():
                _log.warning("assets: %s is not read here: its rules have no effect", self.files.root / name)

    async def first_answer(self, request: Request) -> Response | None:
        """The answer when the files come first; None when the Worker is to answer."""
        if not self._has_worker:
            return await self.answer(request)
        raw = urlsplit(request.url).path
        path = rules.decoded_path(raw)
        who = rules.first(self.config.run_worker_first, path or raw)
        if who == "worker":
            return None
        if who == "assets":
            return await self.answer(request)
        intent = None if path is None else rules.resolve(path, self.files.exists, self.config.html_handling)
        if intent is not None:
            return await self._send(request, intent)
        if self._navigation and request.fields.get("sec-fetch-mode") == "navigate":
            found = rules.missing(path, self.files.exists, self.config.not_found_handling)
            if found is not None:
                return await self._send(request, found)
        return None

    async def answer(self, request: Request) -> Response:
        """The answer of the files alone: 404 by `not_found_handling` where there is none."""
        path = rules.decoded_path(urlsplit(request.url).path)
        intent = None if path is None else rules.resolve(path, self.files.exists, self.config.html_handling)
        if intent is None:
            intent = rules.missing(path, self.files.exists, self.config.not_found_handling)
        return Response(None, 404) if intent is None else await self._send(request, intent)

    async def _send(self, request: Request, intent: rules.Found | rules.Moved) -> Response:
        if str(request.method) not in _READING:
            return Response(None, 405, headers={"allow": "GET, HEAD"})
        if isinstance(intent, rules.Moved):
            query = urlsplit(request.url).query
            return Response(None, 307, headers={"location": intent.location + (f"?{query}" if query else "")})
        try:
            asset = await self.files.open(intent.path)
        except OSError:
            return Response(None, 404)
        tag = f'"{asset.tag}"'
        headers = {"etag": tag, "cache-control": CACHE_CONTROL}
        if intent.status == 200 and _matches(request.fields.get("if-none-match"), asset.tag):
            return Response(None, 304, headers=headers)
        kind = content_type(intent.path)
        if kind is not None:
            headers["content-type"] = kind
        headers["content-length"] = str(asset.size)
        body: Any = None
        if str(request.method) == "GET" and asset.size:
            body = ReadableStream(chunks(asset))
            if asset.size <= IN_MEMORY:
                body = await body.read_all()
        return Response(body, intent.status, headers=headers)


def _matches(field: str | None, tag: str) -> bool:
    """Whether `If-None-Match` names the tag, weakly compared (RFC 9110 13.1.2)."""
    if field is None:
        return False
    names = {name.strip().removeprefix("W/") for name in field.split(",")}
    return "*" in names or f'"{tag}"' in names

"""`js.caches`: the Cache API, in memory, for each Worker of the process.

What is kept and for how long is decided as by a shared cache (RFC 9111), with the platform's own rules: no answer
with a cookie is kept, `Vary` is not looked at, and nothing is kept that names no lifetime. An entry may go at any
time, those unused for longest first when `MAX_BYTES` are used; nothing outlives the process or a reload.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from dataclasses import dataclass
from email.utils import mktime_tz, parsedate_tz
from typing import Any, Final
from weakref import WeakKeyDictionary

from moorage.durable_objects.runtime.web import (
    Body,
    Headers,
    PlatformResponse,
    ReadableStream,
    Request,
    Response,
    as_request,
)
from moorage.durable_objects.runtime.web.response import as_response

from ..current import WorkerContext, current, leave
from .errors import JsTypeError

MAX_BYTES: Final = 64 * 1024 * 1024
"""What the caches of one Worker hold together; an answer of more than a quarter of it is not kept."""

_DIRECTIVE: Final = re.compile(r'([!#$%&\'*+\-.^_`|~0-9A-Za-z]+)(?:\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^\s,;"]*)))?')
_RANGE: Final = re.compile(r"bytes=(\d*)-(\d*)\Z")
_HEURISTIC_SHARE: Final = 0.1  # of the time since Last-Modified (RFC 9111 4.2.2)
_CACHEABLE: Final = frozenset({200, 203, 204, 300, 301, 308, 404, 405, 410, 414, 501})


@dataclass(frozen=True, slots=True)
class Entry:
    """One kept answer; `ends` is in seconds of the Worker's clock."""

    status: int
    fields: tuple[tuple[str, str], ...]
    content: bytes
    ends: float


class Store:
    """The entries of all caches of one Worker, by cache and URL, those used longest ago first."""

    def __init__(self, limit: int = MAX_BYTES) -> None:
        self._limit = limit
        self._entries: OrderedDict[tuple[str, str], Entry] = OrderedDict()
        self._bytes = 0

    def get(self, key: tuple[str, str], now: float) -> Entry | None:
        entry = self._entries.get(key)
        if entry is None:
            return None
        if entry.ends <= now:
            self.remove(key)
            return None
        self._entries.move_to_end(key)
        return entry

    @property
    def largest(self) -> int:
        """Bytes that one answer may have."""
        return self._limit // 4

    def put(self, key: tuple[str, str], entry: Entry) -> None:
        self.remove(key)
        if len(entry.content) > self.largest:
            return
        self._entries[key] = entry
        self._bytes += _size(key, entry)
        while self._bytes > self._limit:
            self.remove(next(iter(self._entries)))

    def remove(self, key: tuple[str, str]) -> bool:
        entry = self._entries.pop(key, None)
        if entry is None:
            return False
        self._bytes -= _size(key, entry)
        return True


def _size(key: tuple[str, str], entry: Entry) -> int:
    named = sum(len(name) + len(value) for name, value in entry.fields)
    return len(key[0]) + len(key[1]) + named + len(entry.content) + 200


_stores: WeakKeyDictionary[WorkerContext, Store] = WeakKeyDictionary()


def _store() -> Store:
    worker = current()
    known = _stores.get(worker)
    if known is None:
        known = _stores[worker] = Store()
    return known


def _seconds() -> float:
    return current().now() / 1000


class Cache:
    """`caches.default`, or one that `caches.open(name)` gave."""

    def __init__(self, name: str) -> None:
        self._name = name

    async def match(self, request: Any, options: Any = None, **more: Any) -> PlatformResponse | None:
        """The kept answer, with `CF-Cache-Status: HIT`, or None.

        A `Range` of the request makes it 206, a condition that holds (`If-None-Match`, `If-Modified-Since`) 304.
        """
        asked = as_request(request)
        if asked.method != "GET" and not _ignores_method(options, more):
            return None
        entry = _store().get(self._key(asked), _seconds())
        return None if entry is None else PlatformResponse(_answer(asked.fields, entry))

    async def put(self, request: Any, response: Any) -> None:
        """Keeps an answer if its header fields allow it, and says nothing otherwise.

        Raises TypeError for another method than GET, for 206, for `Vary: *`, and for a body that was read.
        """
        asked, given = as_request(request), as_response(response)
        if asked.method != "GET":
            raise JsTypeError("Cannot cache response to non-GET request.")
        if given.status == 206:
            raise JsTypeError("Cannot cache response to a range request (206 Partial Content).")
        fields = given.fields
        if "*" in (fields.get("vary") or ""):
            raise JsTypeError("Cannot cache response with 'Vary: *' header.")
        if given.body_used:
            raise JsTypeError("Body has already been used. It can only be used once.")
        store, body = _store(), given.body
        allowed = lifetime(given.status, fields, _seconds()) > 0
        content = b"" if body is None else await _content(body, store.largest if allowed else -1)
        await leave()
        now = _seconds()
        seconds = lifetime(given.status, fields, now)
        if seconds > 0 and content is not None:
            store.put(self._key(asked), Entry(given.status, tuple(_kept(fields)), content, now + seconds))

    async def delete(self, request: Any, options: Any = None, **more: Any) -> bool:
        """Whether there was such an entry, which is gone now."""
        asked = as_request(request)
        if asked.method != "GET" and not _ignores_method(options, more):
            return False
        await leave()
        store = _store()
        return store.get(self._key(asked), _seconds()) is not None and store.remove(self._key(asked))

    def _key(self, request: Request) -> tuple[str, str]:
        return self._name, request.url.partition("#")[0]


async def _content(body: ReadableStream, most: int) -> bytes | None:
    """The bytes of a body; None, and the body is cancelled, when there are more than `most`."""
    body.lock()
    content = bytearray()
    while most >= 0 and (chunk := await body.next_chunk()) is not None:
        content += chunk
        if len(content) > most:
            most = -1
    if most < 0:
        await body.cancel()
        return None
    return bytes(content)


def _ignores_method(options: Any, more: dict[str, Any]) -> bool:
    return bool({**dict(options or {}), **more}.get("ignoreMethod"))


def directives(field: str) -> dict[str, str]:
    """The directives of a `Cache-Control` field, names in lower case; one without a value has an empty text."""
    return {found[1].lower(): found[2] or found[3] or "" for found in _DIRECTIVE.finditer(field)}


def lifetime(status: int, fields: Headers, now: float) -> float:
    """How many seconds a shared cache may use such an answer from now on; 0 when it may not keep it."""
    control = directives(fields.get("cache-control") or "")
    if "no-store" in control or "no-cache" in control or ("private" in control and not control["private"]):
        return 0
    hidden = {name.strip().lower() for name in control.get("private", "").split(",")}
    if fields.has("set-cookie") and "set-cookie" not in hidden:
        return 0
    for name in ("s-maxage", "max-age"):
        if name in control:
            return max(0.0, float(control[name]) - _age(fields)) if control[name].isdecimal() else 0
    expires = fields.get("expires")
    if expires is not None:
        moment = _moment(expires)
        began = _moment(fields.get("date") or "")
        return 0 if moment is None else max(0.0, moment - (now if began is None else began) - _age(fields))
    modified = _moment(fields.get("last-modified") or "")
    if modified is not None and status in _CACHEABLE:
        return max(0.0, (now - modified) * _HEURISTIC_SHARE)
    return 0


def _age(fields: Headers) -> float:
    age = fields.get("age") or ""
    return float(age) if age.isdecimal() else 0.0


def _moment(text: str) -> float | None:
    try:
        parts = parsedate_tz(text)
        return None if parts is None else float(mktime_tz(parts))
    except (ValueError, OverflowError):
        return None


def _kept(fields: Headers) -> list[tuple[str, str]]:
    hidden = {
        name.strip().lower()
        for name in directives(fields.get("cache-control") or "").get("private", "").split(",")
        if name.strip()
    }
    return [(name, value) for name, value in fields if name not in hidden]


def _answer(asked: Headers, entry: Entry) -> Response:
    headers = Headers(list(entry.fields))
    headers.set("cf-cache-status", "HIT")
    if entry.status == 200:
        if _unchanged(asked, headers):
            headers.delete("content-length")
            return Response.received(304, headers, None)
        span = _span(asked.get("range"), len(entry.content))
        if span is not None:
            first, end = span
            if first >= end:
                headers.set("content-range", f"bytes */{len(entry.content)}")
                headers.delete("content-length")
                return Response.received(416, headers, None)
            headers.set("content-range", f"bytes {first}-{end - 1}/{len(entry.content)}")
            headers.set("content-length", end - first)
            return Response.received(206, headers, Body(entry.content[first:end]))
    return Response.received(entry.status, headers, Body(entry.content) if entry.content else None)


def _unchanged(asked: Headers, kept: Headers) -> bool:
    tags = asked.get("if-none-match")
    if tags is not None:
        tag = kept.get("etag")
        given = [known.strip().removeprefix("W/") for known in tags.split(",")]
        return tag is not None and ("*" in given or tag.removeprefix("W/") in given)
    since, modified = _moment(asked.get("if-modified-since") or ""), _moment(kept.get("last-modified") or "")
    return since is not None and modified is not None and modified <= since


def _span(field: str | None, size: int) -> tuple[int, int] | None:
    """First byte and the one behind the last; None where the field asks for no single range."""
    found = _RANGE.match(field or "")
    if found is None or found[0] == "bytes=-":
        return None
    if not found[1]:
        return max(0, size - int(found[2])), size
    first = int(found[1])
    if found[2] and int(found[2]) < first:
        return None
    return first, min(size, int(found[2]) + 1) if found[2] else size


class CacheStorage:
    """`caches.default` and `await caches.open(name)`."""

    default = Cache("default")

    async def open(self, name: Any) -> Cache:
        return Cache(f"open:{name}")


__all__ = ["MAX_BYTES", "Cache", "CacheStorage", "Entry", "Store", "directives", "lifetime"]

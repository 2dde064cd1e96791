"""The binding `env.KV`."""

import json
from collections.abc import Callable
from typing import Any

from moorage.durable_objects.runtime.web import JsDict, JsList, ReadableStream

from ...workers.bindings import Binding
from ...workers.js.errors import JsSyntaxError
from ..values import Presentation, body_bytes, options_of
from . import rules

Row = list[Any]

_NO_VALUE = "KV put() accepts only strings, ArrayBuffers, ArrayBufferViews, and ReadableStreams as values."


class KvNamespace(Binding):
    """One namespace (spec python-workers-api 5). Unlike on the platform a write is seen by the next read everywhere.

    `store` is a stub of a `KvStore`, `now` the clock in milliseconds.
    """

    __slots__ = ("_form", "_now", "_store")

    def __init__(self, store: Any, now: Callable[[], int], form: Presentation) -> None:
        self._store = store
        self._now = now
        self._form = form

    def _seconds(self) -> int:
        return self._now() // 1000

    async def get(self, key: Any, options: Any = None, **keywords: Any) -> Any:
        """The value, or None when there is no such key; for a list of keys (at most 100) a dictionary of them.

        `options` is a type (`text`, `json`, `arrayBuffer`, `stream`) or has `type` and `cacheTtl`. Raises what
        `rules` raises, and JsException named SyntaxError for a value that is no JSON.
        """
        found = await self._read(key, options, keywords, "get")
        if isinstance(found, dict):
            return self._form.value({name: None if pair is None else pair[0] for name, pair in found.items()})
        return None if found is None else found[0]

    async def getWithMetadata(self, key: Any, options: Any = None, **keywords: Any) -> Any:
        """`value` and `metadata`, both None when there is no such key; for a list of keys a dictionary of such
        pairs, in which a missing key is None.
        """
        found = await self._read(key, options, keywords, "getWithMetadata")
        if isinstance(found, dict):
            return self._form.value({name: pair and _pair(pair) for name, pair in found.items()})
        return self._form.value(_pair(found or (None, None)))

    async def _read(self, key: Any, options: Any, keywords: dict[str, Any], method: str) -> Any:
        if isinstance(options, str):
            options = {"type": options}
        given = options_of(options, keywords, ("type", "cacheTtl"), method)
        many = isinstance(key, list | tuple)
        operation = "GET_BULK" if many else "GET"
        keys = rules.check_many(key) if many else [rules.check_key(key, operation)]
        kind = rules.check_type(given.get("type"), many=many)
        rules.check_cache_ttl(given.get("cacheTtl"), operation)
        rows = await self._store.read(keys, self._seconds())
        if rows is None:
            raise rules.failed(operation, 413, "Total size of request exceeds the limit of 25MB")
        found = {name: None if row is None else self._shown(row, kind) for name, row in zip(keys, rows, strict=True)}
        return found if many else found[keys[0]]

    def _shown(self, row: Row, kind: str) -> tuple[Any, Any]:
        data = bytes(row[0])
        metadata = None if row[1] is None else self._form.value(json.loads(row[1]))
        if kind == "text":
            return data.decode("utf-8", "replace"), metadata
        if kind == "json":
            try:
                return self._form.value(json.loads(data.decode("utf-8", "replace"))), metadata
            except ValueError as error:
                raise JsSyntaxError(f"the value is no JSON: {error}") from None
        return (self._form.buffer(data) if kind == "arrayBuffer" else ReadableStream((data,))), metadata

    async def put(self, key: Any, value: Any, options: Any = None, **keywords: Any) -> None:
        """Writes text, bytes or a stream; durable when it returns.

        Options: `expiration` (seconds since 1970), `expirationTtl` (seconds, at least 60), `metadata` (JSON, at most
        1,024 bytes).
        """
        given = options_of(options, keywords, ("expiration", "expirationTtl", "metadata"), "put")
        name = rules.check_key(key, "PUT")
        now = self._seconds()
        expiration = rules.expiration_of(given, now)
        metadata = rules.metadata_text(given.get("metadata"))
        data = await body_bytes(value, rules.MAX_VALUE)
        if data is None:
            raise TypeError(_NO_VALUE)
        rules.check_value(len(data))
        await self._store.put(name, data, expiration, metadata, now)

    async def delete(self, key: Any) -> None:
        """Removes a key, or a list of keys; missing ones are no error."""
        keys = key if isinstance(key, list | tuple) else [key]
        await self._store.remove([rules.check_key(name, "DELETE") for name in keys])

    async def list(self, options: Any = None, **keywords: Any) -> Any:
        """One page: `keys` (each with `name`, and `expiration` and `metadata` where set), `list_complete`, and
        `cursor` while more is to come. Options: `prefix`, `limit` (at most 1,000), `cursor`.
        """
        given = options_of(options, keywords, ("prefix", "limit", "cursor"), "list")
        prefix = given.get("prefix", "")
        if not isinstance(prefix, str):
            raise TypeError(f"list(): prefix must be a text, not {type(prefix).__name__}")
        if prefix:
            rules.check_key(prefix + "-" if prefix in {".", ".."} else prefix, "LIST")
        limit = rules.limit_of(given.get("limit"))
        after = rules.decode_cursor(given.get("cursor"))
        rows = await self._store.page(prefix, after, limit + 1, self._seconds())
        page: dict[str, Any] = {
            "keys": [_entry(row) for row in rows[:limit]],
            "list_complete": len(rows) <= limit,
            "cacheStatus": None,
        }
        if len(rows) > limit:
            page["cursor"] = rules.encode_cursor(rows[limit - 1][0])
        shown = self._form.value(page)
        return Page(shown) if isinstance(shown, JsDict) else shown


class Page(JsDict):
    """One page of a list. `page.keys` is the list of keys, as on the platform; called, it is that of a dictionary."""

    __slots__ = ()

    @property
    def keys(self) -> Any:
        return _Keys(self)


class _Keys(JsList):
    __slots__ = ("_page",)

    def __init__(self, page: Page) -> None:
        super().__init__(page["keys"])
        self._page = page

    def __call__(self) -> Any:
        return dict.keys(self._page)


def _pair(found: tuple[Any, Any]) -> dict[str, Any]:
    return {"value": found[0], "metadata": found[1], "cacheStatus": None}


def _entry(row: Row) -> dict[str, Any]:
    entry: dict[str, Any] = {"name": row[0]}
    if row[1] is not None:
        entry["expiration"] = row[1]
    if row[2] is not None:
        entry["metadata"] = json.loads(row[2])
    return entry

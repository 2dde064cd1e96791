"""The conditional-read cache (spec state-plane-protocol 7): `lookup`, `store`, `confirm`, one object a repository."""

from typing import Any

from moorage.protocols.etag_cache import parse_key
from moorage.protocols.json_body import members
from moorage.protocols.wire.etag_cache import (
    GithubEtagCacheUnavailable,
    InvalidGithubEtagCacheKey,
    InvalidGithubEtagConfirmation,
)

from ..routing import Answer, Call, Result, Route

_BASE = "/internal/exact-review/github-etag-cache"


def _stub(call: Call, store_name: str) -> Any:
    namespace = getattr(call.env, "GITHUB_ETAG_CACHE", None)
    if namespace is None:
        raise GithubEtagCacheUnavailable
    return namespace.getByName(store_name)


async def lookup(call: Call) -> Result:
    """200 `{ok, hit, entry}`."""
    body = members(call.body)
    key = parse_key(body)
    if key is None:
        raise InvalidGithubEtagCacheKey
    return Answer.of(await _stub(call, key.store_name).lookup(body))


async def store(call: Call) -> Result:
    """201 `{ok, stored: true, entry}`, or 200 with `stored: false` and the reason."""
    body = members(call.body)
    key = parse_key(body)
    if key is None:
        raise InvalidGithubEtagCacheKey
    return Answer.of(await _stub(call, key.store_name).store(body))


async def confirm(call: Call) -> Result:
    """200 `{ok, confirmed, body, entry}`, or `confirmed: false` with the reason."""
    body = members(call.body)
    key = parse_key(body)
    if key is None:
        raise InvalidGithubEtagConfirmation
    return Answer.of(await _stub(call, key.store_name).confirm(body))


routes = [
    Route(("POST",), f"{_BASE}/{operation.__name__}", operation, queue=True, failure=GithubEtagCacheUnavailable)
    for operation in (lookup, store, confirm)
]

"""Rules of the conditional-read cache: which reads have a place in it, under which key, and what may be stored.

Spec state-plane-protocol 7; vectors `etag-cache/*`. A lookup gives out an etag and a digest only; the body leaves
the cache after the code host has answered 304 to that etag.
"""

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import parse_qsl, urlencode

from .javascript import MAX_SAFE_INTEGER, to_number, trim
from .json_body import NotJson, parse

CREDENTIAL_POOLS: Final = frozenset({"repository_actions", "target_app", "public_read_fallback"})
DEFAULT_MEDIA_TYPE: Final = "application/vnd.github+json"
DEFAULT_MAX_BODY_BYTES: Final = 512 * 1024
MAX_ENTRIES: Final = 2048
RETENTION_MS: Final = 30 * 24 * 60 * 60 * 1000
CLEAN_LOT: Final = 128
CLEAN_INTERVAL_MS: Final = 60_000
METRIC_BUCKET_MS: Final = 5 * 60_000
METRIC_WINDOW_MS: Final = 24 * 60 * 60 * 1000
MAX_ETAG: Final = 1024
MAX_MEDIA_TYPE: Final = 200
MAX_ROUTE: Final = 2048
FALLBACK_STORE: Final = "fallback"

_ORIGIN: Final = "https://api.github.com"
_DIGEST: Final = re.compile(r"[0-9a-f]{64}")
_SCHEME: Final = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]*:")
_REPOSITORY: Final = re.compile(r"/repos/([^/]+)/([^/]+)/.*", re.DOTALL)
_SHAPES: Final[Mapping[str, tuple[tuple[re.Pattern[str], bool], ...]]] = {
    # shape of the path after /repos/<owner>/<name>, and whether it is a list, which is paged
    "apply": (
        (re.compile(r"/(?:issues|pulls)/[0-9]+/?"), False),
        (re.compile(r"/(?:issues/[0-9]+/comments|pulls/[0-9]+/comments|pulls/[0-9]+/reviews)/?"), True),
    ),
    "dashboard": ((re.compile(r"/actions/runs(?:/[0-9]+/jobs)?/?"), True),),
}
# WHATWG URL: the path and the query leave other characters as they are
_PATH_SAFE: Final = frozenset(
    b"!$%&'()*+,-./:;=@[]\\^_|~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
)


@dataclass(frozen=True, slots=True)
class CacheKey:
    """One cacheable read in normal form. `route` begins with `/repos/`; `page` is 1 for what is no list."""

    credential_pool: str
    route: str
    media_type: str
    page: int

    @property
    def text(self) -> str:
        """The key as clients send it: compact JSON `[1, pool, route, media type]`."""
        return json.dumps(
            [1, self.credential_pool, self.route, self.media_type], ensure_ascii=False, separators=(",", ":")
        )

    @property
    def store_name(self) -> str:
        """The name of the object that holds it: `owner/name` in lower case, one store a repository."""
        match = _REPOSITORY.fullmatch(self.route)
        return f"{match[1]}/{match[2]}".lower() if match else FALLBACK_STORE


@dataclass(frozen=True, slots=True)
class Skip:
    """The response is not stored, for `reason`; an ordinary outcome, no error."""

    reason: str


@dataclass(frozen=True, slots=True)
class Storable:
    """A response that may be stored. `digest` is the hex SHA-256 of the body's UTF-8."""

    etag: str
    body: str
    digest: str
    size: int


def _text(value: Any) -> str:
    """`String(value || "")` for what JSON can hold."""
    if isinstance(value, str):
        return value
    if value is True:
        return "true"
    if not value:
        return ""
    return json.dumps(value, separators=(",", ":"))


def _without_dot_segments(path: str) -> str:
    kept: list[str] = []
    segments = path.split("/")[1:]
    for index, segment in enumerate(segments):
        last = index == len(segments) - 1
        plain = segment.lower().replace("%2e", ".")
        if plain == "..":
            kept = kept[:-1]
        elif plain != ".":
            kept.append(segment)
            continue
        if last:
            kept.append("")
    return "/" + "/".join(kept)


def _percent(path: str) -> str:
    return "".join(
        chr(byte) if byte in _PATH_SAFE else f"%{byte:02X}" for byte in path.encode("utf-8", "surrogatepass")
    )


def _path_and_query(route: str) -> tuple[str, str] | None:
    """Path and query of `route` against the code host's API; None for another origin (WHATWG URL rules)."""
    text = re.sub("[\t\n\r]", "", route.strip("".join(map(chr, range(33)))))
    text = text.partition("#")[0]
    before, mark, query = text.partition("?")
    before = before.replace("\\", "/")
    if _SCHEME.match(before) or before.startswith("//"):
        if before.startswith("//"):
            before = "https:" + before
        scheme, _, rest = before.partition(":")
        host, slash, path = rest.lstrip("/").partition("/")
        if f"{scheme.lower()}://{host.lower().removesuffix(':443')}" != _ORIGIN:
            return None
        before = slash + path
    if not before.startswith("/"):
        before = "/" + before
    return _percent(_without_dot_segments(before)), query if mark else ""


def _utf16(text: str) -> bytes:
    return text.encode("utf-16-be", "surrogatepass")


def normal_route(route: str, surface: str) -> tuple[str, int] | None:
    """`route` in normal form with its page, or None when `surface` does not cache such a read.

    The query is sorted by name; lists get `per_page=30` and `page=1` where missing.
    """
    parts = _path_and_query(route)
    if parts is None:
        return None
    path, query = parts
    path = path.removeprefix("/api/v3")
    owner = _REPOSITORY.fullmatch(path)
    if owner is None:
        return None
    rest = path[len(f"/repos/{owner[1]}/{owner[2]}") :]
    paged = next((paged for shape, paged in _SHAPES[surface] if shape.fullmatch(rest)), None)
    if paged is None:
        return None
    try:
        fields = parse_qsl(query, keep_blank_values=True, max_num_fields=200)
    except ValueError:
        return None
    page: Any = 1
    if paged:
        names = {name for name, _ in fields}
        fields += [(name, value) for name, value in (("per_page", "30"), ("page", "1")) if name not in names]
        page = to_number(next(value for name, value in fields if name == "page"))
        if not isinstance(page, int) or not 1 <= page <= MAX_SAFE_INTEGER:
            return None
    fields.sort(key=lambda field: _utf16(field[0]))
    normal = path + ("?" + urlencode(fields, safe="*", errors="replace") if fields else "")
    return None if len(normal) > MAX_ROUTE else (normal, page)


def parse_key(members: Mapping[str, Any]) -> CacheKey | None:
    """The key that a request's members name; None when they name none or their `cache_key` is another one.

    Any `surface` but `dashboard` means `apply`.
    """
    pool, route = members.get("credential_pool"), members.get("route")
    if not isinstance(pool, str) or pool not in CREDENTIAL_POOLS or not isinstance(route, str) or not route:
        return None
    raw = _text(members.get("media_type")) or DEFAULT_MEDIA_TYPE
    media_type = trim(raw).lower() or DEFAULT_MEDIA_TYPE
    if len(media_type) > MAX_MEDIA_TYPE or "\r" in media_type or "\n" in media_type:
        return None
    normal = normal_route(route, "dashboard" if members.get("surface") == "dashboard" else "apply")
    if normal is None:
        return None
    key = CacheKey(pool, normal[0], media_type, normal[1])
    if "cache_key" in members and members["cache_key"] != key.text:
        return None
    return key


def parse_etag(value: Any) -> str | None:
    """The trimmed etag, or None: empty, over 1,024 characters, or with a line break."""
    etag = trim(_text(value))
    return etag if etag and len(etag) <= MAX_ETAG and "\r" not in etag and "\n" not in etag else None


def parse_digest(value: Any) -> str | None:
    """A digest of 64 lower-case hex digits, or None."""
    return value if isinstance(value, str) and _DIGEST.fullmatch(value) else None


def storable(members: Mapping[str, Any], max_body_bytes: int) -> Storable | Skip:
    """Whether the response in `members` may be stored; checks in the order of spec state-plane-protocol 7.

    `body_bytes` counts only where `body` is absent: a client reports an oversize without sending it.
    """
    if "body" not in members:
        size = to_number(members.get("body_bytes"))
        if size == size and size > max_body_bytes:
            return Skip("body_size_bound")
    etag = parse_etag(members.get("etag"))
    if etag is None:
        return Skip("missing_or_invalid_etag")
    body = members.get("body")
    if not isinstance(body, str):
        return Skip("invalid_json_body")
    data = body.encode("utf-8", "replace")
    if len(data) > max_body_bytes:
        return Skip("body_size_bound")
    try:
        value = parse(data)
    except NotJson:
        return Skip("invalid_json_body")
    if not isinstance(value, dict | list):
        return Skip("invalid_json_body")
    return Storable(etag, body, hashlib.sha256(data).hexdigest(), len(data))

"""Absolute HTTPS URLs as browsers read them: enough of the WHATWG URL standard for run and projection URLs.

Run URLs are judged on the parser's spelling (spec action-ledger 6.5), projection bases on origin and path (15).
"""

import re
from dataclasses import dataclass

from .hosts import special_host
from .refusals import LedgerRefusal
from .text import bounded

_HTTPS = re.compile(r"https:", re.IGNORECASE | re.ASCII)
_DOT, _DOTS = {".", "%2e"}, {"..", ".%2e", "%2e.", "%2e%2e"}
_PATH_ESCAPE = re.compile(r"[\x00-\x20\x7f-\U0010ffff\"<>`{}]")
_RUN_PATH = re.compile(r"/[A-Za-z0-9_.\-]+/[A-Za-z0-9_.\-]+/actions/runs/[0-9]+")


@dataclass(frozen=True, slots=True)
class HttpsUrl:
    """A parsed `https:` URL. `port` is None for the default port; `path` keeps its percent-encoding."""

    username: str
    password: str
    host: str
    port: int | None
    path: str
    query: str | None
    fragment: str | None

    @property
    def origin(self) -> str:
        """`https://host[:port]`."""
        return f"https://{self.host}" + ("" if self.port is None else f":{self.port}")


def _path(text: str) -> str:
    segments: list[str] = []
    pieces = text.replace("\\", "/").split("/")[1:]
    for index, piece in enumerate(pieces):
        last = index == len(pieces) - 1
        if piece.lower() in _DOTS:
            if segments:
                segments.pop()
            if last:
                segments.append("")
        elif piece.lower() in _DOT:
            if last:
                segments.append("")
        else:
            segments.append(
                _PATH_ESCAPE.sub(
                    lambda found: "".join(f"%{byte:02X}" for byte in found[0].encode("utf-8", "replace")), piece
                )
            )
    return "/" + "/".join(segments)


def parse_https(text: str) -> HttpsUrl | None:
    """The URL that a browser makes of `text`, or None when it is not an absolute `https:` URL."""
    text = re.sub("[\t\n\r]", "", text.strip("".join(map(chr, range(0x21)))))
    scheme = _HTTPS.match(text)
    if scheme is None:
        return None
    rest, hash_sign, after_hash = text[scheme.end() :].partition("#")
    rest, question, after_question = rest.partition("?")
    rest = rest.lstrip("/\\")
    cut = min((at for at in (rest.find("/"), rest.find("\\")) if at >= 0), default=len(rest))
    authority, path = rest[:cut], rest[cut:]
    user, _, place = authority.rpartition("@")
    username, _, password = user.partition(":")
    host_text, colon, port_text = place, "", ""
    bracket = place.rfind("]")
    if ":" in place[bracket + 1 :]:
        colon_at = place.index(":", bracket + 1)
        host_text, colon, port_text = place[:colon_at], ":", place[colon_at + 1 :]
    host = special_host(host_text)
    if host is None or (colon and port_text and not re.fullmatch("[0-9]+", port_text)):
        return None
    port = int(port_text[-400:]) if port_text else 443
    if port > 65535:
        return None
    return HttpsUrl(
        username,
        password,
        host,
        None if port == 443 else port,
        _path(path or "/"),
        after_question if question else None,
        after_hash if hash_sign else None,
    )


def run_url(value: object, where: str = "run_url") -> str:
    """A public workflow run URL in the parser's spelling. Raises: type, required, control, run-url."""
    text = bounded(value, None, where)
    url = None if "?" in text or "#" in text else parse_https(text)
    if (
        url is None
        or url.username
        or url.password
        or url.port is not None
        or url.host != "github.com"
        or not _RUN_PATH.fullmatch(url.path)
    ):
        raise LedgerRefusal("run-url", "must be https://github.com/owner/name/actions/runs/number", where)
    return f"https://github.com{url.path}"

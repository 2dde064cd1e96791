"""Normal form of a request path: the dot segments of the WHATWG URL standard, removed before any percent-decoding.

Routing compares the result byte for byte, so an encoded letter is another path (`auth/not-found`: encoded letter)
while encoded dots are dots (`auth/dot-segments-resolve`).
"""

import re
from typing import Final

_DOT: Final = frozenset({".", "%2e"})
_DOTS: Final = frozenset({"..", ".%2e", "%2e.", "%2e%2e"})
_MAY_CHANGE: Final = re.compile(r"[\\]|/(?:\.|%2[eE])")


def normalise(path: str) -> str:
    """`path` (as received, without query) with `\\` read as `/` and its dot segments resolved.

    Always begins with `/`. A path that needs no change is returned as it is.
    """
    if path.startswith("/") and not _MAY_CHANGE.search(path):
        return path
    segments = path.replace("\\", "/").removeprefix("/").split("/")
    result: list[str] = []
    last = len(segments) - 1
    for index, segment in enumerate(segments):
        lowered = segment.lower()
        if lowered in _DOTS:
            if result:
                result.pop()
            if index == last:
                result.append("")
        elif lowered in _DOT:
            if index == last:
                result.append("")
        else:
            result.append(segment)
    return "/" + "/".join(result)

"""Which file answers a path, and who answers first: the Worker or its files (platform: static assets, routing).

Pure: whether a file exists is asked of a function that is handed in. Paths are decoded and begin with a slash.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, Literal
from urllib.parse import quote, unquote

from ..values import BindingError

Exists = Callable[[str], bool]

HTML_HANDLING: Final = ("auto-trailing-slash", "force-trailing-slash", "drop-trailing-slash", "none")
NOT_FOUND_HANDLING: Final = ("none", "404-page", "single-page-application")
WELL_KNOWN: Final = ".well-known"
CONTROL_FILES: Final = frozenset({"/.assetsignore", "/_headers", "/_redirects"})


@dataclass(frozen=True, slots=True)
class Found:
    """The file that answers, and with which status."""

    path: str
    status: int = 200


@dataclass(frozen=True, slots=True)
class Moved:
    """The file has another address: 307 to it."""

    path: str

    @property
    def location(self) -> str:
        """The path as a field of an answer has it. It begins with one slash, so it never leaves the host."""
        return quote(self.path, safe="/-._~!$&'()*+,;=:@")


Intent = Found | Moved | None


def decoded_path(raw: str) -> str | None:
    """The path of a URL, percent-decoded; None when it can name no file that is served.

    No segment may be empty (but the last), `.`, `..` or a name with a leading dot other than `.well-known`, and no
    character may be NUL or a backslash.
    """
    try:
        path = unquote(raw, errors="strict")
    except UnicodeDecodeError:
        return None
    if not path.startswith("/") or "\0" in path or "\\" in path or path in CONTROL_FILES:
        return None
    *folders, last = path[1:].split("/")
    if any(not name or _hidden(name) for name in folders) or _hidden(last):
        return None
    return path


def _hidden(name: str) -> bool:
    return name.startswith(".") and name != WELL_KNOWN


def resolve(path: str, exists: Exists, handling: str) -> Intent:
    """The file for `path` under an `html_handling`, the address that it moved to, or None when there is none."""
    if handling == "none":
        return Found(path) if exists(path) else None
    found = _HANDLERS[handling](path, exists)
    if isinstance(found, Moved):
        target = _HANDLERS[handling](found.path, exists)
        # A move must end: at a file, and at no file of another meaning.
        return found if isinstance(target, Found) and not exists(found.path) else None
    return found


def _first(exists: Exists, *choices: tuple[str, Intent]) -> Intent:
    """The intent of the first file that exists."""
    return next((intent for file, intent in choices if exists(file)), None)


def _auto(path: str, exists: Exists) -> Intent:
    if path.endswith("/index"):
        folder = path.removesuffix("index")
        return _first(
            exists,
            (path, Found(path)),
            (f"{path}.html", Moved(folder)),
            (f"{folder[:-1]}.html", Moved(folder[:-1])),
        )
    if path.endswith("/index.html"):
        folder = path.removesuffix("index.html")
        return _first(exists, (path, Moved(folder)), (f"{folder[:-1]}.html", Moved(folder[:-1])))
    if path.endswith("/"):
        index = f"{path}index.html"
        return _first(exists, (index, Found(index)), (f"{path[:-1]}.html", Moved(path[:-1])))
    if path.endswith(".html"):
        bare = path.removesuffix(".html")
        # With a file or folder of the bare name too, the page keeps its own address.
        if exists(path):
            return Found(path) if exists(bare) or bare.endswith("/") else Moved(bare)
        return _first(exists, (f"{bare}/index.html", Moved(f"{bare}/")))
    return _first(
        exists,
        (path, Found(path)),
        (f"{path}.html", Found(f"{path}.html")),
        (f"{path}/index.html", Moved(f"{path}/")),
    )


def _force(path: str, exists: Exists) -> Intent:
    if path.endswith("/index"):
        folder = path.removesuffix("index")
        return _first(
            exists,
            (path, Found(path)),
            (f"{path}.html", Moved(folder)),
            (f"{folder[:-1]}.html", Moved(folder)),
        )
    if path.endswith("/index.html"):
        folder = path.removesuffix("index.html")
        return _first(exists, (path, Moved(folder)), (f"{folder[:-1]}.html", Moved(folder)))
    if path.endswith("/"):
        index, page = f"{path}index.html", f"{path[:-1]}.html"
        return _first(exists, (index, Found(index)), (page, Found(page)))
    if path.endswith(".html"):
        bare = path.removesuffix(".html")
        if exists(path):
            taken = exists(f"{bare}/index.html") or bare.endswith("/")
            return Found(path) if taken else Moved(f"{bare}/")
        return _first(exists, (f"{bare}/index.html", Moved(f"{bare}/")))
    return _first(
        exists,
        (path, Found(path)),
        (f"{path}.html", Moved(f"{path}/")),
        (f"{path}/index.html", Moved(f"{path}/")),
    )


def _drop(path: str, exists: Exists) -> Intent:
    if path in {"/index", "/index.html"}:
        return _first(exists, *([(path, Found(path))] if path == "/index" else []), ("/index.html", Moved("/")))
    if path.endswith("/index"):
        bare = path.removesuffix("/index")
        return _first(exists, (path, Found(path)), (f"{bare}.html", Moved(bare)), (f"{path}.html", Moved(bare)))
    if path.endswith("/index.html"):
        bare = path.removesuffix("/index.html")
        if exists(path):
            return Found(path) if exists(bare) or exists(f"{bare}.html") else Moved(bare)
        return _first(exists, (f"{bare}.html", Moved(bare)))
    if path == "/":
        return _first(exists, ("/index.html", Found("/index.html")))
    if path.endswith("/"):
        bare = path[:-1]
        return _first(exists, (f"{bare}.html", Moved(bare)), (f"{path}index.html", Moved(bare)))
    if path.endswith(".html"):
        bare = path.removesuffix(".html")
        if exists(path):
            return Found(path) if exists(bare) or bare.endswith("/") else Moved(bare)
        return _first(exists, (f"{bare}/index.html", Moved(bare)))
    return _first(
        exists,
        (path, Found(path)),
        (f"{path}.html", Found(f"{path}.html")),
        (f"{path}/index.html", Found(f"{path}/index.html")),
    )


_HANDLERS: Final = {"auto-trailing-slash": _auto, "force-trailing-slash": _force, "drop-trailing-slash": _drop}


def missing(path: str | None, exists: Exists, handling: str) -> Found | None:
    """What answers a path that no file answers, under a `not_found_handling`; None for an empty 404."""
    if handling == "single-page-application":
        return Found("/index.html") if exists("/index.html") else None
    if handling == "404-page":
        folder = path or "/"
        while folder:
            folder = folder[: folder.rindex("/")]
            if exists(f"{folder}/404.html"):
                return Found(f"{folder}/404.html", 404)
    return None


First = Literal["worker", "assets"]


def first(patterns: bool | Sequence[str], path: str) -> First | None:
    """Who `run_worker_first` puts first for a path: None where it does not say, so that a file wins if there is one.

    In a list a pattern with `!` in front wins over one without; `*` stands for any text.
    """
    if isinstance(patterns, bool):
        return "worker" if patterns else None
    if any(_pattern(pattern[1:]).match(path) for pattern in patterns if pattern.startswith("!")):
        return "assets"
    if any(_pattern(pattern).match(path) for pattern in patterns if not pattern.startswith("!")):
        return "worker"
    return None


@lru_cache(maxsize=256)
def _pattern(text: str) -> re.Pattern[str]:
    return re.compile(".*".join(map(re.escape, text.split("*"))) + r"\Z", re.DOTALL)


def check(patterns: bool | Sequence[str], html: str, not_found: str) -> None:
    """Raises BindingError for a value that `assets` does not know, and names what it does."""
    for key, value, known in (
        ("html_handling", html, HTML_HANDLING),
        ("not_found_handling", not_found, NOT_FOUND_HANDLING),
    ):
        if value not in known:
            raise BindingError(f"assets: {key} is {value!r}, but must be one of {', '.join(known)}")
    if not isinstance(patterns, bool):
        for pattern in patterns:
            if not pattern.removeprefix("!").startswith("/"):
                raise BindingError(
                    f"assets: run_worker_first has the pattern {pattern!r}; a pattern begins with / or !/"
                )

"""`.assetsignore`: files of the folder that are not served. The syntax is that of `.gitignore`.

What is understood: comments, `!`, a leading or inner slash that ties a pattern to the root, a trailing slash for
folders, `*`, `?`, `[…]` and `**`.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class _Rule:
    pattern: re.Pattern[str]
    ignores: bool
    folders_only: bool


class Ignored:
    """Says of a path (`/a/b.txt`) whether the last rule that speaks of it, or of a folder above it, ignores it."""

    def __init__(self, lines: Iterable[str] = ()) -> None:
        self._rules = [rule for line in lines if (rule := _rule(line)) is not None]

    def __call__(self, path: str) -> bool:
        if not self._rules:
            return False
        parts = path.strip("/").split("/")
        ends = range(1, len(parts) + 1)
        return any(self._says("/".join(parts[:end]), folder=end < len(parts)) for end in ends)

    def _says(self, path: str, *, folder: bool) -> bool:
        said = False
        for rule in self._rules:
            if (folder or not rule.folders_only) and rule.pattern.fullmatch(path):
                said = rule.ignores
        return said


def _rule(line: str) -> _Rule | None:
    text = line.rstrip("\r\n")
    text = re.sub(r"(?<!\\) +\Z", "", text)
    if not text or text.startswith("#"):
        return None
    ignores = not text.startswith("!")
    if not ignores:
        text = text[1:]
    folders_only = text.endswith("/")
    text = text.rstrip("/")
    if not text:
        return None
    tied = "/" in text
    text = text.lstrip("/")
    expression = _translate(text)
    if not tied:
        expression = f"(?:.*/)?{expression}"
    try:
        return _Rule(re.compile(expression, re.DOTALL), ignores, folders_only)
    except re.error:
        return _Rule(re.compile(re.escape(text)), ignores, folders_only)


_TOKEN = re.compile(
    r"(?P<deep>(?:\A|(?<=/))\*\*/)|(?P<rest>/\*\*\Z)|(?P<set>\[[!^]?\]?[^\]]*\])|\\(?P<plain>.)|(?P<other>.)"
)


def _translate(text: str) -> str:
    out = []
    for token in _TOKEN.finditer(text):
        if token["deep"]:
            out.append("(?:.*/)?")
        elif token["rest"]:
            out.append("/.*")
        elif token["set"]:
            inner = token["set"][1:-1].replace("\\", "\\\\")
            negated = inner[:1] in {"!", "^"}
            inner = (inner[1:] if negated else inner).replace("[", r"\[").replace("]", r"\]").replace("^", r"\^")
            out.append(f"(?!/)[{'^' if negated else ''}{inner}]")
        elif token["plain"]:
            out.append(re.escape(token["plain"]))
        else:
            out.append({"*": "[^/]*", "?": "[^/]"}.get(token["other"], re.escape(token["other"])))
    return "".join(out)

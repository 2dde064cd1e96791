"""The CSS selectors that `HTMLRewriter.on` takes: what can be told while a document passes.

`*`, names, `#id`, `.class`, `[attribute]` with all operators and the flags `i` and `s`, `:not(…)`, `:nth-child`,
`:nth-of-type`, `:first-child`, `:first-of-type`, descendants, `>`, and lists with commas.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final

from .errors import JsTypeError


@dataclass(slots=True)
class Node:
    """An element that is open, or just begins, as selectors see it; places count from 1."""

    name: str
    attributes: dict[str, str]
    child: int = 1
    of_type: int = 1
    children: int = 0
    types: dict[str, int] = field(default_factory=dict)


Test = Callable[[Node], bool]
# The compounds from the last to the first, each with the combinator before it (" ", ">" or "").
Complex = tuple[tuple[Test, str], ...]

_IDENT: Final = r"(?:[-_a-zA-Z\u0080-\U0010ffff]|\\.)(?:[-_a-zA-Z0-9\u0080-\U0010ffff]|\\.)*"
_NAME: Final = re.compile(rf"\*|{_IDENT}")
_SIMPLE: Final = re.compile(rf"([#.])({_IDENT}|[0-9][-_a-zA-Z0-9]*)")
_ATTRIBUTE: Final = re.compile(
    rf"\[\s*({_IDENT})\s*(?:([~|^$*]?=)\s*(?:\"((?:[^\"\\]|\\.)*)\"|'((?:[^'\\]|\\.)*)'|({_IDENT}|[0-9]+))\s*([isIS])?\s*)?\]"
)
_PSEUDO: Final = re.compile(r":([a-zA-Z-]+)")
_NTH: Final = re.compile(r"\s*(?:([+-]?\d*)n\s*(?:([+-])\s*(\d+))?|([+-]?\d+)|(odd|even))\s*\Z", re.IGNORECASE)
_COMBINATOR: Final = re.compile(r"\s*>\s*|\s+")
# Attributes of HTML whose values compare without regard to case (Selectors 4, HTML Standard 4.16.2): the common ones.
_CASELESS: Final = frozenset(
    {"type", "rel", "media", "method", "enctype", "dir", "lang", "http-equiv", "charset", "align", "checked",
     "disabled", "multiple", "selected", "readonly", "shape", "scope", "target"}
)  # fmt: skip


class Selector:
    """A parsed selector. Raises TypeError for text that is none, or for a part that cannot be told in passing."""

    def __init__(self, text: str) -> None:
        self.alternatives = _Reader(text).list()


@dataclass(frozen=True, slots=True, eq=False)
class _Step:
    """What an element must be next: `compounds[place]` of an alternative of the selector with that number."""

    selector: int
    test: Test
    combinator: str  # before the step behind it
    following: _Step | None


@dataclass(frozen=True, slots=True)
class Place:
    """What holds at an open element: steps that anything inside it may take, and those for its children alone."""

    inside: tuple[_Step, ...] = ()
    children: tuple[_Step, ...] = ()


class Matcher:
    """Follows all selectors at once from the outermost element inwards: an element costs the same at any depth."""

    def __init__(self, selectors: Iterable[Selector]) -> None:
        self._first = tuple(
            first
            for number, selector in enumerate(selectors)
            for steps in selector.alternatives
            if (first := _chained(number, steps)) is not None
        )

    def enter(self, node: Node, around: Place) -> tuple[Place, list[int]]:
        """What holds at `node`, which stands in `around`, and the numbers of the selectors that hold for it."""
        found: dict[int, None] = {}
        inside, children = list(around.inside), []
        for step in (*self._first, *around.inside, *around.children):
            if not step.test(node):
                continue
            if step.following is None:
                found[step.selector] = None
            elif step.combinator == ">":
                children.append(step.following)
            elif step.following not in inside:
                inside.append(step.following)
        unchanged = len(inside) == len(around.inside)
        return Place(around.inside if unchanged else tuple(inside), tuple(children)), sorted(found)


def _chained(number: int, steps: Complex) -> _Step | None:
    following: _Step | None = None
    combinator = ""
    for test, before in steps:  # from the last to the first
        following = _Step(number, test, combinator, following)
        combinator = before
    return following


class _Reader:
    def __init__(self, text: str) -> None:
        self.text = text
        self.place = 0

    def fail(self, what: str) -> JsTypeError:
        return JsTypeError(f"Parser error: {what} in the selector {self.text!r} at {self.place}.")

    def list(self) -> list[Complex]:
        found = []
        while True:
            found.append(self._complex())
            if self.place >= len(self.text):
                return found
            self.place += 1  # the comma

    def _complex(self) -> Complex:
        self._blanks()
        compounds: list[tuple[Test, str]] = [(self._compound(), "")]
        while self.place < len(self.text) and self.text[self.place :].strip():
            combinator = _COMBINATOR.match(self.text, self.place)
            if combinator is None:
                if self.text[self.place] == ",":
                    break
                raise self.fail(f"unexpected {self.text[self.place]!r}")
            self.place = combinator.end()
            if self.text[self.place : self.place + 1] == ",":
                break
            compounds.append((self._compound(), combinator[0].strip() or " "))
        if not self.text[self.place :].strip():
            self.place = len(self.text)
        tests = [test for test, _ in compounds]
        before = [combinator for _, combinator in compounds]
        return tuple(zip(reversed(tests), reversed(before), strict=True))

    def _blanks(self) -> None:
        while self.text[self.place : self.place + 1].isspace():
            self.place += 1

    def _compound(self) -> Test:
        tests: list[Test] = []
        if (name := _NAME.match(self.text, self.place)) is not None:
            self.place = name.end()
            if name[0] != "*":
                tests.append(_named(_unescaped(name[0]).lower()))
            else:
                tests.append(lambda node: True)
        while (test := self._simple()) is not None:
            tests.append(test)
        if not tests:
            raise self.fail("a selector is missing")
        return lambda node: all(test(node) for test in tests)

    def _simple(self) -> Test | None:
        if (simple := _SIMPLE.match(self.text, self.place)) is not None:
            self.place = simple.end()
            value = _unescaped(simple[2])
            return _has_class(value) if simple[1] == "." else _has_id(value)
        if (attribute := _ATTRIBUTE.match(self.text, self.place)) is not None:
            self.place = attribute.end()
            return _attribute(attribute)
        if (pseudo := _PSEUDO.match(self.text, self.place)) is not None:
            self.place = pseudo.end()
            return self._pseudo(pseudo[1].lower())
        if self.text[self.place : self.place + 1] in {"#", ".", "[", ":", "+", "~"}:
            raise self.fail(f"unexpected {self.text[self.place]!r}")
        return None

    def _pseudo(self, name: str) -> Test:
        if name == "first-child":
            return lambda node: node.child == 1
        if name == "first-of-type":
            return lambda node: node.of_type == 1
        if name in {"not", "nth-child", "nth-of-type"}:
            inner = self._argument()
            if name == "not":
                negated = _Reader(inner).list()
                if any(len(alternative) > 1 for alternative in negated):
                    raise self.fail("a combinator in :not()")
                return lambda node: not any(alternative[0][0](node) for alternative in negated)
            step, offset = self._nth(inner)
            if name == "nth-child":
                return lambda node: _is_nth(node.child, step, offset)
            return lambda node: _is_nth(node.of_type, step, offset)
        raise self.fail(f"the pseudo-class :{name}, which cannot be told while a document passes,")

    def _argument(self) -> str:
        if self.text[self.place : self.place + 1] != "(":
            raise self.fail("an argument is missing")
        depth, quote = 0, ""
        for place in range(self.place, len(self.text)):
            letter = self.text[place]
            if quote:
                quote = "" if letter == quote else quote
            elif letter in "\"'":
                quote = letter
            else:
                depth += {"(": 1, ")": -1}.get(letter, 0)
                if not depth:
                    inner = self.text[self.place + 1 : place]
                    self.place = place + 1
                    return inner
        raise self.fail("a bracket is not closed")

    def _nth(self, text: str) -> tuple[int, int]:
        found = _NTH.match(text)
        if found is None:
            raise self.fail(f"{text!r} is no place")
        if found[5]:
            return 2, 1 if found[5].lower() == "odd" else 0
        if found[4]:
            return 0, int(found[4])
        step = int(found[1] + "1") if found[1] in {"", "+", "-"} else int(found[1])
        return step, int((found[2] or "+") + (found[3] or "0"))


def _is_nth(place: int, step: int, offset: int) -> bool:
    if step == 0:
        return place == offset
    return (place - offset) % step == 0 and (place - offset) // step >= 0


def _unescaped(text: str) -> str:
    return re.sub(r"\\(.)", r"\1", text)


def _named(name: str) -> Test:
    return lambda node: node.name == name


def _has_class(name: str) -> Test:
    return lambda node: name in node.attributes.get("class", "").split()


def _has_id(value: str) -> Test:
    return lambda node: node.attributes.get("id") == value


def _attribute(found: re.Match[str]) -> Test:
    name, operator = _unescaped(found[1]).lower(), found[2]
    if operator is None:
        return lambda node: name in node.attributes
    wanted = _unescaped(next(value for value in (found[3], found[4], found[5]) if value is not None))
    flag = (found[6] or "").lower()
    caseless = flag == "i" or (flag != "s" and name in _CASELESS)
    fold: Callable[[str], str] = str.lower if caseless else str
    wanted = fold(wanted)
    compare = _OPERATORS[operator]
    return lambda node: name in node.attributes and compare(fold(node.attributes[name]), wanted)


_OPERATORS: Final[dict[str, Callable[[str, str], bool]]] = {
    "=": lambda have, wanted: have == wanted,
    "~=": lambda have, wanted: wanted != "" and wanted in have.split(),
    "|=": lambda have, wanted: have == wanted or have.startswith(wanted + "-"),
    "^=": lambda have, wanted: wanted != "" and have.startswith(wanted),
    "$=": lambda have, wanted: wanted != "" and have.endswith(wanted),
    "*=": lambda have, wanted: wanted != "" and wanted in have,
}

"""The part of Structured Field Values (RFC 8941) that signatures use: dictionaries of inner lists and of byte
sequences.

Strict, as RFC 8941 section 4.2 asks: any deviation fails the whole field.
"""

import base64
import binascii
import re
from dataclasses import dataclass
from typing import Final, TypeAlias

BareItem: TypeAlias = int | str | bool | bytes | float
Parameters: TypeAlias = dict[str, BareItem]

_KEY: Final = re.compile(r"[a-z*][a-z0-9_\-.*]*", re.ASCII)
_NUMBER: Final = re.compile(r"-?(?:[0-9]{1,12}\.[0-9]{1,3}(?![0-9.])|[0-9]{1,15}(?![0-9.]))", re.ASCII)
_STRING: Final = re.compile(r'"((?:[ !#-\[\]-~]|\\["\\])*)"', re.ASCII)
_TOKEN: Final = re.compile(r"[A-Za-z*][!#$%&'*+\-.^_`|~0-9A-Za-z:/]*", re.ASCII)
_BYTES: Final = re.compile(r":([A-Za-z0-9+/=]*):", re.ASCII)
_BOOLEAN: Final = re.compile(r"\?([01])", re.ASCII)
_ESCAPED: Final = re.compile(r'\\(["\\])')
_NUMBER_STARTS: Final = "-0123456789"
_OWS: Final = re.compile(r"[ \t]*", re.ASCII)
_SP: Final = re.compile(r" *", re.ASCII)

MAX_MEMBERS: Final = 64


class Token(str):
    """A token: text that is written without quotes."""

    __slots__ = ()


class Malformed(ValueError):
    """The field is not the structured field that it should be; the text says where and what was expected."""


@dataclass(frozen=True, slots=True)
class Item:
    """A bare item and its parameters, in order."""

    value: BareItem
    parameters: Parameters


@dataclass(frozen=True, slots=True)
class InnerList:
    """Items in order, with the parameters of the list itself."""

    items: tuple[Item, ...]
    parameters: Parameters


Member: TypeAlias = Item | InnerList


class _Reader:
    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0

    def fail(self, expected: str) -> Malformed:
        return Malformed(f"at character {self.at}: expected {expected}")

    def take(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        found = pattern.match(self.text, self.at)
        if found is not None:
            self.at = found.end()
        return found

    def skip(self, literal: str) -> bool:
        if self.text.startswith(literal, self.at):
            self.at += len(literal)
            return True
        return False

    def key(self) -> str:
        found = self.take(_KEY)
        if found is None:
            raise self.fail("a key")
        return found[0]

    def bare_item(self) -> BareItem:
        first = self.text[self.at : self.at + 1]
        if first == '"':
            if found := self.take(_STRING):
                return _ESCAPED.sub(r"\1", found[1]) if "\\" in found[1] else found[1]
        elif first == ":":
            if found := self.take(_BYTES):
                return decode_bytes(found[1])
        elif first == "?":
            if found := self.take(_BOOLEAN):
                return found[1] == "1"
        elif first in _NUMBER_STARTS and first:
            if found := self.take(_NUMBER):
                return float(found[0]) if "." in found[0] else int(found[0])
        elif found := self.take(_TOKEN):
            return Token(found[0])
        raise self.fail("a string, token, number, boolean or byte sequence")

    def parameters(self) -> Parameters:
        result: Parameters = {}
        while self.text.startswith(";", self.at):
            self.at += 1
            self.take(_SP)
            key = self.key()
            value: BareItem = self.bare_item() if self.skip("=") else True
            if key in result:
                raise Malformed(f"at character {self.at}: parameter {key!r} occurs twice")
            result[key] = value
            if len(result) > MAX_MEMBERS:
                raise self.fail(f"at most {MAX_MEMBERS} parameters")
        return result

    def inner_list(self) -> InnerList:
        items: list[Item] = []
        while True:
            spaces = self.take(_SP)
            if self.skip(")"):
                return InnerList(tuple(items), self.parameters())
            if items and not (spaces and spaces[0]):
                raise self.fail("a space or `)`")
            items.append(Item(self.bare_item(), self.parameters()))
            if len(items) > MAX_MEMBERS:
                raise self.fail(f"at most {MAX_MEMBERS} items")

    def member(self) -> Member:
        if self.skip("="):
            if self.skip("("):
                return self.inner_list()
            return Item(self.bare_item(), self.parameters())
        return Item(True, self.parameters())


def decode_bytes(text: str) -> bytes:
    """The bytes of a byte sequence's base64 `text`. Raises Malformed."""
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error as error:
        raise Malformed(f"a byte sequence is not base64: {error}") from None


def parse_dictionary(text: str) -> dict[str, Member]:
    """The dictionary in `text` (field lines already joined by commas). A repeated key's last value counts.

    Raises Malformed.
    """
    reader = _Reader(text.strip(" "))
    result: dict[str, Member] = {}
    if not reader.text:
        return result
    while True:
        key = reader.key()
        result.pop(key, None)
        result[key] = reader.member()
        if len(result) > MAX_MEMBERS:
            raise reader.fail(f"at most {MAX_MEMBERS} members")
        reader.take(_OWS)
        if reader.at == len(reader.text):
            return result
        if not reader.skip(","):
            raise reader.fail("`,`")
        reader.take(_OWS)
        if reader.at == len(reader.text):
            raise reader.fail("a member after `,`")


def serialize_bare(value: BareItem) -> str:
    """`value` in its canonical form. Raises Malformed for what has none."""
    if isinstance(value, str):
        return _serialize_text(value)
    if isinstance(value, bool):
        return "?1" if value else "?0"
    if isinstance(value, int):
        if abs(value) > 999_999_999_999_999:
            raise Malformed("an integer has at most 15 digits")
        return str(value)
    if isinstance(value, float):
        text = f"{value:.3f}".rstrip("0")
        return text + "0" if text.endswith(".") else text
    return f":{base64.b64encode(value).decode()}:"


def _serialize_text(value: str) -> str:
    if isinstance(value, Token):
        return str(value)
    if not value.isascii() or not value.isprintable():
        raise Malformed("a string holds printable ASCII only")
    if "\\" in value or '"' in value:
        value = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{value}"'


def serialize_parameters(parameters: Parameters) -> str:
    """`;key=value` for each; a true boolean is its key alone."""
    return "".join(
        f";{key}" if value is True else f";{key}={serialize_bare(value)}" for key, value in parameters.items()
    )


def serialize_inner_list(members: InnerList) -> str:
    """The list in its canonical form."""
    inner = " ".join(serialize_bare(item.value) + serialize_parameters(item.parameters) for item in members.items)
    return f"({inner}){serialize_parameters(members.parameters)}"

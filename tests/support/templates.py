"""Values of recorded sequences: templates that build requests, masks that match answers.

The format is described beside the vectors ("State plane request sequences").
"""

import base64
import binascii
import hashlib
import json
import re
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from moorage.protocols.javascript import iso_time

TIME_SLACK_MS = 15_000
_ISO = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")
_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_VARIABLE = re.compile(r"@\{([A-Za-z0-9_]+)\}")
_MASKS: dict[str, tuple[str, ...]] = {
    "$capture": ("of",),
    "$any": (),
    "$time": ("from_now_ms", "slack_ms"),
    "$uuid": (),
    "$regex": (),
    "$one_of": (),
}
_KINDS: dict[str, type | tuple[type, ...]] = {
    "string": str,
    "integer": int,
    "number": (int, float),
    "boolean": bool,
    "array": list,
    "object": dict,
}


class Mismatch(Exception):
    """An answer is not what was recorded; the text says where."""


def short(value: Any) -> str:
    """`value` as JSON, cut to one readable line."""
    text = json.dumps(value, ensure_ascii=False, default=lambda other: f"<{len(other)} bytes>")
    return text if len(text) <= 240 else text[:237] + "..."


def parse_iso(text: str) -> int:
    """Milliseconds since 1970 of a recorded time."""
    moment = datetime.strptime(text, "%Y-%m-%dT%H:%M:%S.%fZ").replace(tzinfo=UTC)
    return round(moment.timestamp() * 1000)


def as_bytes(value: Any) -> bytes:
    """The bytes that a template value stands for: its own, or its text in UTF-8."""
    return bytes(value) if isinstance(value, bytes | bytearray) else str(value).encode()


class Scope:
    """The variables and buffers of one sequence. `now`: milliseconds of the clock that the server runs on."""

    def __init__(self, now: Callable[[], int], variables: dict[str, Any]) -> None:
        self.now = now
        self.variables = variables
        self.buffers: dict[str, bytearray] = {}

    def variable(self, name: str) -> Any:
        """The value of a variable. Raises Mismatch when it was never captured."""
        if name not in self.variables:
            raise Mismatch(f"variable {name!r} was never captured")
        return self.variables[name]

    def text(self, value: str) -> str:
        """`value` with `@{name}` replaced."""
        return _VARIABLE.sub(lambda found: str(self.variable(found[1])), value)

    def build(self, value: Any) -> Any:
        """The plain value of a template."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, list):
            return [self.build(entry) for entry in value]
        if not isinstance(value, dict):
            return value
        if len(value) == 1:
            ((key, argument),) = value.items()
            if key in self._BUILDERS:
                return self._BUILDERS[key](self, argument)
        return {self.text(key): self.build(entry) for key, entry in value.items()}

    def _range(self, argument: dict[str, Any]) -> list[Any]:
        made = []
        for index in range(argument["from"], argument["to"] + 1):
            self.variables["i"] = index
            made.append(self.build(argument["each"]))
        return made

    _BUILDERS: dict[str, Callable[["Scope", Any], Any]] = {
        "$var": lambda self, name: self.variable(name),
        "$sum": lambda self, entries: sum(self.build(entry) for entry in entries),
        "$repeat": lambda self, pair: self.build(pair[0]) * int(self.build(pair[1])),
        "$concat": lambda self, entries: "".join(str(self.build(entry)) for entry in entries),
        "$hex": lambda self, digits: binascii.unhexlify(digits),
        "$base64": lambda self, inner: base64.b64encode(as_bytes(self.build(inner))).decode(),
        "$sha256": lambda self, inner: hashlib.sha256(as_bytes(self.build(inner))).hexdigest(),
        "$iso_from_now_ms": lambda self, offset: iso_time(self.now() + int(offset)),
        "$range": lambda self, argument: self._range(argument),
    }

    def match(self, want: Any, got: Any, path: str = "$", subset: bool = False) -> None:
        """Raises Mismatch at the first place where `got` is not what `want` allows; keeps what `want` captures."""
        if isinstance(want, dict):
            self._match_object(want, got, path, subset)
        elif isinstance(want, list):
            self._match_array(want, got, path, subset)
        else:
            wanted = self.text(want) if isinstance(want, str) else want
            if isinstance(wanted, bool) != isinstance(got, bool) or wanted != got:
                raise Mismatch(f"{path}: want {short(wanted)}, got {short(got)}")

    def _match_array(self, want: list[Any], got: Any, path: str, subset: bool) -> None:
        if not isinstance(got, list):
            raise Mismatch(f"{path}: want an array, got {short(got)}")
        for index, entry in enumerate(want):
            if index >= len(got):
                raise Mismatch(f"{path}[{index}]: missing, want {short(entry)}")
            self.match(entry, got[index], f"{path}[{index}]", subset)
        if len(got) > len(want):
            raise Mismatch(f"{path}[{len(want)}]: not expected, got {short(got[len(want)])}")

    def _match_object(self, want: dict[str, Any], got: Any, path: str, subset: bool) -> None:
        mask = next((name for name in _MASKS if name in want), None)
        if mask is not None and set(want) - {mask, *_MASKS[mask]}:
            raise Mismatch(f"{path}: a mask {mask} has no {', '.join(sorted(set(want) - {mask, *_MASKS[mask]}))}")
        if "$capture" in want:
            self.match(want.get("of", {"$any": True}), got, path, subset)
            self.variables[want["$capture"]] = got
        elif "$any" in want:
            self._match_any(want["$any"], got, path)
        elif "$time" in want:
            self._match_time(want, got, path)
        elif "$uuid" in want:
            if not (isinstance(got, str) and _UUID.fullmatch(got)):
                raise Mismatch(f"{path}: want a UUID, got {short(got)}")
        elif "$regex" in want:
            if not (isinstance(got, str) and re.search(self.text(want["$regex"]), got)):
                raise Mismatch(f"{path}: want text like {want['$regex']!r}, got {short(got)}")
        elif "$one_of" in want:
            self._match_one_of(want["$one_of"], got, path, subset)
        elif len(want) == 1 and next(iter(want)) in self._BUILDERS:
            self.match(self.build(want), got, path, subset)
        else:
            self._match_members(want, got, path, subset)

    def _match_members(self, want: dict[str, Any], got: Any, path: str, subset: bool) -> None:
        if not isinstance(got, dict):
            raise Mismatch(f"{path}: want an object, got {short(got)}")
        names = set()
        for key, entry in want.items():
            name = self.text(key)
            names.add(name)
            if name not in got:
                raise Mismatch(f"{path}.{name}: missing, want {short(entry)}")
            self.match(entry, got[name], f"{path}.{name}", subset)
        if not subset and set(got) - names:
            extra = min(set(got) - names)
            raise Mismatch(f"{path}.{extra}: not expected, got {short(got[extra])}")

    def _match_one_of(self, choices: list[Any], got: Any, path: str, subset: bool) -> None:
        for choice in choices:
            kept = dict(self.variables)
            try:
                self.match(choice, got, path, subset)
                return
            except Mismatch:
                self.variables = kept
        raise Mismatch(f"{path}: want one of {short(choices)}, got {short(got)}")

    @staticmethod
    def _match_any(kind: Any, got: Any, path: str) -> None:
        if kind is True:
            return
        if not isinstance(got, _KINDS[kind]) or (kind in {"integer", "number"} and isinstance(got, bool)):
            raise Mismatch(f"{path}: want any {kind}, got {short(got)}")

    def _match_time(self, want: dict[str, Any], got: Any, path: str) -> None:
        if want["$time"] == "iso":
            if not (isinstance(got, str) and _ISO.fullmatch(got)):
                raise Mismatch(f"{path}: want an ISO time with milliseconds, got {short(got)}")
            at = parse_iso(got)
        elif want["$time"] != "ms":
            raise Mismatch(f"{path}: there is no time {want['$time']!r}")
        else:
            if not isinstance(got, int) or isinstance(got, bool):
                raise Mismatch(f"{path}: want a time in milliseconds, got {short(got)}")
            at = got
        if "from_now_ms" in want:
            drift = at - (self.now() + want["from_now_ms"])
            if abs(drift) > want.get("slack_ms", TIME_SLACK_MS):
                raise Mismatch(f"{path}: {drift} ms away from now{want['from_now_ms']:+d} ms")

"""`js.Date`: a moment in whole milliseconds since 1970. Local time is UTC, as on the platform.

A text that is no date makes an invalid date, whose numbers are NaN. Years are those of Python, 1 to 9999: other
moments are invalid dates too.
"""

from __future__ import annotations

import calendar
import datetime
import functools
import math
import time
from typing import Any

from .errors import JsRangeError

_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_PARTS = {
    "FullYear": lambda moment: moment.year,
    "Month": lambda moment: moment.month - 1,
    "Date": lambda moment: moment.day,
    "Day": lambda moment: (moment.weekday() + 1) % 7,
    "Hours": lambda moment: moment.hour,
    "Minutes": lambda moment: moment.minute,
    "Seconds": lambda moment: moment.second,
    "Milliseconds": lambda moment: moment.microsecond // 1000,
}


# What a setter may be given, from its own part on: `setHours(hours, minutes, seconds, milliseconds)`.
_SETTERS = {
    "FullYear": ("FullYear", "Month", "Date"),
    "Month": ("Month", "Date"),
    "Date": ("Date",),
    "Hours": ("Hours", "Minutes", "Seconds", "Milliseconds"),
    "Minutes": ("Minutes", "Seconds", "Milliseconds"),
    "Seconds": ("Seconds", "Milliseconds"),
    "Milliseconds": ("Milliseconds",),
}
_ORDER = ("FullYear", "Month", "Date", "Hours", "Minutes", "Seconds", "Milliseconds")
_FIRST, _LAST = -62_135_596_800_000, 253_402_300_799_999  # the years 1 and 9999


def milliseconds(value: Any) -> int | float:
    """Milliseconds since 1970 of a number, a text, a Date or a `datetime` (naive ones are local time).

    NaN for what is no moment.
    """
    if isinstance(value, Date):
        return value.value
    if isinstance(value, datetime.datetime):
        return (value.astimezone(datetime.UTC) - _EPOCH) // datetime.timedelta(milliseconds=1)
    if isinstance(value, str):
        return Date.parse(value)
    return _in_range(value)


def _in_range(number: int | float) -> int | float:
    return int(number) if math.isfinite(number) and _FIRST <= number <= _LAST else math.nan


class Date:
    """`Date.new()`, `Date.new(ms | text | datetime)`, `Date.new(year, month, day, …)`; `Date.now()`."""

    __slots__ = ("value",)

    def __init__(self, value: Any = None) -> None:
        self.value: int | float = Date.now() if value is None else milliseconds(value)

    @classmethod
    def new(cls, *parts: Any) -> Date:
        return cls(cls.UTC(*parts)) if len(parts) > 1 else cls(*parts)

    @staticmethod
    def now() -> int:
        return time.time_ns() // 1_000_000

    @staticmethod
    def UTC(
        year: int, month: int = 0, day: int = 1, hours: int = 0, minutes: int = 0, seconds: int = 0, ms: int = 0
    ) -> int | float:
        """Parts may overflow: month 12 is January of the next year."""
        if any(isinstance(part, float) and not math.isfinite(part) for part in (year, month, day, hours, minutes)):
            return math.nan
        year, month = int(year) + int(month) // 12, int(month) % 12
        days = calendar.timegm((year, month + 1, 1, 0, 0, 0)) // 86400 + int(day) - 1
        return _in_range((((days * 24 + int(hours)) * 60 + int(minutes)) * 60 + int(seconds)) * 1000 + int(ms))

    @staticmethod
    def parse(text: str) -> int | float:
        """ISO 8601 and HTTP dates; NaN for another text. A time without a zone is UTC."""
        try:
            moment = datetime.datetime.fromisoformat(text)
        except ValueError:
            from email.utils import parsedate_to_datetime

            try:
                moment = parsedate_to_datetime(text)
            except (TypeError, ValueError):
                return math.nan
        return milliseconds(moment if moment.tzinfo else moment.replace(tzinfo=datetime.UTC))

    def to_datetime(self) -> datetime.datetime:
        """The moment with zone UTC. A RangeError of JavaScript for an invalid date."""
        if not self._valid:
            raise JsRangeError("Invalid time value")
        return _EPOCH + datetime.timedelta(milliseconds=self.value)

    def to_py(self, **_options: Any) -> datetime.datetime:
        """A naive local `datetime`, which is what crossing the boundary gives."""
        return self.to_datetime().astimezone().replace(tzinfo=None)

    @property
    def _valid(self) -> bool:
        return not math.isnan(self.value)

    def getTime(self) -> int | float:
        return self.value

    valueOf = getTime

    def setTime(self, value: Any) -> int | float:
        self.value = _in_range(value)
        return self.value

    def getTimezoneOffset(self) -> int:
        return 0

    def toISOString(self) -> str:
        moment = self.to_datetime()
        return f"{moment.year:04d}-{moment:%m-%dT%H:%M:%S}.{moment.microsecond // 1000:03d}Z"

    def toJSON(self) -> str | None:
        return self.toISOString() if self._valid else None

    def toUTCString(self) -> str:
        return self.to_datetime().strftime("%a, %d %b %Y %H:%M:%S GMT")

    toGMTString = toUTCString

    def toString(self) -> str:
        return (
            "Invalid Date"
            if not self._valid
            else self.to_datetime().strftime("%a %b %d %Y %H:%M:%S GMT+0000 (Coordinated Universal Time)")
        )

    def toDateString(self) -> str:
        return self.to_datetime().strftime("%a %b %d %Y")

    def toLocaleDateString(self, *_arguments: Any) -> str:
        """As in the United States, whatever is asked for."""
        moment = self.to_datetime()
        return f"{moment.month}/{moment.day}/{moment.year}"

    def toLocaleTimeString(self, *_arguments: Any) -> str:
        moment = self.to_datetime()
        return moment.strftime("%I").lstrip("0") + moment.strftime(":%M:%S %p")

    def toLocaleString(self, *_arguments: Any) -> str:
        return f"{self.toLocaleDateString()}, {self.toLocaleTimeString()}"

    def _set(self, names: tuple[str, ...], *values: Any) -> int | float:
        if not self._valid and names[0] != "FullYear":
            return math.nan
        moment = self.to_datetime() if self._valid else _EPOCH
        parts = {name: _PARTS[name](moment) for name in _ORDER}
        parts.update(zip(names, values, strict=False))
        self.value = Date.UTC(*(parts[name] for name in _ORDER))
        return self.value

    def __getattr__(self, name: str) -> Any:
        verb, part = name[:3], name[3:].removeprefix("UTC")
        if verb == "get" and part in _PARTS:
            return lambda: _PARTS[part](self.to_datetime()) if self._valid else math.nan
        if verb == "set" and part in _SETTERS:
            return functools.partial(self._set, _SETTERS[part])
        raise AttributeError(f"js.Date has no attribute {name!r}")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Date) and other.value == self.value

    def __lt__(self, other: Any) -> bool:
        return self.value < milliseconds(other)

    def __hash__(self) -> int:
        return hash(self.value)

    def __str__(self) -> str:
        return self.toString()

    def __repr__(self) -> str:
        return f"Date({self.toISOString()!r})" if self._valid else "Date(NaN)"

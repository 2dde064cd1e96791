"""`js.Date`: a moment in whole milliseconds since 1970. Local time is UTC, as on the platform."""

from __future__ import annotations

import calendar
import datetime
import time
from typing import Any

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


def milliseconds(value: Any) -> int:
    """Milliseconds since 1970 of a number, a text, a Date or a `datetime` (naive ones are local time)."""
    if isinstance(value, Date):
        return value.value
    if isinstance(value, datetime.datetime):
        return (value.astimezone(datetime.UTC) - _EPOCH) // datetime.timedelta(milliseconds=1)
    if isinstance(value, str):
        return Date.parse(value)
    return int(value)


class Date:
    """`Date.new()`, `Date.new(ms | text | datetime)`, `Date.new(year, month, day, …)`; `Date.now()`."""

    __slots__ = ("value",)

    def __init__(self, value: Any = None) -> None:
        self.value = Date.now() if value is None else milliseconds(value)

    @classmethod
    def new(cls, *parts: Any) -> Date:
        return cls(cls.UTC(*parts)) if len(parts) > 1 else cls(*parts)

    @staticmethod
    def now() -> int:
        return time.time_ns() // 1_000_000

    @staticmethod
    def UTC(
        year: int, month: int = 0, day: int = 1, hours: int = 0, minutes: int = 0, seconds: int = 0, ms: int = 0
    ) -> int:
        """Parts may overflow: month 12 is January of the next year."""
        year, month = int(year) + int(month) // 12, int(month) % 12
        days = calendar.timegm((year, month + 1, 1, 0, 0, 0)) // 86400 + int(day) - 1
        return (((days * 24 + int(hours)) * 60 + int(minutes)) * 60 + int(seconds)) * 1000 + int(ms)

    @staticmethod
    def parse(text: str) -> int:
        """ISO 8601 and HTTP dates; ValueError for another text. A time without a zone is UTC."""
        try:
            moment = datetime.datetime.fromisoformat(text)
        except ValueError:
            from email.utils import parsedate_to_datetime

            try:
                moment = parsedate_to_datetime(text)
            except (TypeError, ValueError):
                raise ValueError(f"Invalid Date: {text!r}") from None
        return milliseconds(moment if moment.tzinfo else moment.replace(tzinfo=datetime.UTC))

    def to_datetime(self) -> datetime.datetime:
        """The moment with zone UTC."""
        return _EPOCH + datetime.timedelta(milliseconds=self.value)

    def to_py(self, **_options: Any) -> datetime.datetime:
        """A naive local `datetime`, which is what crossing the boundary gives."""
        return self.to_datetime().astimezone().replace(tzinfo=None)

    def getTime(self) -> int:
        return self.value

    valueOf = getTime

    def setTime(self, value: Any) -> int:
        self.value = int(value)
        return self.value

    def getTimezoneOffset(self) -> int:
        return 0

    def toISOString(self) -> str:
        return self.to_datetime().strftime("%Y-%m-%dT%H:%M:%S.") + f"{self.value % 1000:03d}Z"

    def toJSON(self) -> str:
        return self.toISOString()

    def toUTCString(self) -> str:
        return self.to_datetime().strftime("%a, %d %b %Y %H:%M:%S GMT")

    toGMTString = toUTCString

    def toString(self) -> str:
        return self.to_datetime().strftime("%a %b %d %Y %H:%M:%S GMT+0000 (Coordinated Universal Time)")

    def toDateString(self) -> str:
        return self.to_datetime().strftime("%a %b %d %Y")

    def toLocaleString(self, *_arguments: Any) -> str:
        moment = self.to_datetime()
        hour = moment.strftime("%I").lstrip("0")
        return f"{moment.month}/{moment.day}/{moment.year}, {hour}{moment.strftime(':%M:%S %p')}"

    def __getattr__(self, name: str) -> Any:
        part = _PARTS.get(name.removeprefix("get").removeprefix("UTC"))
        if part is None or not name.startswith("get"):
            raise AttributeError(f"js.Date has no attribute {name!r}")
        return lambda: part(self.to_datetime())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Date) and other.value == self.value

    def __lt__(self, other: Any) -> bool:
        return self.value < milliseconds(other)

    def __hash__(self) -> int:
        return hash(self.value)

    def __str__(self) -> str:
        return self.toString()

    def __repr__(self) -> str:
        return f"Date({self.toISOString()!r})"

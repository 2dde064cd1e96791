"""Timestamps and dates, on integers and text: no calendar type holds them all (spec action-ledger 6.6)."""

import re
from datetime import datetime
from functools import lru_cache

from .refusals import LedgerRefusal
from .text import bounded

_TIMESTAMP = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)T(\d\d):(\d\d):(\d\d)(?:\.(\d+))?(?:(Z)|([+-])(\d\d):(\d\d))", re.ASCII
)
# What writers make; the calendar of the standard library is quicker and covers it.
_PLAIN = re.compile(r"(\d{4}-\d\d-\d\dT(?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d)(?:\.(\d+))?Z", re.ASCII)
_EPOCH_ORDINAL = 719_163
_DATE = re.compile(r"(\d{4})-(\d\d)-(\d\d)", re.ASCII)
_DAYS = (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
DAY_SECONDS = 86_400


def _is_leap(year: int) -> bool:
    return year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)


def is_real_date(year: int, month: int, day: int) -> bool:
    """Whether the Gregorian calendar has this day, in years 1 to 9999."""
    if not (1 <= year <= 9999 and 1 <= month <= 12):
        return False
    return 1 <= day <= _DAYS[month - 1] + (month == 2 and _is_leap(year))


def day_number(year: int, month: int, day: int) -> int:
    """Days since 1970-01-01 (negative before), proleptic Gregorian."""
    shifted = year - (month <= 2)
    era, of_era = divmod(shifted, 400)
    of_year = (153 * (month + (9 if month <= 2 else -3)) + 2) // 5 + day - 1
    return era * 146_097 + of_era * 365 + of_era // 4 - of_era // 100 + of_year - 719_468


def civil_date(days: int) -> tuple[int, int, int]:
    """Year, month and day of a day number."""
    era, of_era = divmod(days + 719_468, 146_097)
    year = (of_era - of_era // 1460 + of_era // 36_524 - of_era // 146_096) // 365
    of_year = of_era - (365 * year + year // 4 - year // 100)
    month = (5 * of_year + 2) // 153
    day = of_year - (153 * month + 2) // 5 + 1
    month += 3 if month < 10 else -9
    return year + era * 400 + (month <= 2), month, day


@lru_cache(maxsize=4096)
def _instant(text: str) -> tuple[int, str] | None:
    plain = _PLAIN.fullmatch(text)
    if plain is not None:
        try:
            moment = datetime.fromisoformat(plain[1])
        except ValueError:
            return None
        days = moment.toordinal() - _EPOCH_ORDINAL
        seconds = moment.hour * 3600 + moment.minute * 60 + moment.second
        return days * DAY_SECONDS + seconds, (plain[2] or "").rstrip("0")
    found = _TIMESTAMP.fullmatch(text)
    if found is None:
        return None
    year, month, day, hour, minute, second = (int(found[group]) for group in range(1, 7))
    if not is_real_date(year, month, day) or hour > 23 or minute > 59 or second > 59:
        return None
    offset = 0
    if found[9]:
        offset_hour, offset_minute = int(found[10]), int(found[11])
        if offset_hour > 23 or offset_minute > 59:
            return None
        offset = (offset_hour * 3600 + offset_minute * 60) * (1 if found[9] == "+" else -1)
    seconds = day_number(year, month, day) * DAY_SECONDS + hour * 3600 + minute * 60 + second - offset
    return seconds, (found[7] or "").rstrip("0")


def timestamp_text(value: object, where: str = "timestamp") -> str:
    """A timestamp as given, trimmed. Raises: type, required, control, timestamp."""
    text = bounded(value, None, where)
    if _instant(text) is None:
        raise LedgerRefusal(
            "timestamp", "must be a real YYYY-MM-DDTHH:MM:SS[.fraction] followed by Z or ±HH:MM", where
        )
    return text


def is_timestamp(text: str) -> bool:
    """Whether `text` is a timestamp as it stands."""
    return _instant(text) is not None


def instant(text: str) -> tuple[int, str]:
    """Epoch second after the offset, and the decimal fraction without trailing zeros: the sort key of a timestamp.

    Fractions compare as text, exact for any number of digits. Raises `timestamp`.
    """
    found = _instant(text)
    if found is None:
        raise LedgerRefusal("timestamp", "no timestamp")
    return found


def compare(left: str, right: str) -> int:
    """-1, 0 or 1 as `left` is before, at or after `right`."""
    one, two = instant(left), instant(right)
    return (one > two) - (one < two)


def calendar_date(value: object, where: str = "date") -> str:
    """`YYYY-MM-DD`, a real day. Raises: type, required, control, calendar-date."""
    text = bounded(value, None, where)
    found = _DATE.fullmatch(text)
    if found is None or not is_real_date(int(found[1]), int(found[2]), int(found[3])):
        raise LedgerRefusal("calendar-date", "must be a real day, YYYY-MM-DD", where)
    return text


def utc_date(timestamp: str, where: str = "timestamp") -> str:
    """UTC date of a checked timestamp. Raises `calendar-date` when the offset moves it out of years 0001 to 9999."""
    seconds, _ = instant(timestamp)
    year, month, day = civil_date(seconds // DAY_SECONDS)
    if not 1 <= year <= 9999:
        raise LedgerRefusal("calendar-date", "its UTC date must lie in years 0001 to 9999", where)
    return f"{year:04}-{month:02}-{day:02}"


def millisecond_text(milliseconds: int) -> str:
    """`YYYY-MM-DDTHH:MM:SS.mmmZ` of milliseconds since the epoch. Raises `timestamp` outside years 0001 to 9999."""
    seconds, millis = divmod(milliseconds, 1000)
    days, second = divmod(seconds, DAY_SECONDS)
    year, month, day = civil_date(days)
    if not 1 <= year <= 9999:
        raise LedgerRefusal("timestamp", "the writer's clock must lie in years 0001 to 9999", "recorded_at")
    return f"{year:04}-{month:02}-{day:02}T{second // 3600:02}:{second // 60 % 60:02}:{second % 60:02}.{millis:03}Z"

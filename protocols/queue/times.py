"""Times as they come over the wire: ISO 8601 text to milliseconds."""

import re
from datetime import UTC, datetime, timedelta, timezone
from typing import Any, Final

_ISO: Final = re.compile(
    r"(\d{4})-(\d{2})-(\d{2})(?:T(\d{2}):(\d{2})(?::(\d{2})(?:[.,](\d{1,9}))?)?(Z|[+-]\d{2}:?\d{2})?)?", re.ASCII
)


def parse_time(value: Any) -> int | None:
    """Milliseconds since 1970 of an ISO 8601 text, or None for anything else.

    A date alone and a time without an offset are UTC; digits beyond the millisecond are cut off.
    """
    match = _ISO.fullmatch(value.strip()) if isinstance(value, str) else None
    if match is None:
        return None
    year, month, day, hour, minute, second = (int(part or 0) for part in match.groups()[:6])
    offset = match[8] or "Z"
    shift = timedelta(0)
    if offset != "Z":
        shift = timedelta(hours=int(offset[1:3]), minutes=int(offset[-2:])) * (-1 if offset[0] == "-" else 1)
    try:
        moment = datetime(year, month, day, hour, minute, second, tzinfo=timezone(shift))
        seconds = (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(seconds=1)
    except (ValueError, OverflowError):
        return None
    return seconds * 1000 + int(((match[7] or "") + "000")[:3])

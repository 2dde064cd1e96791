"""How Python values become what a bucket method takes: options, names, numbers, dates (spec python-workers-api 5)."""

import math
from collections.abc import Collection, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final

MISSING: Final = object()
"""An argument that was not given, as distinct from None."""

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND: Final = timedelta(milliseconds=1)


def number_text(value: float) -> str:
    """`value` as the platform prints a number: whole ones without a fraction."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    if value.is_integer() and abs(value) < 1e21:
        return str(int(value))
    return repr(value)


def well_formed(text: str) -> str:
    """`text` with surrogate pairs joined and lone surrogates replaced by U+FFFD, so that it has an UTF-8 form."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def text_of(value: Any) -> str:
    """`value` as the platform turns it into text: numbers and booleans in their JavaScript spelling, None as
    `null`.
    """
    if isinstance(value, str):
        return well_formed(value)
    if isinstance(value, int | float):
        return number_text(value)
    if value is None:
        return "null"
    return well_formed(str(value))


def wrong_parameter(cls: str, method: str, place: int, expected: str) -> TypeError:
    """The error for a parameter of the wrong type."""
    return TypeError(f"Failed to execute '{method}' on '{cls}': parameter {place} is not of type '{expected}'.")


def wrong_field(struct: str, field: str, expected: str) -> TypeError:
    """The error for an option of the wrong type."""
    return TypeError(
        f"Incorrect type for the '{field}' field on '{struct}': the provided value is not of type '{expected}'."
    )


def merge_options(
    options: Any, keywords: Mapping[str, Any], known: Collection[str], method: str, place: int, struct: str
) -> dict[str, Any]:
    """One dictionary of the trailing options and the keyword arguments, which win. Options that are None are absent.

    Unknown members of the trailing options are ignored as on the platform; an unknown keyword argument is a
    TypeError, as everywhere in Python.
    """
    merged: dict[str, Any] = {}
    if options is not None:
        if not isinstance(options, Mapping):
            raise wrong_parameter("R2Bucket", method, place, struct)
        merged.update((name, value) for name, value in options.items() if name in known)
    for name, value in keywords.items():
        if name not in known:
            raise TypeError(f"{method}() got an unexpected option {name!r}; known are {', '.join(sorted(known))}")
        merged[name] = value
    return {name: value for name, value in merged.items() if value is not None}


def text_option(options: Mapping[str, Any], field: str, struct: str) -> str | None:
    """A text option that is not converted: TypeError for anything but `str`; None when absent."""
    value = options.get(field)
    if value is None:
        return None
    if not isinstance(value, str):
        raise wrong_field(struct, field, "string")
    return well_formed(value)


def milliseconds(value: Any, field: str, struct: str) -> int:
    """Milliseconds since 1970 of a `datetime` (a naive one is local time) or a number of them."""
    if isinstance(value, datetime):
        return (value.astimezone(UTC) - _EPOCH) // _MILLISECOND
    if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value):
        return math.floor(value)
    raise wrong_field(struct, field, "date")


def date_of(ms: int) -> datetime:
    """The aware UTC `datetime` of milliseconds since 1970."""
    return _EPOCH + ms * _MILLISECOND


def integer(value: Any) -> int:
    """`value` cut to a whole number, as the platform takes an integer parameter; what is no number is 0."""
    if isinstance(value, str):
        try:
            value = float(value.strip() or 0)
        except ValueError:
            return 0
    if not isinstance(value, int | float) or not math.isfinite(value):
        return 0
    return int(value)


def is_headers(value: Any) -> bool:
    """Whether `value` is a Headers object of any make: it looks names up with `get` and is no plain dictionary."""
    return not isinstance(value, dict) and callable(getattr(value, "get", None))

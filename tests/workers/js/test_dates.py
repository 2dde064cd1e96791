"""`js.Date` (spec python-workers-api 1 and 6)."""

import math
from typing import Any

import pytest

from moorage.wrangler_compat.workers import js
from moorage.wrangler_compat.workers.pyodide.ffi import JsException


def test_dates() -> None:
    date = js.Date.new("2026-01-02T03:04:05.678Z")
    assert (date.getTime(), date.valueOf()) == (1_767_323_045_678, 1_767_323_045_678)
    assert date.toISOString() == date.toJSON() == "2026-01-02T03:04:05.678Z"
    assert (date.getFullYear(), date.getUTCMonth(), date.getDate(), date.getDay()) == (2026, 0, 2, 5)
    assert (date.getHours(), date.getMinutes(), date.getUTCSeconds(), date.getMilliseconds()) == (3, 4, 5, 678)
    assert date.toUTCString() == "Fri, 02 Jan 2026 03:04:05 GMT"
    assert js.Date.new(2026, 12, 1).toISOString() == "2027-01-01T00:00:00.000Z"
    assert js.Date.new(5) == js.Date.new(js.Date.new(5))
    assert js.Date.parse("Fri, 02 Jan 2026 03:04:05 GMT") == 1_767_323_045_000
    assert js.Date.new(-1).toISOString() == "1969-12-31T23:59:59.999Z"
    assert js.Date.now() > 1_700_000_000_000
    with pytest.raises(AttributeError):
        date.getCentury()


@pytest.mark.parametrize("given", ["nonsense", math.nan, math.inf, 8.7e15])
def test_what_is_no_moment(given: Any) -> None:
    date = js.Date.new(given)
    assert js.isNaN(date.getTime())
    assert js.isNaN(date.getFullYear())
    assert js.isNaN(date.setDate(1))
    assert (str(date), date.toJSON(), js.JSON.stringify(date)) == ("Invalid Date", None, "null")
    with pytest.raises(JsException, match="RangeError: Invalid time value"):
        date.toISOString()
    assert date.setFullYear(2026) == js.Date.UTC(2026, 0, 1)


def test_parts_that_are_set() -> None:
    date = js.Date.new("2026-01-31T23:59:58.007Z")
    assert date.setDate(date.getDate() + 1) == date.getTime()
    assert date.toISOString() == "2026-02-01T23:59:58.007Z"
    date.setUTCHours(24, 0, 0, 0)
    assert date.toISOString() == "2026-02-02T00:00:00.000Z"
    date.setMonth(-1, 15)
    assert date.toISOString() == "2025-12-15T00:00:00.000Z"
    date.setMilliseconds(-1)
    assert date.toISOString() == "2025-12-14T23:59:59.999Z"
    date.setFullYear(999)
    assert date.toISOString() == "0999-12-14T23:59:59.999Z"
    with pytest.raises(AttributeError):
        date.setCentury(1)


def test_dates_for_people() -> None:
    date = js.Date.new("2026-01-02T15:04:05Z")
    assert (date.toLocaleDateString(), date.toLocaleTimeString()) == ("1/2/2026", "3:04:05 PM")
    assert date.toLocaleString("de-DE") == "1/2/2026, 3:04:05 PM"

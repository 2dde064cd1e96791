"""`js.Date` (spec python-workers-api 1 and 6)."""

import pytest

from moorage.wrangler_compat.workers import js


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
    with pytest.raises(ValueError, match="Invalid Date"):
        js.Date.new("nonsense")
    with pytest.raises(AttributeError):
        date.getCentury()

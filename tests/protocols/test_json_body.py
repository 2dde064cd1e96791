"""Request bodies as the reference reads them."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from moorage.protocols.javascript import ABSENT
from moorage.protocols.json_body import NotJson, members, parse, parse_as, parse_object


class Form(msgspec.Struct):
    path: Any = ABSENT
    limit: Any = ABSENT


@pytest.mark.parametrize(
    ("body", "value"),
    [
        (b' \n\t{"a":1}\r\n ', {"a": 1}),
        (b'{"a":1,"a":2}', {"a": 2}),
        (b"[]", []),
        (b"1e3", 1000),
        (b"null", None),
        (b'"\\ud83d\\ude00"', "\U0001f600"),
        (b'{"\\ud800":"x\\udc00"}', {"\ufffd": "x\ufffd"}),
    ],
)
def test_values(body: bytes, value: Any) -> None:
    assert parse(body) == value


@pytest.mark.parametrize("body", [b"1e400", b"9" * 5000])
def test_numbers_too_large_for_a_double_are_infinite(body: bytes) -> None:
    assert float(parse(body)) == float("inf") or len(str(body)) < 400


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"'",
        b"not json",
        b'{"a":1}\0',
        b"NaN",
        b"-Infinity",
        b'{"a":Infinity}',
        b"\xef\xbb\xbf{}",
        b'"\xff"',
        b'"\xed\xa0\x80"',
        b"01",
        b'{"a":1,}',
        b"[" * 200_000,
        b'{"a":' * 100_000,
        b'"\n"',
        b"\xff\xfe{\x00}\x00",
    ],
)
def test_what_is_no_json(body: bytes) -> None:
    with pytest.raises(NotJson):
        parse(body)
    assert members(body) == {}
    with pytest.raises(NotJson):
        parse_as(Form, body)


@pytest.mark.parametrize("body", [b"[]", b"7", b"null", b'"a"', b"true"])
def test_what_is_no_object(body: bytes) -> None:
    with pytest.raises(NotJson, match="object"):
        parse_object(body)
    with pytest.raises(NotJson):
        parse_as(Form, body)
    assert members(body) == {}


def test_forms() -> None:
    form = parse_as(Form, b'{"path":"first","other":[{"deep":1}],"path":"last"}')
    assert form.path == "last"
    assert form.limit is ABSENT
    assert parse_as(Form, b'{"path":"\\ud800"}').path == "\ufffd"
    assert parse_as(Form, b'{"limit":null}').limit is None


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers(-(2**60), 2**60) | st.text(),
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
        max_leaves=20,
    ),
)
def test_what_is_written_is_read(value: Any) -> None:
    escaped = parse(json.dumps(value, ensure_ascii=True).encode())
    try:
        body = json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        # a lone surrogate has no UTF-8 form: it is read as U+FFFD
        assert "\ufffd" in json.dumps(escaped, ensure_ascii=False)
        return
    assert parse(body) == value == escaped


@given(st.binary(max_size=60))
def test_any_bytes_parse_or_are_refused(body: bytes) -> None:
    try:
        parse(body)
    except NotJson:
        assert members(body) == {}

"""JSON with comments and trailing commas, and TOML."""

import contextlib
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moorage.wrangler_compat.config.syntax import SyntaxProblem, parse_config, parse_jsonc

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**60), 2**60)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)
GAPS = st.sampled_from(
    ["", " ", "\n", "\t", "// a comment: {,]\n", "/* , \" ' */", "/**/", " /* two\n lines */ ", "//\n"]
)


@st.composite
def written(draw: st.DrawFn) -> tuple[Any, str]:
    """A value and one of the ways to write it."""
    value = draw(VALUES)

    def gap() -> str:
        return draw(GAPS)

    def write(item: Any) -> str:
        if isinstance(item, dict):
            inner = f"{gap()},{gap()}".join(f"{json.dumps(k)}{gap()}:{gap()}{write(v)}" for k, v in item.items())
            return "{" + gap() + inner + (draw(st.sampled_from(["", ","])) if item else "") + gap() + "}"
        if isinstance(item, list):
            inner = f"{gap()},{gap()}".join(write(v) for v in item)
            return "[" + gap() + inner + (draw(st.sampled_from(["", ","])) if item else "") + gap() + "]"
        return json.dumps(item, ensure_ascii=draw(st.booleans()))

    return value, gap() + write(value) + gap()


@given(written())
def test_comments_and_trailing_commas_change_nothing(pair: tuple[Any, str]) -> None:
    value, text = pair
    assert parse_jsonc(text).value == value


@given(st.text())
def test_any_text_is_parsed_or_refused(text: str) -> None:
    for name in ("wrangler.json", "wrangler.toml"):
        with contextlib.suppress(SyntaxProblem):
            parse_config(text, name)


@given(st.binary())
def test_any_bytes_are_parsed_or_refused(data: bytes) -> None:
    with contextlib.suppress(SyntaxProblem):
        parse_config(data, "wrangler.jsonc")


@pytest.mark.parametrize(
    "text",
    ["", "{'a': 1}", "{a: 1}", '{"a": 0x10}', '{"a": NaN}', '{"a": Infinity}', "{,}", "[,]", "[1,,]", '{"a": 1} 2',
     '{"a": 1', "/* open", '{"a": "\n"}', '{"a": .5}', '{"a": +1}', "[" * 100_000, f'{{"a": {"1" * 5000}}}'],
)  # fmt: skip
def test_nothing_beyond_comments_and_trailing_commas(text: str) -> None:
    with pytest.raises(SyntaxProblem):
        parse_config(text, "wrangler.jsonc")


def test_the_place_of_an_error_is_that_of_the_file() -> None:
    with pytest.raises(SyntaxProblem) as refused:
        parse_jsonc('{\n  /* one\n     two */ "a": 1, // three\n  "b": oops\n}')
    assert (refused.value.line, refused.value.column) == (4, 8)


def test_a_byte_order_mark_is_passed_over() -> None:
    assert parse_config(b'\xef\xbb\xbf{"a": 1}', "wrangler.json").value == {"a": 1}
    assert parse_config(b"\xef\xbb\xbfa = 1", "wrangler.toml").value == {"a": 1}


def test_a_key_that_stands_twice_is_named() -> None:
    parsed = parse_jsonc('{"a": 1, "b": {"c": 1, "c": 2}, "a": 3}')
    assert parsed.value == {"a": 3, "b": {"c": 2}}
    assert set(parsed.duplicate_keys) == {"a", "c"}


def test_the_ending_decides() -> None:
    with pytest.raises(SyntaxProblem):
        parse_config("a = 1", "wrangler.json")
    with pytest.raises(SyntaxProblem):
        parse_config('{"a": 1}', "wrangler.toml")

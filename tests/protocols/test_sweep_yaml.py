"""The YAML subset: read back exactly by our reader, and to the same values by PyYAML and ruamel.yaml."""

import json
import math
from typing import Any

import pytest
import yaml
from hypothesis import assume, given
from hypothesis import strategies as st
from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from moorage.protocols.sweep import SubsetError, emit, parse
from moorage.protocols.sweep.reading import parse_json
from moorage.protocols.sweep.writing import quote
from tests.support.sweep_documents import (
    TYPED_KEYS_1_1,
    TYPED_KEYS_1_2,
    documents,
    floats_of,
    is_text_in_yaml_1_1,
    keys_of,
    spelled,
    texts,
    unhurried,
    values,
)

LINES = ["a: 1", "  b:", '    c: "x"', "# n", "", " x: 1", "  d: {}", "\te: 1", "f:", "g: [1]", "    h:"]


def _empty_for_null(value: Any) -> Any:
    """A key with nothing under it is an empty map here (`yaml-empty-value`)."""
    if isinstance(value, dict):
        return {key: _empty_for_null(entry) for key, entry in value.items()}
    return {} if value is None else value


class TestRoundTrip:
    @unhurried
    @given(documents())
    def test_our_reader_reads_what_was_written(self, document: dict[str, Any]) -> None:
        text = emit(document)
        assert spelled(parse(text)) == spelled(document)
        assert emit(parse(text)) == text

    @unhurried
    @given(documents())
    def test_each_entry_is_one_line_of_plain_characters(self, document: dict[str, Any]) -> None:
        text = emit(document)
        assert text.encode("utf-8").decode("utf-8") == text
        # splitlines knows more line breaks than the line feed; none of them is left
        assert text.splitlines() == text.split("\n")[:-1]
        assert not any(
            character < " " or "\x7f" <= character <= "\x9f" for line in text.splitlines() for character in line
        )

    @unhurried
    @given(documents(nonfinite=False))
    def test_ruamel_reads_the_same_values(self, document: dict[str, Any]) -> None:
        assume(not keys_of(document) & TYPED_KEYS_1_2)
        assert spelled(YAML(typ="safe", pure=True).load(emit(document))) == spelled(document)

    @unhurried
    @given(documents(nonfinite=False))
    def test_pyyaml_reads_the_same_values(self, document: dict[str, Any]) -> None:
        assume(not keys_of(document) & TYPED_KEYS_1_1)
        assume(not any(map(is_text_in_yaml_1_1, floats_of(document))))
        assert spelled(yaml.safe_load(emit(document))) == spelled(document)

    @unhurried
    @given(values())
    def test_inline_and_block_read_alike(self, value: Any) -> None:
        text = (
            f"schema_version: 1\nx: {json.dumps(value)}\n"
            if isinstance(value, list | dict | str)
            else emit({"x": value})
        )
        assert spelled(parse(text)["x"]) == spelled(value)

    @unhurried
    @given(texts())
    def test_a_quoted_text_is_json_too(self, text: str) -> None:
        assert parse_json(quote(text)) == text

    def test_depth_is_bounded_by_the_text_alone(self) -> None:
        document: dict[str, Any] = {"end": 1}
        for _ in range(3000):
            document = {"a": document}
        text = emit(document)
        assert emit(parse(text)) == text


class TestExceptions:
    """The exceptions to "reads back to the same values in other readers"."""

    @pytest.mark.parametrize(("value", "spelling"), [(1e22, "1e+22"), (1e-07, "1e-07"), (5e-324, "5e-324")])
    def test_exponents_without_a_fraction_are_texts_in_yaml_1_1(self, value: float, spelling: str) -> None:
        text = emit({"x": value})
        assert text == f"x: {spelling}\n"
        assert yaml.safe_load(text)["x"] == spelling
        assert YAML(typ="safe", pure=True).load(text)["x"] == value

    @pytest.mark.parametrize(("value", "spelling"), [(math.inf, "inf"), (-math.inf, "-inf"), (math.nan, "nan")])
    def test_what_is_not_finite_is_a_text_elsewhere(self, value: float, spelling: str) -> None:
        text = emit({"x": value})
        assert text == f"x: {spelling}\n"
        assert yaml.safe_load(text)["x"] == YAML(typ="safe", pure=True).load(text)["x"] == spelling
        assert repr(parse(text)["x"]) == repr(value)

    @pytest.mark.parametrize("key", ["true", "null", "yes"])
    def test_some_bare_keys_get_a_type_elsewhere(self, key: str) -> None:
        assert emit({key: 1}) == f"{key}: 1\n"
        assert list(yaml.safe_load(f"{key}: 1\n")) != [key]
        assert parse(f"{key}: 1\n") == {key: 1}

    def test_very_long_keys_are_refused_elsewhere(self) -> None:
        text = emit({"x": {"k" * 1100: 1}})
        assert parse(text) == {"x": {"k" * 1100: 1}}
        with pytest.raises(yaml.YAMLError):
            yaml.safe_load(text)
        with pytest.raises(YAMLError):
            YAML(typ="safe", pure=True).load(text)


class TestReading:
    @unhurried
    @given(st.text())
    def test_any_text_is_read_or_refused(self, text: str) -> None:
        try:
            found = parse(text)
        except SubsetError as error:
            refusal = error
        else:
            assert spelled(parse(emit(found))) == spelled(found)
            return
        assert 1 <= refusal.line <= text.count("\n") + 1
        assert refusal.reason

    @unhurried
    @given(st.lists(st.sampled_from(LINES)))
    def test_lines_in_any_order_are_refused_or_what_yaml_says(self, lines: list[str]) -> None:
        """Nothing is dropped or moved to another place: PyYAML reads the same from what is accepted."""
        text = "\n".join(lines)
        try:
            found = parse(text)
        except SubsetError:
            return
        assert found == _empty_for_null(yaml.safe_load(text))

    @pytest.mark.parametrize(
        ("text", "value"),
        [
            ('k: "x"  # why', "x"),
            ('k: "x"\t# why', "x"),
            ("k: 1 # one", 1),
            ("k: true # yes", True),
            ("k: [1, 2] # two", [1, 2]),
            ('k: {"a": 1}   # map', {"a": 1}),
            ("k: # nothing", {}),
            ("k:   ", {}),
            ('k: "a # b"', "a # b"),
            ('k: ["# a"]', ["# a"]),
            ("k: 007", 7),
            ("k: -0", 0),
            ("k: 1.50", 1.5),
            ("k: 1E5", 100000.0),
            ("k: 123456789012345678901", 123456789012345678901),
            ('"k": 1', 1),
            ("k : 1", 1),
            ("k:1", 1),
            ('k: "\\u00e9\\ud83c\\udf89\\/"', "é🎉/"),
            ("k: 1\r\n", 1),
        ],
    )
    def test_a_value(self, text: str, value: Any) -> None:
        assert spelled(parse(text)) == spelled({"k": value})

    @pytest.mark.parametrize(
        ("text", "line"),
        [
            ("k: plain", 1),
            ("k: 'x'", 1),
            ("k: 1_000", 1),
            ("k: 0x1f", 1),
            ("k: 1.", 1),
            ("k: .5", 1),
            ("k: +1", 1),
            ("k: ١", 1),
            ("k: True", 1),
            ("k: ~", 1),
            ("k: 1e999", 1),
            ("k: [1e999]", 1),
            ("k: |\n  x", 1),
            ('k: "x" y', 1),
            ('k: "x"# y', 1),
            ("k:# x", 1),
            ('k: "a\tb"', 1),
            ("a: 1\n---", 2),
            ("--- # c: 1", 1),
            ("%YAML: 1.2", 1),
            ("- a: 1", 1),
            ("-", 1),
            ("? a: 1", 1),
            ("'a': 1", 1),
            ("&a b: 1", 1),
            (": 1", 1),
            ("a # b: 1", 1),
            ('"a" : 1', 1),
            ('"a: 1', 1),
            ('"a\\x": 1', 1),
            ("a:\n\tb: 1", 2),
            ("a:\n   b: 1", 2),
            ("a:\n    b: 1", 2),
            ("a: 1\n  b: 1", 2),
            ("a: {}\n  b: 1", 2),
            ("a:\n  b: 1\n   c: 2", 3),
            ("  a: 1", 1),
            ("{", 1),
            ("k: " + "[" * 100_000, 1),
            ("k: " + "9" * 5000, 1),
        ],
        ids=repr,
    )
    def test_a_refusal_names_its_line(self, text: str, line: int) -> None:
        with pytest.raises(SubsetError) as caught:
            parse(text)
        assert caught.value.line == line

    @pytest.mark.parametrize("key", ["9lead", "has space", "-dash", ".dot", "ünï", "http"])
    def test_a_bare_key_is_the_text_before_the_colon(self, key: str) -> None:
        assert parse(f"{key}: 1") == {key: 1}


class TestWriting:
    @pytest.mark.parametrize("key", ["a", "_", "a-b.c", "Z9", "true"])
    def test_bare_keys(self, key: str) -> None:
        assert emit({key: 1}) == f"{key}: 1\n"

    @pytest.mark.parametrize("key", ["", "9a", "-a", ".a", "a b", "a:b", "ü", "a\n", "#"])
    def test_quoted_keys(self, key: str) -> None:
        """The whole key must match, a final line break included (SW-6)."""
        assert emit({key: 1}) == f"{quote(key)}: 1\n"
        assert parse(emit({key: 1})) == {key: 1}

    def test_what_yaml_admits_not_is_escaped(self) -> None:
        assert (
            quote("\x7f\x81\x85\u2028\u2029\ufffe\uffff\ud800")
            == '"\\u007f\\u0081\\u0085\\u2028\\u2029\\ufffe\\uffff\\ud800"'
        )
        assert quote("é日🎉\xa0\ufeff") == '"é日🎉\xa0\ufeff"'

    def test_a_split_pair_is_refused_and_not_joined(self) -> None:
        with pytest.raises(ValueError, match="halves"):
            emit({"x": "\ud83c\udf89"})

    @pytest.mark.parametrize("value", [{1}, b"x", (1,), object()])
    def test_other_types_are_refused(self, value: object) -> None:
        with pytest.raises(TypeError):
            emit({"x": value})


SAMPLE = """\
schema_version: 1
lease:
  writer: "sweep-2026-07-02-cron"
  timestamp: "2026-07-02T12:00:00+00:00"
  ttl_minutes: 60
sources:
  "slack:C42":
    cursor: "1699999999.000100"
    sensitive: true          # optional; config-derived
items:
  "slack:C42:1699999999.000100":
    source: "slack:C42"
    status: "acknowledged"
    # ...arbitrary connector fields...
last_run:
  timestamp: "2026-07-02T12:05:00+00:00"
  outcome: "completed"
  writer: "sweep-2026-07-02-cron"
  counts: {"ingested": 5, "closed": 1}
"""


def test_the_sample_of_the_schema() -> None:
    """Its comments are skipped, and a write puts it into canonical form."""
    document = parse(SAMPLE)
    assert document == yaml.safe_load(SAMPLE)
    canonical = (
        SAMPLE.replace('    cursor: "1699999999.000100"\n', "")
        .replace("true          # optional; config-derived\n", 'true\n    cursor: "1699999999.000100"\n')
        .replace("    # ...arbitrary connector fields...\n", "")
        .replace('counts: {"ingested": 5, "closed": 1}', "counts:\n    closed: 1\n    ingested: 5")
    )
    assert emit(document) == canonical

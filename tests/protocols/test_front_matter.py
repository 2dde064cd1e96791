"""The report header reader and writer against the reference's own results, and properties of the rules."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moorage.protocols import front_matter as reader
from moorage.protocols.front_matter import Reading, Status

CASES = json.loads((Path(__file__).parents[1] / "vectors" / "captured" / "front-matter-cases.json").read_text())
LINES = st.sampled_from(
    [
        "state: open", "state: closed", "label: x", "---", "--- ", "", "  state: nested", "# state: note",
        "- state: item",
        "```", "~~~", "````", "``` a`b", "prose", "]", "}", "-", "-state: y", ": z", "state:",
        'state: ""', "\tstate: tab",
    ]
)  # fmt: skip
DOCUMENTS = st.lists(LINES, max_size=14).map("\n".join) | st.text(max_size=80)


def shown(reading: Reading) -> dict[str, str]:
    return {"status": reading.status.value} | ({} if reading.value is None else {"value": reading.value})


@pytest.mark.parametrize("case", CASES["read"], ids=lambda case: case["label"])
def test_reads_as_the_reference(case: dict[str, Any]) -> None:
    header = reader.parse(case["markdown"])

    assert shown(header.raw(case["key"])) == case["raw"]
    assert shown(header.decoded(case["key"])) == case["decoded"]
    assert (header.ambiguous if header.has_header else None) == case["document_ambiguous"]
    assert (list(header.competing) if header.has_header else None) == case["competing"]


@pytest.mark.parametrize("case", CASES["replace"], ids=lambda case: case["label"])
def test_writes_as_the_reference(case: dict[str, Any]) -> None:
    assert reader.replace_field(case["markdown"], case["key"], case["value"]) == case["result"]


@pytest.mark.parametrize("case", CASES["string_array"], ids=lambda case: case["value"])
def test_reads_lists_as_the_reference(case: dict[str, Any]) -> None:
    assert reader.string_list(case["value"]) == case["result"]


def test_there_are_43_reading_cases() -> None:
    assert len(CASES["read"]) == 43


def test_lines_are_numbered_from_the_start_of_the_text() -> None:
    text = "---\na: 1\nb: 2\n---\nbody\n"
    assert list(reader.header_lines(text)) == [(2, "a: 1"), (3, "b: 2")]
    assert list(reader.body_lines(text)) == [(5, "body"), (6, "")]
    assert list(reader.header_lines("body")) == []
    assert list(reader.body_lines("body")) == [(1, "body")]


def test_derived_readers_say_ambiguous_and_never_guess() -> None:
    header = reader.parse('---\ndone: TRUE\nlist: a, b\nlist2: [1,"x"]\nbad: a\nbad: b\n---\nonly_body: true\n')

    assert header.boolean("done") is True
    assert header.boolean("list") is False
    assert header.boolean("none") is False
    assert header.boolean("bad") == header.strings("bad") == header.strings("only_body") == reader.AMBIGUOUS
    assert header.strings("list") == ("a", "b")
    assert header.strings("list2") == ("x",)
    assert header.strings("none") == ()
    assert reader.json_list('{"a":1}') is None


@given(DOCUMENTS)
def test_any_text_is_read(text: str) -> None:
    header = reader.parse(text)
    for key in ("state", "label", "x", ""):
        raw, decoded = header.raw(key), header.decoded(key)
        if raw.status is not Status.VALUE:
            assert decoded == raw
    if not header.has_header:
        assert not header.ambiguous
        assert header.raw("state") == reader.ABSENT


@given(DOCUMENTS)
def test_a_header_needs_its_delimiter_at_the_first_character(text: str) -> None:
    for before in ("\n", " ", "\ufeff"):
        assert not reader.parse(before + text).has_header


@given(st.lists(LINES, max_size=8))
def test_a_body_without_delimiters_takes_no_value_away(lines: list[str]) -> None:
    body = [line for line in lines if line != "---"]
    header = reader.parse("\n".join(["---", "state: open", "---", *body]))

    assert header.raw("state") == Reading(Status.VALUE, " open")


@given(st.lists(LINES, max_size=8))
def test_a_fenced_example_takes_no_value_away(lines: list[str]) -> None:
    fenced = [line for line in lines if not line.startswith("`")]
    header = reader.parse("\n".join(["---", "state: open", "---", "", "`````", *fenced, "`````", "end"]))

    assert header.raw("state") == Reading(Status.VALUE, " open")


@given(DOCUMENTS)
def test_line_ends_do_not_matter(text: str) -> None:
    if "\r" in text:
        return
    unix, windows = reader.parse(text), reader.parse(text.replace("\n", "\r\n"))

    assert unix.fields == windows.fields
    assert (unix.competing, unix.body_keys) == (windows.competing, windows.body_keys)


@given(st.text("abc_", min_size=1, max_size=6), st.text("xyz $&\\", max_size=8))
def test_what_was_written_is_read(key: str, value: str) -> None:
    text = reader.replace_field("---\nnumber: 1\n---\nbody\n", key, value)

    assert reader.parse(text).raw(key) == Reading(Status.VALUE, " " + value)


@given(DOCUMENTS, st.sampled_from(["state", "label"]))
def test_writing_twice_is_writing_once(text: str, key: str) -> None:
    once = reader.replace_field(text, key, "v")

    assert reader.replace_field(once, key, "v") == once


@pytest.mark.parametrize("inside", ["\r", "\u2028", "\u2029"])
def test_a_line_with_another_line_terminator_inside_is_no_fence(inside: str) -> None:
    text = f"---\nstate: open\n---\n\n```{inside}x\n---\nstate: closed\n---\n"

    assert reader.parse(text).raw("state") is reader.AMBIGUOUS


@pytest.mark.parametrize(
    ("value", "strings"),
    [
        (None, []),
        (" none ", ["none"]),
        ('["a"]\n', ["a"]),
        (' ["a", ["b"], 1, null, "c"]', ["a", "c"]),
        ("[1e400]", []),
        ('["\\ud800"]', ["\ufffd"]),
        ('\ufeff["a"]', ['["a"]']),
        ("[NaN]", ["[NaN]"]),
        ('"a,b"', ['"a', 'b"']),
        ("true", ["true"]),
        ("a\u00a0,\u00a0b", ["a", "b"]),
    ],
)
def test_a_list_is_a_json_array_or_parts(value: str | None, strings: list[str]) -> None:
    assert reader.string_list(value) == strings


def test_a_new_field_follows_the_opening_delimiter_closed_or_not() -> None:
    assert reader.replace_field("---\nlabel: a\n", "state", "open") == "---\nstate: open\nlabel: a\n"
    assert reader.replace_field("---\r\n", "state", "open") == "---\r\nstate: open\r\n"
    for text in ("--- \n---\n", "---", "\n---\n", "text"):
        assert reader.replace_field(text, "state", "open") == text


def test_an_empty_value_is_replaced_without_the_line_behind_it() -> None:
    assert reader.replace_field("---\nstate:\n---\n", "state", "open") == "---\nstate: open\n---\n"


def test_a_field_is_set_in_the_header_alone() -> None:
    text = "---\r\na: 1\r\nb: 2\r\na: 3\r\n---\r\na: 4\r\n"
    changed = "---\r\na: x\r\nb: 2\r\na: x\r\n---\r\na: 4\r\n"
    assert reader.set_in_header(text, "a", "x") == changed
    assert reader.set_in_header("---\n\n---\nc: 1", "c", "x") == "---\nc: x\n\n---\nc: 1"
    with pytest.raises(ValueError, match="no header"):
        reader.set_in_header("a: 1", "a", "x")


def test_a_long_line_of_spaces_costs_no_time() -> None:
    text = "---\nstate: a" + " " * 200_000 + "b\n---\n" + ("]" + " " * 200_000 + "x\n")

    assert reader.parse(text).raw("state").status is Status.VALUE


def test_a_reading_without_its_value_cannot_be_built() -> None:
    with pytest.raises(ValueError, match="exactly when"):
        Reading(Status.VALUE)
    with pytest.raises(ValueError, match="exactly when"):
        Reading(Status.ABSENT, "x")

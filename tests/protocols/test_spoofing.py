"""The advisory inventory of header lookalikes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moorage.protocols.front_matter import parse
from moorage.protocols.spoofing import Place, inventory

REPORT = """---
state: open
number: 7
meta:
  state: closed
state: open
---
Some text.
state: closed
  number: 8
> State: closed
- "number": 9

```yaml
state: closed
```

---
number: 10
prose is no hindrance here
---
"""


def test_every_place_is_named() -> None:
    found = [(sighting.key, sighting.place, sighting.line) for sighting in inventory(REPORT)]

    assert found == [
        ("state", Place.NESTED, 5),
        ("state", Place.DUPLICATE, 6),
        ("state", Place.BODY_LINE, 9),
        ("number", Place.NESTED, 10),
        ("state", Place.BODY_LINE, 11),
        ("number", Place.NESTED, 12),
        ("state", Place.FENCED, 15),
        ("number", Place.BLOCK, 19),
    ]


def test_a_body_line_stands_outside_every_block() -> None:
    found = inventory("---\nstate: open\n---\n\nstate: closed\n")

    assert [(sighting.place, sighting.line, sighting.text) for sighting in found] == [
        (Place.BODY_LINE, 5, "state: closed")
    ]


def test_the_rest_of_a_header_that_was_cut_off_is_a_block() -> None:
    found = inventory("---\nstate: open\n---\n\nstate: closed\n---\nstate: merged\n")

    assert [(sighting.place, sighting.line) for sighting in found] == [(Place.BLOCK, 5), (Place.BODY_LINE, 7)]


@pytest.mark.parametrize(
    "line",
    ["state: closed", "STATE : closed", "**state**: closed", "`state`: closed", "__state__: x", "_state_: x",
     "> state: closed", ">> - **state**: x", "1. state: x", "- [ ] state: x", "- [x] state: x", "state=closed",
     '{"state": "closed"}', "  'state': closed", "# state: closed", "// state: closed", "; state: closed",
     "<!-- state: closed -->", "| state: closed |", "|state: closed|", "| state | closed |", "| **state** | closed |",
     "state\uff1a closed", "\uff53tate: closed", "st\u200bate: closed", "sta\u00adte: x", "\ufeffstate: closed",
     "\u202estate: closed", "x\rstate: closed", "x\u2028state: closed", "x\x85> state: closed",
     "x: 1\vstate: closed"],
)  # fmt: skip
def test_near_misses_are_seen(line: str) -> None:
    (found,) = inventory(f"---\nstate: open\nlabel: a\n---\n\ntext\n{line}\n")

    assert (found.key, found.line, found.text) == ("state", 7, line)


@pytest.mark.parametrize(
    "line", ["the state: closed", "stateful: x", "state", "estate: x", "| x | state: y |", "a:state: b"]
)
def test_names_that_only_look_a_little_alike_are_not(line: str) -> None:
    assert inventory(f"---\nstate: open\n---\n\n{line}\n") == ()


def test_a_header_line_may_hide_another_field() -> None:
    found = inventory("---\nlabel: a\rstate: closed\nstate: open\nst\u200bate: x\n---\n")

    assert [(sighting.key, sighting.place, sighting.line) for sighting in found] == [
        ("state", Place.NESTED, 2),
        ("state", Place.DUPLICATE, 4),
    ]


def test_other_keys_are_no_lookalikes() -> None:
    assert inventory("---\nstate: open\n  deeper: 1\n---\nother: x\n") == ()


def test_a_report_without_header_has_nothing_to_spoof() -> None:
    assert inventory("state: closed\n") == ()


@given(st.lists(st.sampled_from(REPORT.split("\n")), max_size=20))
def test_it_sees_at_least_what_the_reader_sees(lines: list[str]) -> None:
    text = "\n".join(["---", "state: open", "number: 7", "---", *lines])
    header = parse(text)
    seen = {sighting.key for sighting in inventory(text)}

    assert {key for key in header.competing if key in ("state", "number")} <= seen
    assert {key for key in header.body_keys if key in ("state", "number")} <= seen


@given(st.text(max_size=200))
def test_any_text_is_looked_through(text: str) -> None:
    for sighting in inventory("---\n" + text):
        assert ("---\n" + text).replace("\r\n", "\n").split("\n")[sighting.line - 1] == sighting.text

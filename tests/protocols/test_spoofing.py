"""The advisory inventory of header lookalikes."""

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

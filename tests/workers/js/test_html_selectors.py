"""Selectors of `HTMLRewriter.on`."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moorage.wrangler_compat.workers.js.html_selectors import Matcher, Node, Place, Selector
from moorage.wrangler_compat.workers.pyodide.ffi import JsException

ROOT = Node("html", {})
LIST = Node("ul", {"class": "menu open", "id": "m"}, child=2, of_type=1)
ITEM = Node("li", {"data-x": "Hello world", "lang": "en-GB", "type": "A", "empty": ""}, child=3, of_type=2)
ABOVE = [ROOT, LIST]


def holds(text: str, node: Node, above: list[Node]) -> bool:
    matcher, place = Matcher([Selector(text)]), Place()
    for around in above:
        place, _ = matcher.enter(around, place)
    return matcher.enter(node, place)[1] == [0]


@pytest.mark.parametrize(
    "text",
    [
        "*", "li", "LI", "ul li", "html li", "ul > li", "html ul > li", "html > ul > li", "html  >  ul  li", "a, li",
        "b ,\n li", "#m li", "ul.menu > li", ".open.menu li", "li[data-x]", "[data-x='Hello world']",
        "[data-x=\"Hello world\"]", "[data-x^=Hello]", "[data-x$=world]", "[data-x*='lo wo']", "[data-x~=world]",
        "[lang|=en]", "[lang|='en-GB']", "[data-x='hello WORLD' i]", "[type=a]", "[empty]", "[empty='']",
        "li:nth-child(3)", "li:nth-child(odd)", "li:nth-child(2n+1)", "li:nth-child(n)", "li:nth-child(-n+3)",
        "li:nth-of-type(2)", "li:nth-of-type(even)", "li:nth-of-type(2n)", "ul:first-of-type > li", "li:not(.a)",
        "li:not([data-y])", "li:not(a, b)", "li:not(:first-child)", "*:not(ul)", "li ", " li", "[ data-x ]",
    ],
)  # fmt: skip
def test_selectors_that_hold(text: str) -> None:
    assert holds(text, ITEM, ABOVE)


@pytest.mark.parametrize(
    "text",
    [
        "ul", "li li", "html > li", "ul > html li", ".menu", "#m", "[data-x=hello]", "[data-x^=world]",
        "[data-x~=Hel]",
        "[data-x='hello world' s]", "[type=a s]", "[empty^='']", "[empty~='']", "[lang|=e]", "[none]",
        "li:nth-child(2)", "li:nth-child(even)", "li:nth-child(-n+2)", "li:first-child", "li:first-of-type",
        "li:nth-of-type(3n)", "li:not(li)", "li:not([data-x])", "a, b", ":not(*)",
    ],
)  # fmt: skip
def test_selectors_that_do_not(text: str) -> None:
    assert not holds(text, ITEM, ABOVE)


def test_a_descendant_is_looked_for_above_every_match() -> None:
    deep = [Node("a", {}), Node("b", {"id": "x"}), Node("c", {}), Node("b", {}), Node("c", {})]
    assert holds("b#x > c li", ITEM, deep)
    assert not holds("a > c li", ITEM, deep)


@pytest.mark.parametrize(
    "text",
    ["", " ", "a,", ",a", "a >", "> a", "a + b", "a ~ b", "#", ".", "a[", "a[b", "a[b=]", "a[b=c d]", "a:hover",
     "a::before", "a:nth-child", "a:nth-child()", "a:nth-child(x)", "a:not(", "a:not()", "a:not(b c)", "1a",
     "a b,, c", "a)"],
)  # fmt: skip
def test_what_is_no_selector_or_cannot_be_told_in_passing(text: str) -> None:
    with pytest.raises(JsException, match="Parser error"):
        Selector(text)


@given(st.text(alphabet="ab #.>:[]=()~+*,\"'\\n-1", max_size=12))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        holds(text, ITEM, ABOVE)
    except JsException:
        pass


def test_many_at_once() -> None:
    matcher = Matcher([Selector("ul li"), Selector("b"), Selector("html > ul > li, li")])
    place = Place()
    for around in ABOVE:
        place, found = matcher.enter(around, place)
        assert found == []
    assert matcher.enter(ITEM, place)[1] == [0, 2]


def test_an_element_costs_the_same_at_any_depth() -> None:
    matcher, place = Matcher([Selector("p p p > i"), Selector("x p")]), Place()
    for _ in range(50):
        place, _ = matcher.enter(Node("p", {}), place)
    known = place
    for _ in range(1_000):
        place, _ = matcher.enter(Node("p", {}), place)
    assert (len(place.inside), len(place.children)) == (len(known.inside), len(known.children))

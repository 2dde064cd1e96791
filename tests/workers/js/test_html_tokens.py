"""HTML in pieces (HTML Standard 13.2.5)."""

import itertools
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from moorage.wrangler_compat.workers.js import html_tokens
from moorage.wrangler_compat.workers.js.html_tokens import (
    RAW,
    Comment,
    Doctype,
    EndTag,
    StartTag,
    Text,
    Token,
    Tokenizer,
    TokenTooLong,
)


def read(chunks: Iterable[str]) -> list[Token]:
    tokenizer = Tokenizer()
    found: list[Token] = []

    def take(tokens: Iterable[Token]) -> None:
        for token in tokens:
            found.append(token)
            if isinstance(token, StartTag) and (token.name in RAW or token.name == "plaintext"):
                tokenizer.raw_until = token.name

    for chunk in chunks:
        take(tokenizer.feed(chunk))
    take(tokenizer.close())
    return found


def shown(token: Token) -> Any:
    match token:
        case StartTag():
            pairs = [(attribute.name, attribute.value) for attribute in token.attributes]
            return ("start", token.name, *pairs, *(["/"] if token.self_closing else []))
        case EndTag():
            return ("end", token.name)
        case Text():
            return ("text", token.raw)
        case Comment():
            return ("comment", token.text)
        case Doctype():
            return ("doctype", token.name, token.public_id, token.system_id)
    return ("other", token.raw)


@pytest.mark.parametrize(
    ("source", "tokens"),
    [
        ("a", [("text", "a")]),
        ("<P>", [("start", "p")]),
        ("<a href=x>", [("start", "a", ("href", "x"))]),
        ("<a href=/x/>", [("start", "a", ("href", "/x/"))]),
        ("<a href='x y' B = \"z>\" c>", [("start", "a", ("href", "x y"), ("b", "z>"), ("c", ""))]),
        ("<a =x=y>", [("start", "a", ("=x", "y"))]),
        ("<a b=>", [("start", "a", ("b", ""))]),
        ("<a\n/b/ />", [("start", "a", ("b", ""), "/")]),
        ("<br/>", [("start", "br", "/")]),
        ("<br / >", [("start", "br")]),
        ("<x-y.z>", [("start", "x-y.z")]),
        ("</a b='>'>", [("end", "a")]),
        ("</>", [("other", "</>")]),
        ("</ a>", [("comment", " a")]),
        ("<?php x?>", [("comment", "?php x?")]),
        ("<!x>", [("comment", "x")]),
        ("<!>", [("comment", "")]),
        ("<![CDATA[x]]>", [("comment", "[CDATA[x]]")]),
        ("<!-- x -->", [("comment", " x ")]),
        ("<!---->", [("comment", "")]),
        ("<!-->", [("comment", "")]),
        ("<!--->", [("comment", "")]),
        ("<!--a--->", [("comment", "a-")]),
        ("<!--a--!>b", [("comment", "a"), ("text", "b")]),
        ("<!--a--b-->", [("comment", "a--b")]),
        ("<!--a", [("comment", "a")]),
        ("<!doctype html>", [("doctype", "html", None, None)]),
        ("<!DOCTYPE HTML PUBLIC \"-//W3C\" 's'>", [("doctype", "html", "-//W3C", "s")]),
        ('<!DOCTYPE html SYSTEM "s">', [("doctype", "html", None, "s")]),
        ("<!doctype>", [("doctype", None, None, None)]),
        ("1 < 2 <", [("text", "1 "), ("text", "<"), ("text", " 2 "), ("text", "<")]),
        ("<1>", [("text", "<"), ("text", "1>")]),
        ("x<a b", [("text", "x"), ("other", "<a b")]),
        ("<title><b></title>", [("start", "title"), ("text", "<b>"), ("end", "title")]),
        ("<style></styles></STYLE >", [("start", "style"), ("text", "</styles>"), ("end", "style")]),
        ("<textarea><a", [("start", "textarea"), ("text", "<a")]),
        ("<plaintext></plaintext>", [("start", "plaintext"), ("text", "</plaintext>")]),
        ("<script>a</script>", [("start", "script"), ("text", "a"), ("end", "script")]),
        ("<script><!--</script>", [("start", "script"), ("text", "<!--"), ("end", "script")]),
        (
            "<script><!--<script></script></script>",
            [("start", "script"), ("text", "<!--<script></script>"), ("end", "script")],
        ),
        (
            "<script><!--<script>--></script>x",
            [("start", "script"), ("text", "<!--<script>-->"), ("end", "script"), ("text", "x")],
        ),
        ("<script><!--><script></script>", [("start", "script"), ("text", "<!--><script>"), ("end", "script")]),
    ],
)
def test_tokens(source: str, tokens: list[Any]) -> None:
    found = read([source])
    assert [shown(token) for token in found if not (isinstance(token, Text) and token.last)] == tokens
    assert merged(read(list(source))) == merged(found), "character by character the same"


def merged(tokens: list[Token]) -> list[Any]:
    """Texts in one piece."""
    result: list[Any] = []
    for token in tokens:
        if isinstance(token, Text) and result and result[-1][0] == "text" and not result[-1][2]:
            result[-1] = ("text", result[-1][1] + token.raw, token.last)
        elif isinstance(token, Text):
            result.append(("text", token.raw, token.last))
        else:
            result.append(shown(token))
    return result


PIECES = st.sampled_from(
    ["<", ">", "/", "!", "-", "--", "<!--", "-->", "a", "b=", "'", '"', " ", "<a>", "</a>", "<script>", "</script>",
     "<title>", "</title>", "<!doctype ", "<![CDATA[", "]]>", "?", "é", "<style x='", "\x00", "=", "&amp;"]
)  # fmt: skip


@given(st.lists(PIECES, max_size=30), st.lists(st.integers(0, 60), max_size=5))
@example(["<script>", "<!--", "<script>", "-->", "</script>"], [12, 20])
def test_nothing_is_lost_and_cuts_do_not_matter(pieces: list[str], cuts: list[int]) -> None:
    source = "".join(pieces)
    places = [0, *sorted(min(cut, len(source)) for cut in cuts), len(source)]
    chunks = [source[start:end] for start, end in itertools.pairwise(places)]
    found = read(chunks)
    assert "".join(token.raw for token in found) == source
    assert merged(found) == merged(read([source]))


def test_a_text_ends_once() -> None:
    found = read(["a", "b", "<b>", "c"])
    assert [(token.raw, token.last) for token in found if isinstance(token, Text)] == [
        ("a", False), ("b", False), ("", True), ("c", False), ("", True),
    ]  # fmt: skip


def test_a_tag_that_never_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(html_tokens, "MAX_TOKEN", 100)
    with pytest.raises(TokenTooLong):
        read(["<a ", "x" * 101])

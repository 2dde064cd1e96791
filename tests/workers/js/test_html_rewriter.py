"""`js.HTMLRewriter` (the platform's API; selectors and tokens have tests of their own)."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moorage.durable_objects.runtime.web import ReadableStream
from moorage.wrangler_compat.workers import Response, js
from moorage.wrangler_compat.workers.pyodide.ffi import JsException, create_proxy, to_js


async def rewritten(source: Any, *handlers: tuple[str, Any], document: Any = None, kind: str = "text/html") -> bytes:
    rewriter = js.HTMLRewriter.new()
    for selector, functions in handlers:
        assert rewriter.on(selector, functions) is rewriter
    if document is not None:
        rewriter.onDocument(document)
    response = rewriter.transform(js.Response.new(source, headers={"content-type": kind}))
    return bytes(await response.bytes())


async def element(source: str, selector: str, function: Callable[[Any], Any]) -> str:
    return (await rewritten(source, (selector, {"element": function}))).decode()


async def test_links_of_a_page() -> None:
    class Attributes:
        def __init__(self, name: str) -> None:
            self.name = name

        def element(self, element: Any) -> None:
            value = element.getAttribute(self.name)
            if value:
                element.setAttribute(self.name, value.replace("old.com", "new.com"))

    source = "<!DOCTYPE html><a class=b href='http://old.com/x'>t</a><img alt=\"\" src=http://old.com/i /><A>n</A>"
    assert await rewritten(source, ("a", create_proxy(Attributes("href"))), ("img", Attributes("src"))) == (
        b'<!DOCTYPE html><a class=b href="http://new.com/x">t</a><img alt="" src="http://new.com/i" /><A>n</A>'
    )


@pytest.mark.parametrize(
    ("function", "result"),
    [
        (lambda e: e.before("<b>").before("&", html=True), "&lt;b&gt;&<p a=1>x<i>y</i></p>"),
        (lambda e: e.after("1").after("2"), "<p a=1>x<i>y</i></p>21"),
        (lambda e: e.prepend("1").prepend("2"), "<p a=1>21x<i>y</i></p>"),
        (lambda e: e.append("1").append("<b>", {"html": True}), "<p a=1>x<i>y</i>1<b></p>"),
        (lambda e: e.replace("r").before("b").after("a"), "bra"),
        (lambda e: e.remove(), ""),
        (lambda e: e.removeAndKeepContent().append("!"), "x<i>y</i>!"),
        (lambda e: e.setInnerContent("<b>").append("!"), "<p a=1>&lt;b&gt;!</p>"),
        (lambda e: e.setAttribute("B", 'q"'), '<p a=1 b="q&quot;">x<i>y</i></p>'),
        (lambda e: e.setAttribute("A", 2), '<p a="2">x<i>y</i></p>'),
        (lambda e: e.removeAttribute("A"), "<p>x<i>y</i></p>"),
        (lambda e: e.removeAttribute("none"), "<p a=1>x<i>y</i></p>"),
        (lambda e: setattr(e, "tagName", "div"), "<div a=1>x<i>y</i></div>"),
    ],
)
async def test_changes_of_an_element(function: Any, result: str) -> None:
    assert await element("<p a=1>x<i>y</i></p>", "p", function) == result


async def test_what_an_element_tells() -> None:
    seen: list[Any] = []

    def look(e: Any) -> None:
        seen.append((e.tagName, [list(pair) for pair in e.attributes], e.hasAttribute("X"), e.getAttribute("none")))
        seen.append((e.removed, e.namespaceURI.rpartition("/")[2]))
        e.remove()
        seen.append(e.removed)

    await element("<DIV x=1 Y='&amp;'>", "div", look)
    assert seen == [("div", [["x", "1"], ["y", "&amp;"]], True, None), (False, "xhtml"), True]


async def test_elements_without_an_end() -> None:
    assert await element("<br>a", "br", lambda e: e.before("1").after("2").append("no").prepend("no")) == "1<br>2a"
    assert await element("<br class=a/ >", "br", lambda e: e.setAttribute("b", "")) == '<br class=a/ b="">'
    assert await element("<br/>", "br", lambda e: e.setAttribute("b", "")) == '<br b="" />'
    assert await element("<svg><a/>t</svg>", "a", lambda e: e.append("no").after("!")) == "<svg><a/>!t</svg>"
    assert await element("<a/>t</a>", "a", lambda e: e.append("!")) == "<a/>t!</a>"
    with pytest.raises(JsException, match="No end tag"):
        await element("<br>", "br", lambda e: e.onEndTag(print))


async def test_end_tags() -> None:
    names: list[str] = []

    async def ended(end: Any) -> None:
        await asyncio.sleep(0)
        names.append(end.name)
        end.before("1").after("2")
        end.name = "q"

    assert await element("<p>x</P >", "p", lambda e: e.onEndTag(ended).__class__) == "<p>x1</q>2"
    assert names == ["p"]
    assert (
        await element("<p>x</p>", "p", lambda e: e.append("a").after("z").onEndTag(lambda end: end.remove()))
        == "<p>xaz"
    )
    assert await element("<ul><li>a<li>b</ul>c", "li", lambda e: e.append("!")) == "<ul><li>a<li>b!!</ul>c"
    assert await element("<p>a", "p", lambda e: e.append("!").after("?")) == "<p>a!?"
    assert await element("a</p>", "p", lambda e: e.append("!")) == "a</p>"


async def test_texts() -> None:
    seen: list[tuple[str, bool]] = []

    def text(piece: Any) -> None:
        seen.append((piece.text, piece.lastInTextNode))
        if piece.lastInTextNode:
            piece.before("!")
        else:
            piece.replace(piece.text.upper())

    chunks = ReadableStream([b"<p>a", b"b<i>c</i>", b"</p>d"])
    assert await rewritten(chunks, ("p", {"text": text})) == b"<p>AB!<i>C!</i></p>d"
    assert seen == [("a", False), ("b", False), ("", True), ("c", False), ("", True)]
    assert await rewritten("<p>a<p>b", ("p", {"text": lambda piece: piece.after(".")})) == b"<p>a..<p>b..", "once"
    assert (
        await rewritten("<title>a&lt;</title>", ("title", {"text": lambda piece: piece.remove()}))
        == b"<title></title>"
    )


async def test_comments_and_the_document() -> None:
    seen: list[Any] = []

    def comments(comment: Any) -> None:
        seen.append(comment.text)
        comment.text = comment.text.upper()

    document = to_js(
        {
            "doctype": lambda d: seen.append((d.name, d.publicId, d.systemId)),
            "comments": comments,
            "text": lambda piece: piece.remove() if piece.text == "drop" else None,
            "end": lambda end: end.append("<end>").append("!", {"html": True}),
        }
    )
    source = "<!doctype html><!--a--><p>drop<b>keep</b></p><!b>"
    assert await rewritten(source, document=document) == (
        b"<!doctype html><!--A--><p><b>keep</b></p><!--B-->&lt;end&gt;!"
    )
    assert seen == [("html", None, None), "a", "b"]
    with pytest.raises(JsException, match="closing sequence"):
        await rewritten("<!--a-->", document={"comments": lambda comment: setattr(comment, "text", "-->")})


async def test_what_is_removed_is_removed_whole() -> None:
    handlers = ("p", {"element": lambda e: e.setInnerContent("new")})
    inner = ("b", {"element": lambda e: e.before("no").append("no")})
    assert await rewritten("<p>a<b>c</b><br></p>d", handlers, inner) == b"<p>new</p>d"
    assert await rewritten("<p>a<p>b</p></p>c", ("p", {"element": lambda e: e.remove()})) == b"c"


@pytest.mark.parametrize("content", [ReadableStream([b"x"]), js.Response.new("x"), js.Blob.new(["x"])])
async def test_streams_cannot_be_inserted(content: Any) -> None:
    with pytest.raises(JsException, match="read their text first"):
        await element("<p>", "p", lambda e: e.append(content))


async def test_content_is_used_within_its_handler_alone() -> None:
    held: list[Any] = []
    await element("<p>", "p", held.append)
    for use in (held[0].remove, lambda: held[0].setAttribute("a", "b"), lambda: setattr(held[0], "tagName", "q")):
        with pytest.raises(JsException, match="no longer valid"):
            use()


@pytest.mark.parametrize("name", ["", "a b", "a>", "a/", "a=", '"'])
async def test_names_that_would_break_the_tag(name: str) -> None:
    with pytest.raises(JsException, match="Parser error"):
        await element("<p>", "p", lambda e: e.setAttribute(name, "x"))
    if name not in {'"', "a="}:  # these are names of tags
        with pytest.raises(JsException, match="Parser error"):
            await element("<p>", "p", lambda e: setattr(e, "tagName", name or "1"))


async def test_character_sets() -> None:
    bold = ("p", {"element": lambda e: e.append("ü€\U0001f600")})
    assert await rewritten(b"<p>\xfc</p>", bold, kind="text/html; charset=ISO-8859-1") == (
        b"<p>\xfc\xfc\x80&#128512;</p>"
    )
    assert await rewritten(b"<p>\xff\xe9", bold) == b"<p>\xff\xe9" + "ü€\U0001f600".encode()
    assert (
        await rewritten(b"<p>\xc3", bold, kind="text/html; charset=unknown") == b"<p>\xc3" + "ü€\U0001f600".encode()
    )
    cut = ReadableStream([b"<p>\xc3", b"\xbc</p>"])
    assert await rewritten(cut, ("p", {"text": lambda piece: piece.replace(piece.text * 2)})) == "<p>üü</p>".encode()
    with pytest.raises(JsException, match="ASCII"):
        await rewritten(b"", kind="text/html; charset=utf-16")


async def test_the_response_keeps_all_but_its_length() -> None:
    source = Response("<p>", status=201, headers={"content-length": "3", "etag": "x", "content-type": "text/html"})
    made = js.HTMLRewriter.new().on("p", {"element": lambda e: e.append("!")}).transform(source)
    assert (made.status, made.headers.get("etag"), made.headers.get("content-length")) == (201, "x", None)
    assert await made.text() == "<p>!"
    empty = js.HTMLRewriter.new().transform(js.Response.new(None, status=304))
    assert (empty.status, empty.body) == (304, None)
    with pytest.raises(JsException, match="already been used"):
        js.HTMLRewriter.new().transform(source)


async def test_an_error_of_a_handler_cuts_the_body_and_ends_the_source() -> None:
    ended = asyncio.Event()

    async def chunks() -> Any:
        try:
            while True:
                yield b"<p>"
        finally:
            ended.set()

    def fail(_element: Any) -> None:
        raise ValueError("of the handler")

    with pytest.raises(ValueError, match="of the handler"):
        await rewritten(ReadableStream(chunks()), ("p", {"element": fail}))
    await ended.wait()


PIECES = st.sampled_from(
    [b"<p>", b"</p>", b"<svg>", b"</svg>", b"<br/>", b"<![CDATA[<b>]]>", b"<script>", b"</script>", b"<!--", b"-->",
     b"<", b">", b"a", b"\xff", b"\xc3\xa9", b"<a b='", b"'>", b"</", b"<title>", b"</title>", b"<foreignObject>"]
)  # fmt: skip


@given(st.lists(PIECES, max_size=20))
def test_what_no_handler_touches_passes_as_it_is(pieces: list[bytes]) -> None:
    def ignore(_content: Any) -> None: ...

    async def both() -> None:
        handlers = {"element": ignore, "text": ignore, "comments": ignore}
        assert await rewritten(ReadableStream(list(pieces)), ("*", handlers)) == b"".join(pieces)

    asyncio.run(both())

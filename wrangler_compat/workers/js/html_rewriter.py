"""`js.HTMLRewriter`: changes a document while it passes, as its handlers say.

What no handler touches leaves as it came, byte for byte. Nothing is held but the tag that is being read and the
elements that are open.
"""

from __future__ import annotations

import codecs
import re
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from typing import Any, Final

from moorage.durable_objects.runtime.web import Body, PlatformResponse, ReadableStream, Response
from moorage.durable_objects.runtime.web.response import as_response

from . import html_content as content
from . import html_tokens as tokens
from .errors import JsTypeError
from .html_selectors import Matcher, Node, Place, Selector
from .promises import settled
from .streams import called

_CHARSET: Final = re.compile(r"charset\s*=\s*\"?([^\s;\"]+)", re.IGNORECASE)
_HTML: Final = "http://www.w3.org/1999/xhtml"
_FOREIGN: Final = {"svg": "http://www.w3.org/2000/svg", "math": "http://www.w3.org/1998/Math/MathML"}
# Elements of SVG and MathML whose content is HTML again.
_INTEGRATION: Final = frozenset({"foreignobject", "desc", "title", "annotation-xml", "mi", "mo", "mn", "ms", "mtext"})


def _write_bytes(error: UnicodeError) -> tuple[bytes | str, int]:
    """Bytes that could not be decoded come back as they were; other characters become references."""
    assert isinstance(error, UnicodeEncodeError)
    letter = ord(error.object[error.start])
    if 0xDC80 <= letter <= 0xDCFF:
        return bytes([letter - 0xDC00]), error.start + 1
    return ("?" if 0xD800 <= letter <= 0xDFFF else f"&#{letter};"), error.start + 1


codecs.register_error("moorage.html", _write_bytes)


@dataclass(slots=True)
class _Open:
    """An element whose end tag has not come."""

    node: Node
    namespace: str
    element: content.Element | None
    place: Place
    heard: tuple[Any, ...]  # the handlers of it and of what it stands in, for texts and comments
    mute: bool  # its content is not sent


class HTMLRewriter:
    """`HTMLRewriter.new().on(selector, handlers).onDocument(handlers).transform(response)`.

    Handlers of an element are objects with functions `element(element)`, `comments(comment)` and `text(text)`; of the
    document with `doctype(doctype)`, `comments`, `text` and `end(end)`. They may be asynchronous.
    """

    def __init__(self) -> None:
        self._handlers: list[tuple[Selector, Any]] = []
        self._document: list[Any] = []

    @classmethod
    def new(cls, options: Any = None) -> HTMLRewriter:
        return cls()

    def on(self, selector: Any, handlers: Any) -> HTMLRewriter:
        """Raises TypeError for a selector that is none, or that cannot be told while a document passes."""
        self._handlers.append((Selector(str(selector)), _unwrapped(handlers)))
        return self

    def onDocument(self, handlers: Any) -> HTMLRewriter:
        self._document.append(_unwrapped(handlers))
        return self

    def transform(self, response: Any) -> PlatformResponse:
        """The response with its body rewritten as it is read. Raises TypeError for a body that was read before.

        The character set is that of `Content-Type`, UTF-8 without one.
        """
        given = as_response(response)
        if given.body_used:
            raise JsTypeError("Body has already been used. It can only be used once.")
        headers = given.fields.copy()
        source = given.body
        body = None
        if source is not None:
            headers.delete("content-length")
            found = _CHARSET.search(headers.get("content-type") or "")
            rewriting = _Rewriting(self._handlers, self._document, _codec(found[1] if found else "utf-8"))
            body = Body(stream=ReadableStream(rewriting.run(source)))
        made = Response.received(given.status, headers, body, url=given.url, status_text=given.status_text)
        return PlatformResponse(made)


def _codec(label: str) -> str:
    """The codec of a label; UTF-8 for one that is unknown. TypeError where ASCII is not itself in it."""
    try:
        name = codecs.lookup(label).name
        plain = "<>".encode(name) == b"<>"
    except (LookupError, UnicodeError, TypeError):
        return "utf-8"
    if not plain:
        raise JsTypeError(f"Parser error: the character set {label} is not ASCII-compatible.")
    return {"iso8859-1": "cp1252", "ascii": "cp1252"}.get(name, name)


def _unwrapped(handlers: Any) -> Any:
    unwrap = getattr(handlers, "unwrap", None)
    return unwrap() if callable(unwrap) else handlers


def _member(handlers: Any, name: str) -> Any:
    found = handlers.get(name) if isinstance(handlers, dict) else getattr(handlers, name, None)
    return found if callable(found) else None


class _Rewriting:
    """One document."""

    def __init__(self, handlers: list[tuple[Selector, Any]], document: list[Any], codec: str) -> None:
        self._handlers = [functions for _, functions in handlers]
        self._matcher = Matcher(selector for selector, _ in handlers)
        self._document = document
        self._codec = codec
        self._tokenizer = tokens.Tokenizer()
        self._root = Node("", {})
        self._open: list[_Open] = []
        self._names: Counter[str] = Counter()
        self._muted = 0

    async def run(self, source: ReadableStream) -> AsyncIterator[bytes]:
        decoder = codecs.getincrementaldecoder(self._codec)("surrogateescape")
        source.lock()
        try:
            while (chunk := await source.next_chunk()) is not None:
                if text := await self._text(self._tokenizer.feed(decoder.decode(chunk))):
                    yield text
            last = await self._text(self._tokenizer.feed(decoder.decode(b"", final=True)))
            last += await self._text(self._tokenizer.close())
        except tokens.TokenTooLong as error:
            raise JsTypeError(f"Parser error: {error}") from error
        finally:
            await source.cancel()
        while self._open:
            last += self._bytes(self._closed(self._pop(), ""))
        end = content.DocumentEnd()
        for handlers in self._document:
            if (function := _member(handlers, "end")) is not None:
                await settled(called(function, end))
        last += self._bytes("".join(end.appended))
        if last:
            yield last

    async def _text(self, found: Iterator[tokens.Token]) -> bytes:
        return self._bytes("".join([await self._token(token) for token in found]))

    def _push(self, entry: _Open) -> None:
        self._open.append(entry)
        self._names[entry.node.name] += 1
        self._muted += entry.mute

    def _pop(self) -> _Open:
        entry = self._open.pop()
        self._names[entry.node.name] -= 1
        self._muted -= entry.mute
        return entry

    def _bytes(self, text: str) -> bytes:
        return text.encode(self._codec, "moorage.html")

    async def _token(self, token: tokens.Token) -> str:
        match token:
            case tokens.StartTag():
                return await self._started(token)
            case tokens.EndTag():
                return await self._ended(token)
            case tokens.Text():
                return await self._inside("text", content.Text(token), token.raw)
            case tokens.Comment():
                return await self._inside("comments", content.Comment(token), token.raw)
            case tokens.Doctype():
                for handlers in self._document:
                    if (function := _member(handlers, "doctype")) is not None:
                        await settled(called(function, content.Doctype(token)))
        return self._sent(token.raw)

    def _sent(self, text: str) -> str:
        return "" if self._muted else text

    async def _inside(self, kind: str, made: content.Text | content.Comment, raw: str) -> str:
        heard = self._open[-1].heard if self._open else ()
        functions = [_member(handlers, kind) for handlers in (*self._document, *heard)]
        for function in functions:
            if function is not None:
                await settled(called(function, made))
        made.ended()
        return self._sent(made.written(raw))

    async def _started(self, token: tokens.StartTag) -> str:
        namespace = self._namespace(token.name)
        closes = not (token.self_closing if namespace != _HTML else token.name in content.VOID)
        node = self._node(token)
        around = self._open[-1] if self._open else None
        place, numbers = self._matcher.enter(node, Place() if around is None else around.place)
        matched = [self._handlers[number] for number in numbers]
        functions = [function for handlers in matched if (function := _member(handlers, "element")) is not None]
        element: content.Element | None = None
        if functions:
            element = content.Element(token, namespace, closes=closes)
            for function in functions:
                await settled(called(function, element))
            element.ended()
        text = self._sent(token.raw if element is None else element.start())
        if not closes:
            return text + ("" if element is None else self._sent(element.end("")))
        mute = element is not None and (element.removed or element.inner_replaced)
        heard = () if around is None else around.heard
        # once, however many of the elements around a text match
        heard += tuple(handlers for handlers in matched if not any(handlers is other for other in heard))
        self._push(_Open(node, namespace, element, place, heard, mute))
        self._tokenizer.foreign = namespace != _HTML
        if namespace == _HTML and (token.name in tokens.RAW or token.name == "plaintext"):
            self._tokenizer.raw_until = token.name
        return text

    def _namespace(self, name: str) -> str:
        if name in _FOREIGN:
            return _FOREIGN[name]
        around = self._open[-1] if self._open else None
        if around is None or around.node.name in _INTEGRATION:
            return _HTML
        return around.namespace

    def _node(self, token: tokens.StartTag) -> Node:
        parent = self._open[-1].node if self._open else self._root
        parent.children += 1
        parent.types[token.name] = parent.types.get(token.name, 0) + 1
        attributes: dict[str, str] = {}
        for attribute in token.attributes:
            attributes.setdefault(attribute.name, attribute.value)
        return Node(token.name, attributes, parent.children, parent.types[token.name])

    async def _ended(self, token: tokens.EndTag) -> str:
        if not self._names[token.name]:
            return self._sent(token.raw)
        written = []
        while (entry := self._pop()).node.name != token.name:
            written.append(self._closed(entry, ""))  # its end tag was left out
        self._tokenizer.foreign = bool(self._open) and self._open[-1].namespace != _HTML
        raw = token.raw
        element = entry.element
        if element is not None:
            end = content.EndTag(token.name)
            if element.renamed:
                end.name = element.tagName
            for function in element.end_handlers:
                await settled(called(function, end))
            end.ended()
            raw = end.written(raw)
        written.append(self._closed(entry, raw))
        return "".join(written)

    def _closed(self, entry: _Open, tag: str) -> str:
        return self._sent(tag if entry.element is None else entry.element.end(tag))

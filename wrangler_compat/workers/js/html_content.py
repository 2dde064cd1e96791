"""What the handlers of an `HTMLRewriter` get: elements, end tags, texts, comments, the doctype, and the end."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final

from moorage.durable_objects.runtime.web import JsList, js_string

from . import html_tokens as tokens
from .errors import JsTypeError

_NAME: Final = re.compile(r"[A-Za-z][^\t\n\f\r />\x00]*\Z")
_ATTRIBUTE_NAME: Final = re.compile(r"[^\t\n\f\r />=\"'\x00]+\Z")
VOID: Final = frozenset(
    {"area", "base", "basefont", "bgsound", "br", "col", "embed", "frame", "hr", "img", "input", "keygen", "link",
     "meta", "param", "source", "track", "wbr"}
)  # fmt: skip


def content_of(content: Any, options: Any, more: dict[str, Any]) -> str:
    """What is inserted: text with its `<`, `>` and `&` escaped, or as it is with `{"html": True}`."""
    given = {**dict(options or {}), **more}
    if hasattr(content, "getReader") or hasattr(content, "arrayBuffer"):
        raise JsTypeError("HTMLRewriter: streams and responses cannot be inserted here; read their text first.")
    text = js_string(content)
    return text if given.get("html") else text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


class Content:
    """What all of them share. It may be used until its handler has returned."""

    def __init__(self) -> None:
        self._live = True
        self._before: list[str] = []
        self._after: list[str] = []
        self._replacement: list[str] = []
        self.removed = False

    def _check(self) -> None:
        if not self._live:
            raise JsTypeError(
                "This content token is no longer valid. Content tokens are only valid during the execution of the "
                "relevant content handler."
            )

    def before(self, content: Any, options: Any = None, **more: Any) -> Any:
        self._check()
        self._before.append(content_of(content, options, more))
        return self

    def after(self, content: Any, options: Any = None, **more: Any) -> Any:
        """The content stands directly behind: before what earlier calls put there."""
        self._check()
        self._after.insert(0, content_of(content, options, more))
        return self

    def replace(self, content: Any, options: Any = None, **more: Any) -> Any:
        self._check()
        self._replacement = [content_of(content, options, more)]
        self.removed = True
        return self

    def remove(self) -> Any:
        self._check()
        self._replacement = []
        self.removed = True
        return self

    def ended(self) -> None:
        """The handlers have returned."""
        self._live = False

    def written(self, raw: str) -> str:
        """What is sent for it; `raw` is how it stands in the source."""
        inner = "".join(self._replacement) if self.removed else raw
        return "".join([*self._before, inner, *self._after])


class Text(Content):
    """A piece of a text, character references as they are written; `lastInTextNode` for the empty one at its end."""

    def __init__(self, token: tokens.Text) -> None:
        super().__init__()
        self.text = token.raw
        self.lastInTextNode = token.last


class Comment(Content):
    def __init__(self, token: tokens.Comment) -> None:
        super().__init__()
        self._text = token.text
        self.changed = False

    @property
    def text(self) -> str:
        return self._text

    @text.setter
    def text(self, value: Any) -> None:
        self._check()
        text = js_string(value)
        if "-->" in text or "--!>" in text:
            raise JsTypeError("Parser error: Comment text shouldn't contain comment closing sequence (`-->`).")
        self._text, self.changed = text, True

    def written(self, raw: str) -> str:
        return super().written(f"<!--{self._text}-->" if self.changed else raw)


class Doctype:
    """`name`, `publicId`, `systemId`: None where they are not given."""

    def __init__(self, token: tokens.Doctype) -> None:
        self.name, self.publicId, self.systemId = token.name, token.public_id, token.system_id


class DocumentEnd:
    def __init__(self) -> None:
        self.appended: list[str] = []

    def append(self, content: Any, options: Any = None, **more: Any) -> DocumentEnd:
        self.appended.append(content_of(content, options, more))
        return self


class EndTag(Content):
    def __init__(self, name: str) -> None:
        super().__init__()
        self._name = name
        self.changed = False

    @property
    def name(self) -> str:
        return self._name

    @name.setter
    def name(self, value: Any) -> None:
        self._check()
        self._name, self.changed = _checked_name(value), True

    def written(self, raw: str) -> str:
        return super().written(f"</{self._name}>" if self.changed else raw)


class Element(Content):
    """An element at its start tag. Values of attributes are as they are written, without their quotes."""

    def __init__(self, token: tokens.StartTag, namespace: str, *, closes: bool) -> None:
        super().__init__()
        self._token = token
        self._name = token.name
        self._attributes = list(token.attributes)
        self._changed = False
        self._closes = closes
        self.namespaceURI = namespace
        self.prepended: list[str] = []
        self.appended: list[str] = []
        self.inner_replaced = False
        self.tags_removed = False
        self.end_handlers: list[Callable[..., Any]] = []

    @property
    def tagName(self) -> str:
        return self._name

    @tagName.setter
    def tagName(self, value: Any) -> None:
        self._check()
        self._name, self._changed = _checked_name(value), True

    @property
    def renamed(self) -> bool:
        return self._name != self._token.name

    @property
    def attributes(self) -> JsList:
        """Pairs of name and value."""
        return JsList(JsList((attribute.name, attribute.value)) for attribute in self._attributes)

    def _found(self, name: Any) -> tokens.Attribute | None:
        wanted = js_string(name).lower()
        return next((attribute for attribute in self._attributes if attribute.name == wanted), None)

    def getAttribute(self, name: Any) -> str | None:
        found = self._found(name)
        return None if found is None else found.value

    def hasAttribute(self, name: Any) -> bool:
        return self._found(name) is not None

    def setAttribute(self, name: Any, value: Any) -> Element:
        self._check()
        key, text = js_string(name), js_string(value).replace('"', "&quot;")
        if not _ATTRIBUTE_NAME.match(key):
            raise JsTypeError(f"Parser error: {key!r} is not the name of an attribute.")
        made = tokens.Attribute(key.lower(), text, f'{key.lower()}="{text}"')
        found = self._found(key)
        if found is None:
            self._attributes.append(made)
        else:
            self._attributes[self._attributes.index(found)] = made
        self._changed = True
        return self

    def removeAttribute(self, name: Any) -> Element:
        self._check()
        wanted = js_string(name).lower()
        kept = [attribute for attribute in self._attributes if attribute.name != wanted]
        self._changed = self._changed or len(kept) != len(self._attributes)
        self._attributes = kept
        return self

    def prepend(self, content: Any, options: Any = None, **more: Any) -> Element:
        self._check()
        self.prepended.insert(0, content_of(content, options, more))
        return self

    def append(self, content: Any, options: Any = None, **more: Any) -> Element:
        self._check()
        self.appended.append(content_of(content, options, more))
        return self

    def setInnerContent(self, content: Any, options: Any = None, **more: Any) -> Element:
        self._check()
        self.prepended = [content_of(content, options, more)]
        self.appended = []
        self.inner_replaced = True
        return self

    def removeAndKeepContent(self) -> Element:
        self._check()
        self.tags_removed = True
        return self

    def onEndTag(self, handler: Callable[..., Any]) -> None:
        """Calls `handler(end)` at its end tag. TypeError for an element that has none."""
        self._check()
        if not self._closes:
            raise JsTypeError("Parser error: No end tag.")
        self.end_handlers.append(handler)

    def start(self) -> str:
        """What is sent before its content."""
        if self.removed:
            return "".join([*self._before, *self._replacement])
        tag = "" if self.tags_removed else self._tag()
        return "".join([*self._before, tag, *(self.prepended if self._closes else ())])

    def end(self, tag: str) -> str:
        """What is sent behind its content; `tag` is its end tag, if it has one."""
        if self.removed:
            return "".join(self._after)
        closing = "" if self.tags_removed else tag
        return "".join([*(self.appended if self._closes else ()), closing, *self._after])

    def _tag(self) -> str:
        if not self._changed:
            return self._token.raw
        inner = "".join(f" {attribute.raw}" for attribute in self._attributes)
        # the blank keeps the slash out of a value without quotes
        return f"<{self._name}{inner}{' />' if self._token.self_closing else '>'}"


def _checked_name(value: Any) -> str:
    name = js_string(value)
    if not _NAME.match(name):
        raise JsTypeError(f"Parser error: {name!r} is not the name of a tag.")
    return name

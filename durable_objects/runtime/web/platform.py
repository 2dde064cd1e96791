"""Requests and responses under the platform's own spellings: what `js.Request` and `js.Response` are.

A view holds the message and shares its body and its fields: reading one reads the other. `headers` is live here,
while the Python API's `.headers` is a copy.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from .blob import Blob
from .errors import JsSyntaxError, JsTypeError, javascript_errors
from .formdata import FormData
from .headers import Headers
from .request import Request
from .response import Response, response_options
from .streams import ReadableStream
from .values import JsBytes


def _compact(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


serializers: dict[str, Callable[[Any], str | None]] = {"json": _compact}
"""How `Response.json(…)` writes its value; the module `js` brings its own `JSON.stringify`."""


class PlatformMessage:
    """What both views share."""

    __slots__ = ("message",)

    message: Any

    @property
    def headers(self) -> Headers:
        fields: Headers = self.message.fields
        return fields

    @property
    def body(self) -> ReadableStream | None:
        body: ReadableStream | None = self.message.body
        return body

    @property
    def bodyUsed(self) -> bool:
        return bool(self.message.body_used)

    def _unread(self) -> None:
        if self.message.body_used:
            raise JsTypeError(
                "Body has already been used. It can only be used once. Use tee() first if you need to read it twice."
            )

    async def text(self) -> str:
        self._unread()
        text: str = await self.message.text()
        return text

    async def json(self) -> Any:
        """The parsed body; a JavaScript SyntaxError when it is no JSON."""
        self._unread()
        try:
            return await self.message._json()
        except json.JSONDecodeError as error:
            raise JsSyntaxError(str(error)) from error

    async def arrayBuffer(self) -> JsBytes:
        self._unread()
        return JsBytes(await self.message.bytes())

    async def bytes(self) -> JsBytes:
        self._unread()
        return JsBytes(await self.message.bytes())

    async def blob(self) -> Blob:
        self._unread()
        blob: Blob = await self.message.blob()
        return blob

    async def formData(self) -> FormData:
        self._unread()
        form: FormData = await self.message.form_data()
        return form


def _members(init: Any, options: dict[str, Any]) -> dict[str, Any]:
    return {**dict(init or {}), **options}


def _request_members(source: Request) -> dict[str, Any]:
    """What `new Request(url, source)` takes over: a request counts as an init object of its own members."""
    return {
        "method": source.method,
        "headers": source.fields,
        "body": None if source.method in {"GET", "HEAD"} else source.body,
        "redirect": source.redirect,
        "cf": source.cf,
        "signal": source.signal,
    }


class PlatformRequest(PlatformMessage):
    """`js.Request`; `PlatformRequest.new(url_or_request, init)` makes one, keywords count as members of `init`."""

    __slots__ = ()

    message: Request

    def __init__(self, message: Request) -> None:
        self.message = message

    @classmethod
    @javascript_errors
    def new(cls, input: Any, init: Any = None, **options: Any) -> PlatformRequest:
        if isinstance(init, Request | PlatformRequest):
            init = _request_members(init if isinstance(init, Request) else init.message)
        return cls(Request(input, **_members(init, options)))

    @property
    def url(self) -> str:
        return self.message.url

    @property
    def method(self) -> str:
        return str(self.message.method)

    @property
    def cf(self) -> Any:
        return self.message.cf

    @property
    def signal(self) -> Any:
        return self.message.signal

    @property
    def redirect(self) -> str:
        return self.message.redirect

    @property
    def isHistoryNavigation(self) -> bool:
        return False

    @property
    def referrerPolicy(self) -> Any:
        return self.message.referrer_policy

    @property
    def js_object(self) -> PlatformRequest:
        return self

    def __getattr__(self, name: str) -> Any:
        if name in {"cache", "credentials", "destination", "integrity", "keepalive", "mode", "referrer"}:
            return self.message.hint(name)
        raise AttributeError(f"js.Request has no attribute {name!r}")

    def clone(self) -> PlatformRequest:
        return PlatformRequest(self.message.clone())

    def __repr__(self) -> str:
        return f"js.{self.message!r}"


class PlatformResponse(PlatformMessage):
    """`js.Response`; `.new(body, init)`, `.json(data, init)`, `.redirect(url, status)` and `.error()` make one."""

    __slots__ = ()

    message: Response

    def __init__(self, message: Response) -> None:
        self.message = message

    @classmethod
    @javascript_errors
    def new(cls, body: Any = None, init: Any = None, **options: Any) -> PlatformResponse:
        if isinstance(init, PlatformResponse | Response):
            source = init if isinstance(init, Response) else init.message
            init = {
                "status": source.status,
                "statusText": source._status_text,
                "headers": source.fields,
                "webSocket": source.web_socket,
            }
        if isinstance(body, dict | list):
            body = "[object Object]" if isinstance(body, dict) else ",".join(map(str, body))
        return cls(Response(body, **response_options(_members(init, options))))

    @staticmethod
    @javascript_errors
    def _static_json(data: Any, init: Any = None, **options: Any) -> PlatformResponse:
        text = serializers["json"](data)
        if text is None:
            raise TypeError("The value is not JSON serializable")
        members = response_options(_members(init, options))
        members["headers"] = Headers(members["headers"])
        if "content-type" not in members["headers"]:
            members["headers"].set("content-type", "application/json")
        return PlatformResponse(Response(text, **members))

    def json(self: Any, *args: Any, **options: Any) -> Any:
        """On a response: awaitable, the parsed body. On the class: a response of compact JSON."""
        if isinstance(self, PlatformResponse):
            return PlatformMessage.json(self)
        return PlatformResponse._static_json(self, *args, **options)

    @staticmethod
    @javascript_errors
    def redirect(url: Any, status: int = 302) -> Any:
        return Response.redirect(url, status)

    @staticmethod
    def error() -> Any:
        return Response.error()

    @property
    def status(self) -> int:
        return self.message.status

    @property
    def statusText(self) -> str:
        return self.message.status_text

    @property
    def ok(self) -> bool:
        return self.message.ok

    @property
    def url(self) -> str:
        return self.message.url

    @property
    def redirected(self) -> bool:
        return self.message.redirected

    @property
    def type(self) -> str:
        return self.message.response_type

    @property
    def webSocket(self) -> Any:
        return self.message.web_socket

    @property
    def js_object(self) -> PlatformResponse:
        return self

    @property
    def js_response(self) -> PlatformResponse:
        return self

    def clone(self) -> PlatformResponse:
        return PlatformResponse(self.message.clone())

    def __repr__(self) -> str:
        return f"js.{self.message!r}"

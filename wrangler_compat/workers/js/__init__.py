"""What user code imports as `js`: the platform's global objects, as far as public Workers use them (spec 6).

Constructors are `Name.new(...)`; keywords to one become members of its options. Results are Python values that also
answer to JavaScript's spellings.
"""

from __future__ import annotations

import builtins as _builtins
from typing import Any

from moorage.durable_objects.runtime.web import URL, FormData, Headers, URLSearchParams
from moorage.durable_objects.runtime.web import Blob as _Blob
from moorage.durable_objects.runtime.web import File as _File
from moorage.durable_objects.runtime.web import PlatformRequest as Request
from moorage.durable_objects.runtime.web import PlatformResponse as Response
from moorage.durable_objects.runtime.web.platform import serializers as _serializers

from .abort import AbortController, AbortSignal
from .binary import (
    ArrayBuffer,
    BigInt64Array,
    BigUint64Array,
    DataView,
    Float32Array,
    Float64Array,
    Int8Array,
    Int16Array,
    Int32Array,
    Uint8Array,
    Uint8ClampedArray,
    Uint16Array,
    Uint32Array,
)
from .caches import Cache, CacheStorage
from .dates import Date
from .errors import DOMException, Error, JsException, NetworkError
from .errors import JsRangeError as RangeError
from .errors import JsSyntaxError as SyntaxError
from .errors import JsTypeError as TypeError
from .functions import (
    Math,
    decodeURI,
    decodeURIComponent,
    encodeURI,
    encodeURIComponent,
    isFinite,
    isNaN,
    parseFloat,
    parseInt,
    structuredClone,
)
from .json_text import JSON
from .objects import Array, Map, Number, Object, RegExp, Set
from .promises import AggregateError, Promise
from .streams import ReadableStream, WritableStream
from .text import Console, TextDecoder, TextEncoder, atob, btoa
from .timing import Performance, clearInterval, clearTimeout, queueMicrotask, setInterval, setTimeout
from .transforms import (
    CompressionStream,
    DecompressionStream,
    FixedLengthStream,
    IdentityTransformStream,
    TransformStream,
)
from .webcrypto import Crypto, CryptoKey, SubtleCrypto

_serializers["json"] = JSON.stringify

undefined = None
NaN = float("nan")
Infinity = float("inf")
caches = CacheStorage()
console = Console()
crypto = Crypto()
performance = Performance()


class Blob(_Blob):
    """`Blob.new(parts, {"type": …})`."""

    __slots__ = ()

    @classmethod
    def new(cls, parts: Any = (), options: Any = None, **more: Any) -> _Blob:
        given = {**dict(options or {}), **more}
        return _Blob(list(parts), content_type=given.get("type"), endings=given.get("endings"))


class File(_File):
    """`File.new(parts, name, {"type": …, "lastModified": …})`."""

    __slots__ = ()

    @classmethod
    def new(cls, parts: Any, name: str, options: Any = None, **more: Any) -> _File:
        given = {**dict(options or {}), **more}
        return _File(
            list(parts),
            name,
            content_type=given.get("type"),
            endings=given.get("endings"),
            last_modified=given.get("lastModified"),
        )


def fetch(resource: Any, init: Any = None, **options: Any) -> Promise:
    """`fetch(url, init)`: the platform's spelling of `workers.fetch`; the answer is a `js.Response`.

    The request leaves whether or not somebody awaits the promise. Every failure is a `JsException`; one of the
    network is an OSError as well.
    """
    from ..outgoing import fetch as send

    async def answer() -> Response:
        try:
            return (await send(resource, **{**dict(init or {}), **options})).js_object
        except JsException:
            raise
        except _builtins.TypeError as error:
            raise TypeError(str(error)) from error
        except OSError as error:
            raise NetworkError(str(error)) from error

    return Promise(answer())


class _Process:
    """`js.process`: an empty environment, as a Worker without `nodejs_compat` has none."""

    env: dict[str, str] = {}
    platform = "linux"


process = _Process()


class _Navigator:
    """`js.navigator`: what libraries ask to know that they run in a Worker."""

    userAgent = "Cloudflare-Workers"
    hardwareConcurrency = 1
    language = "en"


navigator = _Navigator()

# Classes that stand in for the runtime's `WebSocket`, `WebSocketPair` and `WebSocketRequestResponsePair`.
web_sockets: dict[str, Any] = {}

_NOT_OFFERED = {
    "eval": "JavaScript",
    "Function": "JavaScript",
    "WebAssembly": "WebAssembly",
    "document": "a browser's document",
    "window": "a browser's window",
}


class NotOffered:
    """Stands for a global that Moorage does not offer; using it raises NotImplementedError with its name."""

    def __init__(self, name: str, what: str) -> None:
        self._text = f"js.{name}: Moorage does not offer {what}"

    def __getattr__(self, name: str) -> Any:
        raise NotImplementedError(self._text)

    def __call__(self, *_args: Any, **_options: Any) -> Any:
        raise NotImplementedError(self._text)


def __getattr__(name: str) -> Any:
    if name in {"globalThis", "self"}:
        import sys

        return sys.modules[__name__]
    if name in {"WebSocketPair", "WebSocket", "WebSocketRequestResponsePair"}:
        return web_sockets[name] if name in web_sockets else _web_socket(name)
    if name == "HTMLRewriter":
        from .html_rewriter import HTMLRewriter

        return HTMLRewriter
    if name in _NOT_OFFERED:
        return NotOffered(name, _NOT_OFFERED[name])
    raise AttributeError(f"module 'js' has no attribute {name!r}")


def _web_socket(name: str) -> Any:
    from moorage.durable_objects import runtime

    from .. import sockets  # noqa: F401 - brings the network of outgoing sockets

    return getattr(runtime, name)


__all__ = [
    "JSON",
    "URL",
    "AbortController",
    "AbortSignal",
    "AggregateError",
    "Array",
    "ArrayBuffer",
    "BigInt64Array",
    "BigUint64Array",
    "Blob",
    "Cache",
    "CacheStorage",
    "CompressionStream",
    "CryptoKey",
    "DOMException",
    "DataView",
    "Date",
    "DecompressionStream",
    "Error",
    "File",
    "FixedLengthStream",
    "Float32Array",
    "Float64Array",
    "FormData",
    "Headers",
    "IdentityTransformStream",
    "Int8Array",
    "Int16Array",
    "Int32Array",
    "Map",
    "Math",
    "Number",
    "Object",
    "Promise",
    "RangeError",
    "ReadableStream",
    "RegExp",
    "Request",
    "Response",
    "Set",
    "SubtleCrypto",
    "SyntaxError",
    "TextDecoder",
    "TextEncoder",
    "TransformStream",
    "TypeError",
    "URLSearchParams",
    "Uint8Array",
    "Uint8ClampedArray",
    "Uint16Array",
    "Uint32Array",
    "WritableStream",
    "atob",
    "btoa",
    "caches",
    "clearInterval",
    "clearTimeout",
    "console",
    "crypto",
    "decodeURI",
    "decodeURIComponent",
    "encodeURI",
    "encodeURIComponent",
    "fetch",
    "isFinite",
    "isNaN",
    "parseFloat",
    "parseInt",
    "performance",
    "queueMicrotask",
    "setInterval",
    "setTimeout",
    "structuredClone",
    "undefined",
]

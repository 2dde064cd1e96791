"""HTTP messages as Workers see them: requests, responses, headers, forms, blobs, streams and URLs.

Needs no server: a request is built over any ASGI scope, a response is sent to any ASGI `send`.
"""

from .blob import Blob, File
from .body import Body, Message
from .exchange import BodyTooLarge, Exchange
from .formdata import FormData, FormDataValue
from .headers import Headers, HeadersMessage
from .platform import PlatformRequest, PlatformResponse
from .request import Request, as_request, scope_url
from .response import Response, as_response
from .streams import ReadableStream, StreamReader
from .url import URL
from .urlsearchparams import URLSearchParams
from .values import JsBytes, JsDict, JsList, js_string, to_plain, to_platform

__all__ = [
    "URL",
    "Blob",
    "Body",
    "BodyTooLarge",
    "Exchange",
    "File",
    "FormData",
    "FormDataValue",
    "Headers",
    "HeadersMessage",
    "JsBytes",
    "JsDict",
    "JsList",
    "Message",
    "PlatformRequest",
    "PlatformResponse",
    "ReadableStream",
    "Request",
    "Response",
    "StreamReader",
    "URLSearchParams",
    "as_request",
    "as_response",
    "js_string",
    "scope_url",
    "to_plain",
    "to_platform",
]

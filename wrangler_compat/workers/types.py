"""`workers.types`: the names that programs annotate with."""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPMethod
from typing import Any, Literal, TypedDict

from moorage.durable_objects.runtime.web import (
    Blob,
    FormData,
    FormDataValue,
    ReadableStream,
    URLSearchParams,
)
from moorage.durable_objects.runtime.web import Headers as PlatformHeaders
from moorage.durable_objects.runtime.web import Response as FetchResponse

from .current import ExecutionContext as Context

JSBody = str | bytes | bytearray | memoryview | Blob | ReadableStream | URLSearchParams
Body = JSBody | FormData
Headers = Mapping[str, str] | list[tuple[str, str]] | PlatformHeaders
BlobEnding = Literal["transparent", "native"]
BlobValue = str | bytes | bytearray | memoryview | Blob
RequestInitCfProperties = dict[str, Any]


class FetchKwargs(TypedDict, total=False):
    """Options of `fetch` and `Request`."""

    method: HTTPMethod | str
    headers: Headers
    body: Body | None
    redirect: str
    cf: RequestInitCfProperties
    signal: Any
    fetcher: Any


__all__ = [
    "BlobEnding",
    "BlobValue",
    "Body",
    "Context",
    "FetchKwargs",
    "FetchResponse",
    "FormDataValue",
    "Headers",
    "JSBody",
    "RequestInitCfProperties",
]

"""What bindings take and give: options by dictionary or keyword, and results as platform or as plain values."""

from collections.abc import AsyncIterable, Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

from moorage.durable_objects.runtime.web import Blob, JsBytes, ReadableStream, to_plain, to_platform

from ..workers.discovery import Compatibility
from ..workers.js.binary import JsBuffer, buffer_bytes

PLAIN_VALUES = "moorage_plain_values"
"""A compatibility flag of ours: results are plain dicts, lists and bytes, without `.to_py()` and the like."""


class BindingError(Exception):
    """A binding cannot be built; the text names it and says what would be right."""


@dataclass(frozen=True, slots=True)
class Presentation:
    """The form of results: `value` is for dicts and lists, `buffer` for an ArrayBuffer's bytes."""

    value: Callable[[Any], Any] = to_platform
    buffer: Callable[[bytes], Any] = JsBytes

    @classmethod
    def of(cls, date: str | None, flags: Collection[str]) -> "Presentation":
        """The form that a Worker's compatibility date and flags choose (spec python-workers-api 1).

        The external SDK hands buffers out as `memoryview`; the one before as objects with `.to_py()`.
        """
        if PLAIN_VALUES in flags:
            return cls(to_plain, bytes)
        return cls(to_platform, memoryview if Compatibility.of(date, flags).external_sdk else JsBytes)


def options_of(options: Any, keywords: Mapping[str, Any], known: Collection[str], method: str) -> dict[str, Any]:
    """One dictionary of the trailing options and the keyword arguments, which win; members that are None are absent.

    Raises TypeError for options that are no dictionary and for a keyword that is not in `known`; unknown members of
    the dictionary are ignored, as on the platform.
    """
    merged: dict[str, Any] = {}
    if options is not None:
        if not isinstance(options, Mapping):
            raise TypeError(f"{method}(): the options must be a dictionary, not {type(options).__name__}")
        merged.update((name, value) for name, value in options.items() if name in known)
    for name, value in keywords.items():
        if name not in known:
            raise TypeError(f"{method}() got an unexpected option {name!r}; known are {', '.join(sorted(known))}")
        merged[name] = value
    return {name: value for name, value in merged.items() if value is not None}


def is_buffer(value: Any) -> bool:
    """Whether `value` is bytes of any kind."""
    return isinstance(value, bytes | bytearray | memoryview | JsBuffer)


async def body_bytes(value: Any, most: int) -> bytes | None:
    """The bytes of text, a buffer, a Blob or a stream; None for anything else.

    A stream is not read beyond `most` bytes: of a longer one that many and one more come back.
    """
    if isinstance(value, str):
        return value.encode("utf-8", "replace")
    if is_buffer(value):
        return buffer_bytes(value)
    if isinstance(value, Blob):
        return bytes(await value.bytes())
    if isinstance(value, AsyncIterable):
        return await _gathered(value if isinstance(value, ReadableStream) else ReadableStream(value), most)
    return None


async def _gathered(stream: ReadableStream, most: int) -> bytes:
    stream.lock()
    gathered = bytearray()
    while (chunk := await stream.next_chunk()) is not None:
        gathered += chunk
        if len(gathered) > most:
            await stream.cancel()
            return bytes(gathered[: most + 1])
    return bytes(gathered)

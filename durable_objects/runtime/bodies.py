"""Streams that leave an object: every chunk is produced behind its input gate, and leaves through its output gate."""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

from .web import ReadableStream, Response

if TYPE_CHECKING:
    from .instance import Instance

_log = logging.getLogger("moorage.runtime")


class _Outgoing(AsyncIterator[bytes]):
    """The chunks of an object's stream, each asked for by an event of the object.

    A chunk is handed over once everything that was written before it is durable. Until the stream has ended or was
    closed the object stays in memory.
    """

    def __init__(self, instance: "Instance", stream: ReadableStream) -> None:
        stream.lock()
        self._stream = stream
        self._instance = instance
        self._open = True
        instance.active += 1

    async def __anext__(self) -> bytes:
        answer, task = self._instance.deliver(self._stream.next_chunk, _as_it_is)
        try:
            chunk: bytes | None = await answer
        except asyncio.CancelledError:
            task.cancel()  # nobody waits for the chunk any more
            raise
        except BaseException:
            self._end()
            raise
        if chunk is None:
            self._end()
            raise StopAsyncIteration
        return chunk

    async def aclose(self) -> None:
        """Closes the source, as an event of the object."""
        if not self._open:
            return
        try:
            await self._instance.event(self._stream.cancel, _as_it_is)
        except Exception as error:
            _log.debug("a stream of %s could not be closed: %s", self._instance.id, error)
        finally:
            self._end()

    def _end(self) -> None:
        if self._open:
            self._open = False
            self._instance.release()

    def __del__(self) -> None:
        if self._open:
            self._open = False
            with contextlib.suppress(RuntimeError):  # the loop is closed: there is no object to keep any more
                self._instance.loop.call_soon_threadsafe(self._instance.release)


def outgoing_stream(instance: "Instance", stream: ReadableStream) -> ReadableStream:
    """Returns the stream that the other side reads in place of `stream`. Raises TypeError when that one is locked."""
    return ReadableStream(_Outgoing(instance, stream))


def outgoing_response(instance: "Instance", response: Response) -> Response:
    """Puts an outgoing stream in the place of the response's body, where its bytes are not all there yet."""
    body = response._body
    if body is not None and body.streaming and not body.used and not response.passthrough:
        response._body = type(body)(stream=outgoing_stream(instance, body.stream()))
    return response


def _as_it_is(value: Any) -> Any:
    return value

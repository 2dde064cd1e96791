"""What a consumer's `queue(batch)` is handed."""

import datetime
from collections.abc import Sequence
from typing import Any

from moorage.durable_objects.runtime.web import JsList

from ..values import Presentation, options_of
from .rules import Decisions, decode, delay_of


class Message:
    """One message: `id`, `timestamp` (naive local, as the platform's conversion gives), `body`, `attempts`.

    `ack()` and `retry()` decide about it; the first of them counts.
    """

    __slots__ = ("_batch", "attempts", "body", "id", "timestamp")

    def __init__(self, batch: "MessageBatch", name: str, timestamp: int, body: Any, attempts: int) -> None:
        self._batch = batch
        self.id = name
        self.timestamp = datetime.datetime.fromtimestamp(timestamp / 1000)
        self.body = body
        self.attempts = attempts

    def ack(self) -> None:
        """The message is done, whatever becomes of the batch."""
        if self.id not in self._batch._retried:
            self._batch._acked.add(self.id)

    def retry(self, options: Any = None, **keywords: Any) -> None:
        """The message is handed out again, after `delaySeconds` or the consumer's `retry_delay`."""
        given = options_of(options, keywords, ("delaySeconds",), "retry")
        delay = None if "delaySeconds" not in given else delay_of(given["delaySeconds"], "retry")
        if self.id not in self._batch._acked:
            self._batch._retried.setdefault(self.id, delay)

    def __repr__(self) -> str:
        return f"Message(id={self.id!r}, attempts={self.attempts})"


class MessageBatch:
    """`queue` is the queue's name, `messages` the messages in order of their time.

    Made of rows: id, body, timestamp in milliseconds since 1970, attempts.

    Without a word all of them are done when the handler returns, and are handed out again when it raises.
    """

    def __init__(self, queue: str, rows: Sequence[Sequence[Any]]) -> None:
        self.queue = queue
        self._acked: set[str] = set()
        self._retried: dict[str, int | None] = {}
        self._all: tuple[bool, int | None] | None = None
        self.messages = JsList(
            Message(self, name, timestamp, body, attempts) for name, body, timestamp, attempts in rows
        )

    def ackAll(self) -> None:
        """Every message not yet decided about is done."""
        if self._all is None:
            self._all = (True, None)

    def retryAll(self, options: Any = None, **keywords: Any) -> None:
        """Every message not yet decided about is handed out again, after `delaySeconds` if given."""
        given = options_of(options, keywords, ("delaySeconds",), "retryAll")
        delay = None if "delaySeconds" not in given else delay_of(given["delaySeconds"], "retryAll")
        if self._all is None:
            self._all = (False, delay)

    def decisions(self, *, failed: bool) -> Decisions:
        """What was said of the batch; `failed` when the handler raised."""
        every = self._all
        return Decisions(
            frozenset(self._acked),
            dict(self._retried),
            ack_all=every is not None and every[0],
            retry_all=every is not None and not every[0],
            retry_all_delay=None if every is None else every[1],
            failed=failed,
        )


def body_of(data: bytes, content_type: str, form: Presentation) -> Any:
    """The body that a consumer gets for what was kept."""
    value = decode(data, content_type)
    return form.buffer(value) if content_type == "bytes" else form.value(value)

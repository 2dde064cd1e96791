"""The binding `env.QUEUE`."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ...workers.bindings import Binding
from ..values import options_of
from .rules import check_sizes, delay_of, encode


class WorkerQueue(Binding):
    """Sends to one queue (spec python-workers-api 5). A message is durable when the call returns.

    `store` is a stub of a `QueueStore`, `now` the clock in milliseconds, `sent` is called after each send. `delay` is
    the producer's `delivery_delay` in milliseconds, `content_type` what a body is kept as unless the call says.
    """

    __slots__ = ("_content_type", "_delay", "_now", "_sent", "_store")

    def __init__(
        self,
        store: Any,
        now: Callable[[], int],
        sent: Callable[[], None],
        *,
        delay: int = 0,
        content_type: str = "json",
    ) -> None:
        self._store = store
        self._now = now
        self._sent = sent
        self._delay = delay
        self._content_type = content_type

    async def send(self, body: Any = None, options: Any = None, **keywords: Any) -> None:
        """Sends one message. Options: `contentType` (`json`, `text`, `bytes`, `v8`), `delaySeconds` (up to 12 h).

        Raises TypeError for a body that its content type cannot hold, QueueSendError beyond 128,000 bytes.
        """
        given = options_of(options, keywords, ("contentType", "delaySeconds"), "send")
        await self._add([self._row(body, given, None, "send")])

    async def sendBatch(self, messages: Iterable[Any], options: Any = None, **keywords: Any) -> None:
        """Sends messages, each a dictionary with `body` and its own `contentType` and `delaySeconds`: all or none.

        `delaySeconds` of the options is for those that have none. Raises QueueSendError for more than a hundred
        messages or 256,000 bytes.
        """
        given = options_of(options, keywords, ("delaySeconds",), "sendBatch")
        rows = []
        for place, message in enumerate(messages):
            if not isinstance(message, Mapping):
                raise TypeError(f"sendBatch(): message {place} must be a dictionary with `body`, not {message!r}")
            own = options_of(message, {}, ("contentType", "delaySeconds"), "sendBatch")
            rows.append(self._row(message.get("body"), own, given.get("delaySeconds"), f"sendBatch message {place}"))
        if not rows:
            raise TypeError("sendBatch() requires at least one message")
        await self._add(rows)

    def _row(self, body: Any, given: dict[str, Any], common: Any, where: str) -> list[Any]:
        content_type = given.get("contentType", self._content_type)
        delay = given.get("delaySeconds", common)
        now = self._now()
        due = now + (self._delay if delay is None else delay_of(delay, where))
        return [encode(body, content_type), content_type, now, due]

    async def _add(self, rows: list[list[Any]]) -> None:
        check_sizes([len(row[0]) for row in rows])
        await self._store.add(rows)
        self._sent()

"""Limits of queues, how bodies are written down, and what follows from a handler's decisions (platform: Queues).

Pure: times are handed in, in milliseconds since 1970.
"""

import datetime
import json
import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from moorage.durable_objects.runtime.clone import dumps, loads
from moorage.durable_objects.runtime.web import js_string, to_plain

from ...config.model import QueueConsumer
from ...workers.js.binary import buffer_bytes
from ...workers.js.dates import Date
from ..values import BindingError, is_buffer

MAX_MESSAGE: Final = 128_000
MAX_BATCH_MESSAGES: Final = 100
MAX_BATCH: Final = 256_000
MAX_DELAY: Final = 43_200
RETENTION: Final = 4 * 24 * 3600 * 1000
CONTENT_TYPES: Final = ("json", "text", "bytes", "v8")


class QueueSendError(Exception):
    """A message or batch is beyond a limit; nothing of it was sent."""


@dataclass(frozen=True, slots=True)
class ConsumerSettings:
    """How batches are made: sizes in messages, times in milliseconds. Defaults are the platform's.

    max_concurrency: batches that are handled at once; the platform's own choice, where none is given, is ours here.
    """

    queue: str
    max_batch_size: int = 10
    max_batch_timeout: int = 5_000
    max_retries: int = 3
    dead_letter_queue: str | None = None
    retry_delay: int = 0
    max_concurrency: int = 10


_BOUNDS: Final = {
    "max_batch_size": (1, 100),
    "max_batch_timeout": (0, 60),
    "max_retries": (0, 100),
    "retry_delay": (0, MAX_DELAY),
    "max_concurrency": (1, 250),
}
_SECONDS: Final = frozenset({"max_batch_timeout", "retry_delay"})


def settings_of(consumer: QueueConsumer) -> ConsumerSettings:
    """The settings of a configured consumer. Raises BindingError that names the key and its bounds."""
    given: dict[str, int] = {}
    for name, (least, most) in _BOUNDS.items():
        value = getattr(consumer, name)
        if value is None:
            continue
        whole = name in _SECONDS or float(value).is_integer()
        if not whole or not least <= value <= most:
            raise BindingError(
                f"queues.consumers: {name} of the queue {consumer.queue} is {value:g}, but must be "
                f"{'a number' if name in _SECONDS else 'a whole number'} from {least} to {most}"
            )
        given[name] = round(value * 1000) if name in _SECONDS else int(value)
    if consumer.dead_letter_queue == consumer.queue:
        raise BindingError(f"queues.consumers: the queue {consumer.queue} cannot be its own dead_letter_queue")
    return ConsumerSettings(consumer.queue, dead_letter_queue=consumer.dead_letter_queue, **given)


def delay_of(value: Any, where: str) -> int:
    """`delaySeconds` as milliseconds. Raises TypeError or ValueError that names `where`."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise TypeError(f"{where}: delaySeconds must be a number of seconds, not {value!r}")
    if not 0 <= value <= MAX_DELAY:
        raise ValueError(f"{where}: delaySeconds must be from 0 to {MAX_DELAY}, not {value:g}")
    return round(value * 1000)


def encode(body: Any, content_type: str) -> bytes:
    """The bytes that are kept. Raises TypeError for a body that its content type cannot hold."""
    match content_type:
        case "text":
            if not isinstance(body, str):
                raise _wrong_type("text", "string", body)
            return body.encode("utf-8", "replace")
        case "bytes":
            if not is_buffer(body):
                raise _wrong_type("bytes", "ArrayBufferView", body)
            return buffer_bytes(body)
        case "json":
            return json_bytes(body)
        case "v8":
            return dumps(to_plain(body))
    raise TypeError(f"Unsupported queue message content type: {content_type}; known are {', '.join(CONTENT_TYPES)}")


def decode(data: bytes, content_type: str) -> Any:
    """The body again, as plain values."""
    match content_type:
        case "text":
            return data.decode()
        case "bytes":
            return data
        case "v8":
            return loads(data)
    return json.loads(data)


def _wrong_type(content_type: str, expected: str, body: Any) -> TypeError:
    return TypeError(
        f'Content Type "{content_type}" requires a value of type {expected}, but received: {type(body).__name__}'
    )


def json_bytes(body: Any) -> bytes:
    """What `JSON.stringify` makes of a body: dates as text, numbers that are none as null. Raises TypeError."""
    try:
        plain = _finite(to_plain(body))
        text = json.dumps(plain, separators=(",", ":"), ensure_ascii=False, allow_nan=False, default=_other)
        return text.encode("utf-8", "replace")
    except (ValueError, RecursionError) as error:
        raise TypeError(f"the message cannot be written as JSON: {error}") from None


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {js_string(key): _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return value


def _other(value: Any) -> Any:
    if isinstance(value, Date):
        value = value.to_py()
    if isinstance(value, datetime.datetime):
        moment = value.astimezone(datetime.UTC)
        return moment.strftime("%Y-%m-%dT%H:%M:%S.") + f"{moment.microsecond // 1000:03d}Z"
    raise TypeError(
        f"the message holds a {type(value).__name__}, which JSON cannot; use contentType bytes, text or v8"
    )


def check_sizes(sizes: Sequence[int]) -> None:
    """Raises QueueSendError for what is beyond the limits of a send."""
    if len(sizes) > MAX_BATCH_MESSAGES:
        raise QueueSendError(
            f"Queue sendBatch failed: batch message count of {len(sizes)} exceeds limit of {MAX_BATCH_MESSAGES}"
        )
    for size in sizes:
        if size > MAX_MESSAGE:
            raise QueueSendError(f"Queue send failed: message length of {size} bytes exceeds limit of {MAX_MESSAGE}")
    if sum(sizes) > MAX_BATCH:
        raise QueueSendError(f"Queue sendBatch failed: batch size of {sum(sizes)} bytes exceeds limit of {MAX_BATCH}")


@dataclass(frozen=True, slots=True)
class Decisions:
    """What a handler said of a batch. `retried` maps message ids to the delay asked for, in milliseconds, or None.

    ack_all and retry_all hold for messages that were not spoken of one by one; `failed` says that the handler
    raised, which retries every message that was not acknowledged.
    """

    acked: Collection[str] = ()
    retried: Mapping[str, int | None] | None = None
    ack_all: bool = False
    retry_all: bool = False
    retry_all_delay: int | None = None
    failed: bool = False


@dataclass(frozen=True, slots=True)
class Outcome:
    """What becomes of a batch: ids that are done, ids to hand out again with their time, ids that are given up."""

    done: tuple[str, ...]
    again: tuple[tuple[str, int], ...]
    dead: tuple[str, ...]


def outcome(
    messages: Sequence[tuple[str, int]], decisions: Decisions, settings: ConsumerSettings, now: int
) -> Outcome:
    """Decides for `messages`, pairs of id and attempts (this one counted), what follows from `decisions`.

    A message is given up when it was handed out `max_retries` times more than once.
    """
    done, again, dead = [], [], []
    retried = decisions.retried or {}
    for name, attempts in messages:
        if name in decisions.acked:
            retry, delay = False, None
        elif name in retried:
            retry, delay = True, retried[name]
        elif decisions.ack_all:
            retry, delay = False, None
        elif decisions.retry_all:
            retry, delay = True, decisions.retry_all_delay
        else:
            retry, delay = decisions.failed, None
        if not retry:
            done.append(name)
        elif attempts > settings.max_retries:
            dead.append(name)
        else:
            again.append((name, now + (settings.retry_delay if delay is None else delay)))
    return Outcome(tuple(done), tuple(again), tuple(dead))

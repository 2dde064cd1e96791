"""Queues: batches, retries, dead letters, delays, contents, restarts and kills."""

import asyncio
import datetime
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moorage.durable_objects.runtime.testing import ManualClock, memory_runtime, settle
from moorage.durable_objects.runtime.web import JsBytes
from moorage.wrangler_compat.config.model import QueueConsumer
from moorage.wrangler_compat.host.queues import Broker, rules
from moorage.wrangler_compat.host.queues.batch import Message, MessageBatch
from moorage.wrangler_compat.host.queues.rules import ConsumerSettings, Decisions, QueueSendError, outcome
from moorage.wrangler_compat.host.values import BindingError, Presentation
from moorage.wrangler_compat.workers.js.dates import Date


class Bench:
    """Queues in memory on a clock set by hand. `seen` has (milliseconds since the start, bodies, attempts)."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.start_time = self.clock.now()
        self.runtime = memory_runtime(clock=self.clock)
        self.broker = Broker(self.runtime)
        self.seen: list[tuple[int, list[Any], list[int]]] = []

    def consume(self, handler: Callable[[MessageBatch], Any] = lambda batch: None, **options: Any) -> None:
        async def handle(batch: MessageBatch) -> None:
            bodies, attempts = [m.body for m in batch.messages], [m.attempts for m in batch.messages]
            self.seen.append((self.clock.now() - self.start_time, bodies, attempts))
            result = handler(batch)
            if asyncio.iscoroutine(result):
                await result

        self.broker.consume(ConsumerSettings(options.pop("queue", "q"), **options), handle, Presentation())

    async def start(self) -> None:
        await self.runtime.start()
        self.broker.start()
        await settle()


@pytest.fixture
async def bench() -> AsyncIterator[Bench]:
    made = Bench()
    yield made
    await made.broker.stop(1)
    await made.runtime.close()


async def test_a_full_batch_goes_at_once_and_a_part_waits(bench: Bench) -> None:
    bench.consume(max_batch_size=3, max_batch_timeout=5000)
    await bench.start()
    queue = bench.broker.producer("q")
    for number in range(4):
        await queue.send(number)
    await settle()
    assert bench.seen == [(0, [0, 1, 2], [1, 1, 1])]
    await bench.clock.advance(4_999)
    assert len(bench.seen) == 1
    await bench.clock.advance(1)
    assert bench.seen[1:] == [(5000, [3], [1])]
    assert await bench.broker.store("q").size() == 0


async def test_what_a_handler_raises_hands_out_again_but_not_what_was_acknowledged(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    def handler(batch: MessageBatch) -> None:
        batch.messages[0].ack()
        if len(bench.seen) == 1:
            raise ValueError("broken")

    bench.consume(handler, max_batch_timeout=0)
    await bench.start()
    await bench.broker.producer("q").sendBatch([{"body": "a"}, {"body": "b"}])
    await settle()
    assert bench.seen == [(0, ["a", "b"], [1, 1]), (0, ["b"], [2])]
    assert "the consumer failed on a batch of 2" in caplog.text


async def test_retries_end_in_the_dead_letter_queue(bench: Bench) -> None:
    buried: list[Any] = []
    bench.consume(
        lambda batch: batch.retryAll(), max_batch_timeout=0, max_retries=2, retry_delay=1000, dead_letter_queue="dead"
    )

    async def bury(batch: MessageBatch) -> None:
        buried.extend((message.body, message.attempts) for message in batch.messages)

    bench.broker.consume(ConsumerSettings("dead", max_batch_timeout=0), bury, Presentation())
    await bench.start()
    await bench.broker.producer("q").send({"poison": True})
    await bench.clock.advance(10_000)
    assert [(at, attempts) for at, _, attempts in bench.seen] == [(0, [1]), (1000, [2]), (2000, [3])]
    assert buried == [({"poison": True}, 1)]
    assert await bench.broker.store("q").size() == 0


async def test_without_a_dead_letter_queue_a_message_is_dropped_and_told(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    bench.consume(lambda batch: batch.messages[0].retry(), max_batch_timeout=0, max_retries=0)
    await bench.start()
    await bench.broker.producer("q").send("x")
    await settle()
    assert len(bench.seen) == 1
    assert await bench.broker.store("q").size() == 0
    assert "1 messages are dropped after 1 attempts; a dead_letter_queue would keep them" in caplog.text


async def test_a_handler_that_runs_for_more_than_fifteen_minutes_has_failed(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    ended: list[int] = []

    async def handler(batch: MessageBatch) -> None:
        batch.messages[0].ack()
        if batch.messages[0].attempts == 1:
            try:
                await asyncio.Event().wait()
            finally:
                ended.append(bench.clock.now() - bench.start_time)

    bench.consume(handler, max_batch_timeout=0)
    await bench.start()
    await bench.broker.producer("q").sendBatch([{"body": "a"}, {"body": "b"}])
    await bench.clock.advance(899_999)
    assert ended == []
    await bench.clock.advance(1)
    assert ended == [900_000]
    assert bench.seen == [(0, ["a", "b"], [1, 1]), (900_000, ["b"], [2])]
    assert "queue() ran for more than 15 minutes and was ended" in caplog.text


async def test_a_handler_that_does_not_let_itself_be_cancelled_holds_no_stop_up() -> None:
    bench = Bench()
    going = True

    async def handler(batch: MessageBatch) -> None:
        while going:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                continue

    bench.consume(handler, max_batch_timeout=0)
    await bench.start()
    await bench.broker.producer("q").send("x")
    await settle()
    [task] = bench.broker._consumers["q"]._running
    await asyncio.wait_for(bench.broker.stop(0), 10)
    assert not task.done()
    assert await bench.broker.store("q").size() == 1
    going = False
    task.cancel()
    await asyncio.wait([task])
    await bench.runtime.close()


async def test_delays(bench: Bench) -> None:
    def handler(batch: MessageBatch) -> None:
        for message in batch.messages:
            if message.body == "again" and message.attempts == 1:
                message.retry(delaySeconds=7)

    bench.consume(handler, max_batch_timeout=0, retry_delay=1000)
    await bench.start()
    queue = bench.broker.producer("q", delay=2000)
    await queue.send("producer's")
    await queue.send("own", delaySeconds=1)
    await queue.send("none", {"delaySeconds": 0})
    await queue.sendBatch([{"body": "batch"}, {"body": "again", "delaySeconds": 0}], delaySeconds=4)
    await bench.clock.advance(20_000)
    assert [(at, bodies) for at, bodies, _ in bench.seen] == [
        (0, ["none", "again"]),
        (1000, ["own"]),
        (2000, ["producer's"]),
        (4000, ["batch"]),
        (7000, ["again"]),
    ]


async def test_batches_run_beside_each_other_up_to_the_limit(bench: Bench) -> None:
    gate = asyncio.Event()
    running, most = 0, 0

    async def handler(batch: MessageBatch) -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await gate.wait()
        running -= 1

    bench.consume(handler, max_batch_size=1, max_concurrency=2)
    await bench.start()
    await bench.broker.producer("q").sendBatch([{"body": number} for number in range(5)])
    await settle()
    assert (running, most) == (2, 2)
    gate.set()
    await settle()
    assert (len(bench.seen), most) == (5, 2)


@pytest.mark.parametrize(
    ("content_type", "body", "received"),
    [
        ("json", None, None),
        ("json", {"a": [1, 2.5, True, None]}, {"a": [1, 2.5, True, None]}),
        ("json", float("nan"), None),
        ("json", (1, 2), [1, 2]),
        ("json", datetime.datetime(2026, 1, 2, 3, 4, 5, 6000, datetime.UTC), "2026-01-02T03:04:05.006Z"),
        ("json", Date(0), "1970-01-01T00:00:00.000Z"),
        ("text", "", ""),
        ("text", "é", "é"),
        ("bytes", b"\x00\xff", b"\x00\xff"),
        ("bytes", memoryview(b"ab"), b"ab"),
        ("v8", {"when": datetime.datetime(2026, 1, 2), "set": {1, 2}, "data": b"x"}, None),
    ],
)
async def test_contents(bench: Bench, content_type: str, body: Any, received: Any) -> None:
    bench.consume(max_batch_timeout=0)
    await bench.start()
    await bench.broker.producer("q").send(body, contentType=content_type)
    await settle()
    got = bench.seen[0][1][0]
    if content_type == "v8":
        assert got["set"] == {1, 2}
        assert got["data"] == b"x"
        assert got.when == body["when"]
    else:
        assert got == received
    if content_type == "bytes":
        assert isinstance(got, JsBytes)


@pytest.mark.parametrize(
    ("call", "kind", "text"),
    [
        (lambda q: q.send("x", contentType="xml"), TypeError, "Unsupported queue message content type: xml"),
        (lambda q: q.send(5, contentType="text"), TypeError, 'Content Type "text" requires a value of type string'),
        (
            lambda q: q.send("x", contentType="bytes"),
            TypeError,
            'Content Type "bytes" requires a value of type Array',
        ),
        (lambda q: q.send(object()), TypeError, "the message holds a object, which JSON cannot"),
        (lambda q: q.send(b"x"), TypeError, "use contentType bytes, text or v8"),
        (lambda q: q.send("x", delaySeconds=43_201), ValueError, "send: delaySeconds must be from 0 to 43200"),
        (lambda q: q.send("x", delaySeconds="1"), TypeError, "send: delaySeconds must be a number of seconds"),
        (lambda q: q.send("x", delay=1), TypeError, "unexpected option 'delay'"),
        (lambda q: q.send("x" * 128_000), QueueSendError, "message length of 128002 bytes exceeds limit of 128000"),
        (lambda q: q.sendBatch([]), TypeError, "at least one message"),
        (lambda q: q.sendBatch(["x"]), TypeError, "message 0 must be a dictionary with `body`"),
        (
            lambda q: q.sendBatch([{"body": 1}] * 101),
            QueueSendError,
            "batch message count of 101 exceeds limit of 100",
        ),
        (
            lambda q: q.sendBatch([{"body": "x" * 100_000}] * 3),
            QueueSendError,
            "batch size of 300006 bytes exceeds limit of 256000",
        ),
        (
            lambda q: q.sendBatch([{"body": "good"}, {"body": 1, "contentType": "text"}]),
            TypeError,
            'Content Type "text"',
        ),
    ],
)
async def test_what_cannot_be_sent(bench: Bench, call: Any, kind: type[Exception], text: str) -> None:
    await bench.start()
    with pytest.raises(kind) as caught:
        await call(bench.broker.producer("q"))
    assert text in str(caught.value)
    assert await bench.broker.store("q").size() == 0, "nothing of it was sent"


async def test_what_was_taken_by_a_process_that_is_gone_is_handed_out_again(bench: Bench) -> None:
    await bench.runtime.start()
    store = bench.broker.store("q")
    await bench.broker.producer("q").sendBatch([{"body": number} for number in range(3)])
    taken = await store.take(2, bench.clock.now())
    assert [row[4] for row in taken] == [1, 1]
    bench.consume(max_batch_timeout=0)
    bench.broker.start()
    await settle()
    assert bench.seen == [(0, [0, 1, 2], [2, 2, 1])]


async def test_a_message_that_ends_the_process_each_time_is_given_up(bench: Bench) -> None:
    await bench.runtime.start()
    store = bench.broker.store("q")
    await bench.broker.producer("q").send("deadly")
    for _ in range(3):
        await store.take(1, bench.clock.now())
        await store.recover()
    bench.consume(max_batch_timeout=0, max_retries=2, dead_letter_queue="dead")
    bench.broker.start()
    await settle()
    assert bench.seen == []
    assert await bench.broker.store("dead").size() == 1


async def test_a_batch_that_cannot_be_settled_comes_again(bench: Bench) -> None:
    bench.consume(max_batch_timeout=0)
    consumer = bench.broker._consumers["q"]
    real = consumer._store
    failures: list[Any] = []

    class Failing:
        def __getattr__(self, name: str) -> Any:
            return getattr(real, name)

        async def settle(self, done: Any, again: Any) -> None:
            if not failures:
                failures.append(done)
                raise OSError("the disk is full")
            await real.settle(done, again)

    consumer._store = Failing()
    await bench.start()
    await bench.broker.producer("q").send("x")
    await settle()
    assert [attempts for _, _, attempts in bench.seen] == [[1], [2]]
    assert await real.size() == 0


async def test_messages_are_kept_four_days(bench: Bench) -> None:
    await bench.start()
    await bench.broker.producer("q").send("old")
    await bench.clock.advance(rules.RETENTION - 1)
    store = bench.broker.store("q")
    await store.state(1, bench.clock.now())
    assert await store.size() == 1
    await bench.clock.advance(1)
    await store.state(1, bench.clock.now())
    assert await store.size() == 0


async def test_the_first_word_about_a_message_counts() -> None:
    batch = MessageBatch("q", [[name, name, 0, 1] for name in "abcd"])
    a, b, c, _ = batch.messages
    a.ack()
    a.retry()
    b.retry({"delaySeconds": 3})
    b.ack()
    b.retry(delaySeconds=9)
    batch.retryAll(delaySeconds=5)
    batch.ackAll()
    c.ack()
    result = outcome([(name, 1) for name in "abcd"], batch.decisions(failed=False), ConsumerSettings("q"), 1000)
    assert (result.done, result.again, result.dead) == (("a", "c"), (("b", 4000), ("d", 6000)), ())
    assert isinstance(a, Message)
    assert isinstance(a.timestamp, datetime.datetime)


names = st.lists(st.sampled_from("abcdef"), unique=True, max_size=6)


@given(
    st.data(),
    names,
    st.integers(0, 3),
    st.booleans(),
    st.booleans(),
    st.booleans(),
)
def test_every_message_has_exactly_one_outcome(
    data: Any, keys: list[str], retries: int, failed: bool, every: bool, acknowledge: bool
) -> None:
    messages = [(key, data.draw(st.integers(1, 5))) for key in keys]
    acked = {key for key in keys if data.draw(st.booleans())}
    retried = {key: data.draw(st.none() | st.integers(0, 9)) for key in keys if key not in acked and every}
    decisions = Decisions(acked, retried, ack_all=every and acknowledge, retry_all=every, failed=failed)
    result = outcome(messages, decisions, ConsumerSettings("q", max_retries=retries, retry_delay=5), 100)
    again = [name for name, _ in result.again]
    assert sorted([*result.done, *again, *result.dead]) == sorted(keys)
    assert acked <= set(result.done)
    assert all(attempts > retries for name, attempts in messages if name in result.dead)
    assert all(100 <= due <= 109 for _, due in result.again)


words = st.text(st.characters(exclude_categories=["Cs"]))
leaves = st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False) | words


@given(
    st.sampled_from(["json", "v8"]),
    st.recursive(leaves, lambda inner: st.lists(inner) | st.dictionaries(words, inner), max_leaves=8),
)
def test_bodies_come_back(content_type: str, value: Any) -> None:
    def finite(item: Any) -> Any:
        if isinstance(item, list):
            return [finite(member) for member in item]
        if isinstance(item, dict):
            return {key: finite(member) for key, member in item.items()}
        return None if content_type == "json" and item in (float("inf"), float("-inf")) else item

    assert rules.decode(rules.encode(value, content_type), content_type) == finite(value)


@pytest.mark.parametrize(
    ("field", "value", "text"),
    [
        ("max_batch_size", 101, "max_batch_size of the queue q is 101, but must be a whole number from 1 to 100"),
        ("max_batch_size", 1.5, "must be a whole number"),
        ("max_batch_timeout", 61, "must be a number from 0 to 60"),
        ("max_retries", -1, "must be a whole number from 0 to 100"),
        ("retry_delay", 43_201, "must be a number from 0 to 43200"),
        ("max_concurrency", 0, "must be a whole number from 1 to 250"),
        ("dead_letter_queue", "q", "cannot be its own dead_letter_queue"),
    ],
)
def test_settings_have_bounds(field: str, value: Any, text: str) -> None:
    with pytest.raises(BindingError) as caught:
        rules.settings_of(QueueConsumer("q", **{field: value}))
    assert text in str(caught.value)


def test_settings_and_their_defaults() -> None:
    assert rules.settings_of(QueueConsumer("q")) == ConsumerSettings("q", 10, 5000, 3, None, 0, 10)
    given = QueueConsumer("q", 5, 0.5, 0, "dead", 30, 1)
    assert rules.settings_of(given) == ConsumerSettings("q", 5, 500, 0, "dead", 30_000, 1)

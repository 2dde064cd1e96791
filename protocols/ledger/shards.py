"""Immutable shards: identity, path and packing (spec action-ledger 10)."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from .canonical import canonical_text, sha256_text
from .events import Event
from .order import causal_order, unique_events
from .parts import producer_record
from .paths import NAME_DIGITS, path_piece, repository_slug
from .refusals import LedgerRefusal
from .text import repository_text
from .timestamps import calendar_date

EVENTS_ROOT: Final = "ledger/v1/events"
MAX_SHARD_EVENTS: Final = 1024
MAX_SHARD_BYTES: Final = 2_097_152
MAX_SET_EVENTS: Final = 65_536
MAX_PARTS: Final = 999_999


@dataclass(frozen=True, slots=True)
class ShardIdentity:
    """Whose shard and which day: a producer and its partition date. Built through `of_input` or `of_producer`."""

    repository: str
    sha: str
    workflow: str
    job: str
    run_id: str
    run_attempt: int
    component: str
    partition_date: str

    @classmethod
    def of_input(cls, given: Mapping[str, Any]) -> "ShardIdentity":
        """From the camelCase object whose `producer` is the component. Raises LedgerRefusal for a bad member."""
        producer = producer_record({**given, "component": given.get("producer")})
        return cls.of_producer(producer, given.get("partitionDate"))

    @classmethod
    def of_producer(cls, producer: Mapping[str, Any], partition_date: object) -> "ShardIdentity":
        """From a stored producer object."""
        return cls(**producer, partition_date=calendar_date(partition_date, "partitionDate"))

    def to_json(self) -> dict[str, Any]:
        """The camelCase object that bindings hold."""
        return {
            "job": self.job,
            "partitionDate": self.partition_date,
            "producer": self.component,
            "repository": self.repository,
            "runAttempt": self.run_attempt,
            "runId": self.run_id,
            "sha": self.sha,
            "workflow": self.workflow,
        }

    def run_json(self) -> dict[str, Any]:
        """The same without its date: the producer run."""
        run = self.to_json()
        del run["partitionDate"]
        return run

    def digest(self) -> str:
        """Digest of the canonical identity."""
        return sha256_text(canonical_text(self.to_json()))

    def run_digest(self) -> str:
        """Digest of the producer run."""
        return sha256_text(canonical_text(self.run_json()))

    def producer(self) -> dict[str, Any]:
        """The producer object that every event of the shard carries."""
        return {
            "repository": self.repository,
            "sha": self.sha,
            "workflow": self.workflow,
            "job": self.job,
            "run_id": self.run_id,
            "run_attempt": self.run_attempt,
            "component": self.component,
        }


def producer_text(producer: Mapping[str, Any]) -> str:
    """Canonical text of a stored producer, by which producers are grouped and their locks ordered."""
    return canonical_text(dict(producer))


def producer_key(producer: Mapping[str, Any]) -> str:
    """Digest in the names of a producer's marker, seal and lock."""
    return sha256_text(producer_text(producer))


def shard_path(identity: ShardIdentity, index: int | None = None, count: int | None = None) -> str:
    """Path of a shard, or of part `index` of `count`. Raises shard-index."""
    part = ""
    if index is not None or count is not None:
        if type(index) is not int or type(count) is not int or not 1 <= index <= count <= MAX_PARTS:
            raise LedgerRefusal("shard-index", f"parts are numbered 1 to their count, at most {MAX_PARTS}")
        part = f"-part-{index:06}-of-{count:06}"
    repository = path_piece(repository_slug(repository_text(identity.repository)), 120)
    name = (
        f"{path_piece(identity.run_id, 64)}-{identity.run_attempt}-{path_piece(identity.job, 64)}"
        f"-{identity.digest()[:NAME_DIGITS]}{part}.jsonl"
    )
    date = identity.partition_date.replace("-", "/")
    return f"{EVENTS_ROOT}/{date}/{repository}/{path_piece(identity.component, 120)}/{name}"


@dataclass(frozen=True, slots=True)
class Shard:
    """One packed shard: its path, its content and its events."""

    path: str
    text: str
    events: tuple[Event, ...]

    @property
    def replay_sha256(self) -> str:
        """Digest of the replay texts, each with its line feed."""
        return replay_digest(self.events)


def replay_digest(events: Iterable[Event]) -> str:
    """Digest of the events' replay texts, each followed by a line feed."""
    return sha256_text("".join(f"{event.replay_text}\n" for event in events))


def pack(events: Sequence[Event]) -> Iterator[tuple[Event, ...]]:
    """Cuts ordered events into shards: 1024 events or 2 MiB of lines, whichever comes first."""
    current: list[Event] = []
    size = 0
    for event in events:
        length = len(event.line.encode()) + 1
        if current and (len(current) == MAX_SHARD_EVENTS or size + length > MAX_SHARD_BYTES):
            yield tuple(current)
            current, size = [], 0
        current.append(event)
        size += length
    if current:
        yield tuple(current)


def shard_text(events: Iterable[Event]) -> str:
    """Content of a shard: one canonical event a line."""
    return "".join(f"{event.line}\n" for event in events)


def build_shards(identity: ShardIdentity, events: Sequence[Event]) -> list[Shard]:
    """The numbered shards of one producer's events. Input order and repetitions do not matter.

    Raises LedgerRefusal: empty-shard, raw-event-limit, producer-mismatch, and what
    `unique_events` and `causal_order` raise.
    """
    if len(events) > MAX_SET_EVENTS:
        raise LedgerRefusal("raw-event-limit", f"at most {MAX_SET_EVENTS} events a call")
    if not events:
        raise LedgerRefusal("empty-shard", "a shard holds at least one event")
    producer = identity.producer()
    for event in events:
        if event.producer != producer:
            raise LedgerRefusal("producer-mismatch", "comes from another producer", event.event_id)
    groups = list(pack(causal_order(unique_events(events))))
    return [
        Shard(shard_path(identity, index, len(groups)), shard_text(group), group)
        for index, group in enumerate(groups, 1)
    ]

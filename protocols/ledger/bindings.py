"""The files that make an import the truth: reservations, event bindings, completions (spec action-ledger 12.3)."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from .canonical import canonical_text, parse_json, sha256_text
from .duplicates import scan_json
from .events import Event
from .refusals import LedgerRefusal
from .shards import Shard, ShardIdentity
from .text import is_digest

ROOT: Final = "ledger/v1/import-bindings"
MAX_BINDING_BYTES: Final = 1_048_576
PRODUCER_RUN: Final = "clawsweeper.action-ledger-import-producer-run"
EVENT: Final = "clawsweeper.action-ledger-import-event"
SHARD_SET: Final = "clawsweeper.action-ledger-import-shard-set"
COMPLETION: Final = "clawsweeper.action-ledger-import-shard-set-completion"


@dataclass(frozen=True, slots=True)
class Binding:
    """One binding file: its path and its exact content."""

    path: str
    text: str


def _binding(path: str, value: dict[str, Any]) -> Binding:
    return Binding(f"{ROOT}/{path}.json", canonical_text(value) + "\n")


def producer_run_binding(identity: ShardIdentity) -> Binding:
    """Ties a producer run to one partition date."""
    return _binding(
        f"producer-runs/{identity.run_digest()}",
        {
            "schema": PRODUCER_RUN,
            "schema_version": 1,
            "producer": identity.run_json(),
            "partition_date": identity.partition_date,
        },
    )


def event_binding(event: Event) -> Binding:
    """Ties an event id to one content and one parent."""
    return _binding(
        f"events/{event.event_id}",
        {
            "schema": EVENT,
            "schema_version": 1,
            "event_id": event.event_id,
            "semantic_sha256": event.record["semantic_sha256"],
            "parent_event_id": event.parent,
        },
    )


def event_binding_path(event_id: str) -> str:
    """Path of the binding of an event id."""
    return f"{ROOT}/events/{event_id}.json"


def reservation_path(identity: ShardIdentity) -> str:
    """Path of a shard set's reservation."""
    return f"{ROOT}/shard-sets/{identity.digest()}.json"


def completion_path(identity: ShardIdentity) -> str:
    """Path of a shard set's completion."""
    return f"{ROOT}/completed-shard-sets/{identity.digest()}.json"


def shard_set_binding(identity: ShardIdentity, shards: Sequence[Shard]) -> Binding:
    """Reserves the exact shards of a set, before any payload is written."""
    return _binding(
        f"shard-sets/{identity.digest()}",
        {
            "schema": SHARD_SET,
            "schema_version": 1,
            "producer": identity.to_json(),
            "shards": [
                {"path": shard.path, "replay_sha256": shard.replay_sha256}
                for shard in sorted(shards, key=lambda shard: shard.path)
            ],
        },
    )


def completion_binding(identity: ShardIdentity, reservation: str) -> Binding:
    """Makes a set readable, after every payload was written and read back. `reservation` is that file's content."""
    return _binding(
        f"completed-shard-sets/{identity.digest()}",
        {
            "schema": COMPLETION,
            "schema_version": 1,
            "producer": identity.to_json(),
            "reservation_sha256": sha256_text(reservation),
        },
    )


def _binding_object(content: str, schema: str, members: Iterable[str]) -> dict[str, Any]:
    scan_json(content.removesuffix("\n"))
    value = parse_json(content)
    if (
        not isinstance(value, dict)
        or value.get("schema") != schema
        or type(value.get("schema_version")) is not int
        or value["schema_version"] != 1
        or set(value) != {"schema", "schema_version", *members}
        or f"{canonical_text(value)}\n" != content
    ):
        raise LedgerRefusal("binding-invalid", f"must be a {schema}, version 1, in canonical text")
    return value


@dataclass(frozen=True, slots=True)
class EventBinding:
    """What an event binding says."""

    event_id: str
    semantic_sha256: str
    parent: str | None


def parse_event_binding(content: str, event_id: str) -> EventBinding:
    """The binding of `event_id` in its file. Raises binding-invalid."""
    try:
        value = _binding_object(content, EVENT, ("event_id", "semantic_sha256", "parent_event_id"))
    except LedgerRefusal as refusal:
        raise LedgerRefusal("binding-invalid", refusal.detail, event_id) from None
    parent = value["parent_event_id"]
    if (
        value["event_id"] != event_id
        or not is_digest(value["semantic_sha256"])
        or not (parent is None or is_digest(parent))
        or parent == event_id
    ):
        raise LedgerRefusal("binding-invalid", "does not bind this event to a content and a parent", event_id)
    return EventBinding(event_id, value["semantic_sha256"], parent)


@dataclass(frozen=True, slots=True)
class Reservation:
    """What a shard set's reservation lists, by path, and the identity that it is named after."""

    identity: ShardIdentity
    shards: tuple[tuple[str, str], ...]


def parse_reservation(path: str, content: str) -> Reservation:
    """The reservation in a file. Raises import-transaction when it is damaged or lies under another name."""
    try:
        value = _binding_object(content, SHARD_SET, ("producer", "shards"))
        identity = ShardIdentity.of_input(value["producer"])
        shards = tuple((entry["path"], entry["replay_sha256"]) for entry in value["shards"])
        if value["producer"] != identity.to_json() or reservation_path(identity) != path or not shards:
            raise LedgerRefusal("import-transaction", "is not named after its producer")
        if any(not isinstance(name, str) or not is_digest(digest) for name, digest in shards):
            raise LedgerRefusal("import-transaction", "lists something else than shards")
    except (LedgerRefusal, TypeError, KeyError, AttributeError) as error:
        detail = error.detail if isinstance(error, LedgerRefusal) else "lists something else than shards"
        raise LedgerRefusal("import-transaction", detail, path) from None
    return Reservation(identity, shards)


def check_visible(
    identity: ShardIdentity, path: str, replay_sha256: str, reservation: str | None, completion: str | None
) -> None:
    """Whether the import state of a set lets readers see one of its shards (spec 11).

    `reservation` and `completion` are the contents of those files, None when absent. Raises import-transaction or
    import-incomplete. Without either file a shard is readable: it was written here, not imported.
    """
    if reservation is None and completion is None:
        return
    if reservation is None:
        raise LedgerRefusal("import-transaction", "the import is marked complete but was never reserved", path)
    try:
        reserved = _binding_object(reservation, SHARD_SET, ("producer", "shards"))
    except LedgerRefusal:
        raise LedgerRefusal("import-transaction", "the import's reservation is damaged", path) from None
    entry = {"path": path, "replay_sha256": replay_sha256}
    shards = reserved["shards"]
    if reserved["producer"] != identity.to_json() or not isinstance(shards, list) or entry not in shards:
        raise LedgerRefusal("import-transaction", "the import did not reserve this shard with this content", path)
    if completion is None:
        raise LedgerRefusal("import-incomplete", "the import of this set is not complete; run it again", path)
    if completion != completion_binding(identity, reservation).text:
        raise LedgerRefusal("import-transaction", "the import's completion does not match its reservation", path)

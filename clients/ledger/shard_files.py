"""Shards on disk: written create-only, read only when their import is complete (spec action-ledger 4, 10, 11)."""

from collections.abc import Sequence
from pathlib import PurePosixPath

from moorage.protocols.ledger.batch import check_shard_events, place_shard
from moorage.protocols.ledger.bindings import MAX_BINDING_BYTES, check_visible, completion_path, reservation_path
from moorage.protocols.ledger.events import Event
from moorage.protocols.ledger.publication import is_shard_path
from moorage.protocols.ledger.refusals import LedgerConflict, LedgerRefusal
from moorage.protocols.ledger.shards import (
    EVENTS_ROOT,
    MAX_SHARD_BYTES,
    Shard,
    ShardIdentity,
    build_shards,
    replay_digest,
)
from moorage.protocols.ledger.validate import parse_shard_text

from .files import TrustedRoot


def read_text(root: TrustedRoot, relative: str, limit: int) -> str | None:
    """A file's text, None when missing. Raises utf8, byte-limit, unsafe-entry."""
    content = root.read(relative, limit)
    return None if content is None else content.text(root.where(relative))


def replaces_nothing(existing: str, shard: Shard) -> bool:
    """Whether existing content stands for `shard`: the same bytes, or canonical and replay-equal line by line."""
    if existing == shard.text:
        return True
    try:
        stored = parse_shard_text(existing)
    except LedgerRefusal:
        return False
    return [event.replay_text for event in stored] == [event.replay_text for event in shard.events]


def write_shard(root: TrustedRoot, shard: Shard, conflict: str = "shard-conflict") -> bool:
    """Writes a shard once; whether this call made it. First-writer bytes win when they are replay-equal.

    Raises LedgerConflict under the code `conflict`.
    """
    if root.create(shard.path, shard.text.encode()) == "created":
        return True
    existing = read_text(root, shard.path, MAX_SHARD_BYTES)
    if existing is None or not replaces_nothing(existing, shard):
        raise LedgerConflict(conflict, "already holds different events", root.where(shard.path))
    return False


def write_shards(root: TrustedRoot, identity: ShardIdentity, events: Sequence[Event]) -> list[Shard]:
    """Packs and writes one producer's events as numbered shards."""
    shards = build_shards(identity, events)
    for shard in shards:
        write_shard(root, shard)
    return shards


def parse_shard_file(root: TrustedRoot, relative: str) -> list[Event] | None:
    """The events in a shard file, its own rules checked but not its path. None when missing."""
    text = read_text(root, relative, MAX_SHARD_BYTES)
    if text is None:
        return None
    where = root.where(relative)
    try:
        events = parse_shard_text(text)
    except LedgerRefusal as refusal:
        raise refusal.at(where) from None
    check_shard_events(events, where)
    return events


def read_shard(root: TrustedRoot, relative: str) -> list[Event]:
    """The events of a shard below a ledger tree's root, or of a file outside any tree.

    Raises missing, path-identity, import-transaction, import-incomplete, and what the reader rules raise.
    """
    events = parse_shard_file(root, relative)
    if events is None:
        raise LedgerRefusal("missing", "no such shard", root.where(relative))
    if is_shard_path(relative):
        identity, _ = place_shard(relative, events)
        check_import_state(root, identity, relative, events)
    return events


def check_import_state(root: TrustedRoot, identity: ShardIdentity, path: str, events: Sequence[Event]) -> None:
    """Raises unless the bindings beside the shard let it be read."""
    reservation = read_text(root, reservation_path(identity), MAX_BINDING_BYTES)
    completion = read_text(root, completion_path(identity), MAX_BINDING_BYTES)
    check_visible(identity, path, replay_digest(events), reservation, completion)


def split_shard_path(path: str) -> tuple[str, str]:
    """Root and relative path of a shard given as one absolute path (spec 11)."""
    mark = f"/{EVENTS_ROOT}/"
    at = path.find(mark)
    if at >= 0:
        return path[:at] or "/", path[at + 1 :]
    pure = PurePosixPath(path)
    return str(pure.parent), pure.name


def read_shard_file(path: str) -> list[Event]:
    """`read_shard` of one absolute path; its root is what stands before `/ledger/v1/events/`, else its folder."""
    root, relative = split_shard_path(path)
    return read_shard(TrustedRoot(root), relative)

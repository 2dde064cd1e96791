"""Events from wherever they lie: a spool, a tree of shards, R2 (spec action-ledger 11)."""

from collections.abc import Iterator
from pathlib import Path

from moorage.protocols.ledger.events import Event
from moorage.protocols.ledger.filters import EventFilter, event_filter
from moorage.protocols.ledger.paths import SPOOL
from moorage.protocols.ledger.refusals import LedgerRefusal

from .files import TrustedRoot
from .sources import FolderSource, Source, folder_source
from .spool import read_spool
from .trees import iter_shards


def _ignore(refusal: LedgerRefusal) -> None:
    return None


def iter_spool_events(root: TrustedRoot, wanted: EventFilter | None = None) -> Iterator[Event]:
    """Events of a spool in plain order, at most 65536 of them."""
    wanted = wanted or EventFilter()
    return (event for event in read_spool(root) if wanted.matches(event))


def iter_tree_events(source: Source, wanted: EventFilter | None = None) -> Iterator[Event]:
    """Events of a shard tree, shard by shard in path order; shards of unfinished imports are invisible."""
    wanted = wanted or EventFilter()
    for shard in iter_shards(source, hidden=_ignore):
        for event in shard.events:
            if wanted.matches(event):
                yield event


def iter_events(
    source: Source | TrustedRoot | str | Path,
    *,
    operation: str | None = None,
    subject: str | None = None,
    type: str | None = None,
    since: str | None = None,
    until: str | None = None,
) -> Iterator[Event]:
    """Events of a spool root, a shard tree or another source, filtered.

    A folder with a spool in it is read as a spool, any other as a tree. `operation` is an operation id; `subject` is
    `owner/name`, `owner/name#number` or `owner/name:kind[:id]`; `type` an event type or a family; `since` (inclusive)
    and `until` (exclusive) are timestamps of occurrence. A tree of any size takes the memory of one month's paths and
    one shard. Raises LedgerRefusal at the first thing that breaks a reader rule.
    """
    wanted = event_filter(operation=operation, subject=subject, type=type, since=since, until=until)
    if isinstance(source, str | Path):
        source = folder_source(source)
    if isinstance(source, TrustedRoot):
        source = FolderSource(source)
    if isinstance(source, FolderSource) and any(source.list(SPOOL)):
        return iter_spool_events(source.root, wanted)
    return iter_tree_events(source, wanted)

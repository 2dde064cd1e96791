"""Comparing a folder with the service, writing nothing."""

import asyncio
from collections.abc import AsyncIterator, Collection, Iterator, Sequence
from pathlib import Path

from moorage.protocols import records as rules

from ..records import AsyncRecords
from .local import below, digest_here, entries, is_absent, is_plain
from .progress import Bar
from .repositories import file_of, local_digests

Found = AsyncIterator[tuple[str, str]]


def _path(slug: str, section: str, record_id: str) -> str:
    return rules.RecordId(slug, section, record_id).path


async def compare_repository(records: AsyncRecords, target: Path, slug: str, bar: Bar) -> Found:
    """Yields path and kind of what differs: tuple sections by the lists, commits by the journal; `bar` counts."""
    folder = target / "records" / slug
    for section in rules.TUPLE_SECTIONS:
        here = await asyncio.to_thread(local_digests, folder, section)
        async for entry in records.live(slug, section):
            bar.update(1)
            digest = here.pop(entry.number, None)
            if digest != entry.digest:
                yield _path(slug, section, str(entry.number)), "missing" if digest is None else "different"
        for number in here:
            yield _path(slug, section, str(number)), "extra"
    seen: set[str] = set()
    async for row in records.journal(slug, sections=["commits"]):
        bar.update(1)
        path = file_of(folder, row.record.id)
        if row.record.deleted:
            continue
        seen.add(path.name)
        if is_absent(path):
            yield row.record.id.path, "missing"
        elif await asyncio.to_thread(digest_here, path) != row.record.digest:
            yield row.record.id.path, "different"
    for name in _strangers(folder, seen):
        yield f"records/{slug}/{name}", "extra"


def _strangers(folder: Path, commits: set[str]) -> list[str]:
    """Returns what no record has as its name, and commit records that the service does not have."""
    found: list[str] = []
    for path in below(folder):
        section, _, name = path.relative_to(folder).as_posix().partition("/")
        stem, _, extension = name.rpartition(".")
        named = rules.EXTENSIONS.get(section) == extension and rules.is_record_id(section, stem)
        if not named or (section == "commits" and name not in commits):
            found.append(f"{section}/{name}" if name else section)
    return found


async def compare_items(records: AsyncRecords, target: Path, slug: str, numbers: Sequence[int]) -> Found:
    """Yields path and kind of what differs in the sections of these items."""
    folder = target / "records" / slug
    for number in numbers:
        item = await records.item(slug, number)
        for section in rules.TUPLE_SECTIONS:
            record_id = rules.RecordId(slug, section, str(number))
            path = file_of(folder, record_id)
            content = item.content(section)
            here = await asyncio.to_thread(path.read_bytes) if is_plain(path) else None
            if content == here and (here is not None or is_absent(path)):
                continue
            yield record_id.path, "missing" if is_absent(path) else "extra" if content is None else "different"


def strangers(target: Path, known: Collection[str], slugs: Collection[str] | None, ledger: bool) -> Iterator[str]:
    """Yields what lies where hydrate puts nothing: beside the trees, beside the repositories, beside `ledger/v1`.

    `known`: the names at the top. `slugs`: every repository, or None where not all of them were asked for.
    """
    yield from (path.name for path in entries(target) if path.name not in known)
    if slugs is not None:
        yield from (f"records/{path.name}" for path in entries(target / "records") if path.name not in slugs)
    if ledger:
        yield from (f"ledger/{path.name}" for path in entries(target / "ledger") if path.name != "v1")

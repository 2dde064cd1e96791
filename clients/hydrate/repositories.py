"""One repository's records in a folder: the latest snapshot, then the journal behind it, then a comparison.

Spec state-plane-protocol 4, 12. The service never opens an archive that a runner sent it, so contents of a snapshot
are compared with the digests of the lists; what differs is read again item by item. Commit records have no list:
those in a snapshot are taken as they are, those of the journal are checked.
"""

import asyncio
import contextlib
import hashlib
import logging
import os
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import Final

from moorage.protocols import records as rules

from ..errors import NotFound
from ..records import JOURNAL_PAGE, AsyncRecords, Item, Record
from ..snapshots import AsyncSnapshots, Snapshot, SnapshotDiffers
from .archive import UnsafeArchive, extract_snapshot
from .local import check_names, digest_here, entries, remove
from .progress import Progress
from .staging import Staging

log = logging.getLogger("moorage.clients.hydrate")

PAGE_ROWS: Final = JOURNAL_PAGE
NOTED_PAGES: Final = 20
"""After so many pages of a journal is it noted how far the run is: a killed one goes on from there."""
HEALED_ONE_BY_ONE: Final = 200
"""With more differences than this between a snapshot and the lists the whole journal is replayed."""


def file_of(folder: Path, record_id: rules.RecordId) -> Path:
    """Returns where a record lies below the folder of its repository."""
    return folder / record_id.section / record_id.file_name


def store(folder: Path, records: Iterable[Record]) -> None:
    """Writes records, and removes those that are tombstones."""
    made: set[str] = set()
    for record in records:
        section = f"{folder}/{record.id.section}"
        path = f"{section}/{record.id.file_name}"
        if record.content is None:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(path)
            continue
        if section not in made:
            os.makedirs(section, exist_ok=True)
            made.add(section)
        with open(path, "wb") as target:
            target.write(record.content)


def store_item(folder: Path, item: Item) -> None:
    """Writes the four sections of an item as they are, and removes those that are not there."""
    ids = {section: rules.RecordId(item.slug, section, str(item.number)) for section in rules.TUPLE_SECTIONS}
    store(folder, (item.records.get(section) or Record(ids[section], None, None, 0, "") for section in ids))


def local_digests(folder: Path, section: str) -> dict[int, str]:
    """Returns the digests of the files of a tuple section, by item number; other names are left out.

    What has the name of a record and is no plain file has the digest "", which is nobody's.
    """
    found: dict[int, str] = {}
    for path in entries(folder / section):
        stem, _, extension = path.name.rpartition(".")
        number = rules.item_number(stem)
        if number is not None and extension == rules.EXTENSIONS[section]:
            found[number] = digest_here(path) or ""
    return found


class Repositories:
    """Hydrates repositories into `staging.tree`."""

    def __init__(
        self, records: AsyncRecords, snapshots: AsyncSnapshots, staging: Staging, progress: Progress
    ) -> None:
        self._records = records
        self._snapshots = snapshots
        self._staging = staging
        self._progress = progress

    def folder(self, slug: str) -> Path:
        """Where a repository's records lie in the tree."""
        return self._staging.tree / "records" / slug

    async def hydrate(self, slug: str) -> int:
        """Makes a repository whole and returns the store revision up to which it is; goes on from an earlier run."""
        folder = self.folder(slug)
        folder.mkdir(parents=True, exist_ok=True)
        since = self._staging.repositories.get(slug)
        if since is None:
            since = await self._from_snapshot(slug, folder)
            self._note(slug, since)
        watermark = await self._replay(slug, folder, since)
        if watermark < since:
            log.warning("THE STORE OF %s WENT BACK from revision %d to %d, starting afresh", slug, since, watermark)
            self._clear(folder)
            watermark = await self._replay(slug, folder, since := 0)
        differences = await self.differences(slug, folder)
        if len(differences) > HEALED_ONE_BY_ONE and since > 0:
            watermark = await self._replay(slug, folder, 0)
            differences = await self.differences(slug, folder)
        for number in differences:
            store_item(folder, await self._records.item(slug, number))
        self._note(slug, watermark)
        return watermark

    def _note(self, slug: str, revision: int) -> None:
        """Keeps up to which store revision a repository is whole; a part of its journal, so ordered, counts too."""
        self._staging.repositories[slug] = revision
        self._staging.save()

    def keep(self, slugs: Collection[str]) -> None:
        """Removes repositories that are not among `slugs`, left by an earlier run. Raises CannotBeFiles."""
        check_names(slugs, folding=self._staging.folds_case)
        for path in entries(self._staging.tree / "records"):
            if path.name not in slugs:
                remove(path)
                self._staging.repositories.pop(path.name, None)

    async def items(self, slug: str, numbers: Sequence[int]) -> list[int]:
        """Reads only these items, four requests each; returns the numbers that were never written."""
        missing: list[int] = []
        with self._progress.bar(f"{slug} items", len(numbers)) as bar:
            for number in numbers:
                item = await self._records.item(slug, number)
                store_item(self.folder(slug), item)
                if not item.records:
                    missing.append(number)
                bar.update(1)
        return missing

    async def _from_snapshot(self, slug: str, folder: Path) -> int:
        try:
            return await self._from_newest(slug, folder)
        except (SnapshotDiffers, NotFound):
            # a newer one took its place while it was being read
            return await self._from_newest(slug, folder)

    async def _from_newest(self, slug: str, folder: Path) -> int:
        """Returns the store revision that the folder is then at: 0 without a snapshot, or with one of no use."""
        snapshot = await self._snapshots.latest(slug)
        return 0 if snapshot is None else await self._take(snapshot, folder)

    async def _take(self, snapshot: Snapshot, folder: Path) -> int:
        archive = self._staging.work / (hashlib.sha256(snapshot.object_key.encode()).hexdigest() + ".tar.gz")
        resumed = archive.exists()
        await self._download(snapshot, archive)
        for attempt in (1, 2):
            try:
                await asyncio.to_thread(self._unpack, snapshot, archive, folder)
                archive.unlink()
                return snapshot.watermark
            except UnsafeArchive as error:
                archive.unlink()
                self._clear(folder)
                if resumed and attempt == 1:
                    # what an interrupted run left may be damaged
                    await self._download(snapshot, archive)
                    continue
                log.warning("SNAPSHOT OF %s IS NOT USED, replaying the whole journal: %s", snapshot.slug, error)
                break
        return 0

    async def _download(self, snapshot: Snapshot, archive: Path) -> None:
        offset = archive.stat().st_size if archive.exists() else 0
        if offset > snapshot.bytes:
            archive.unlink()
            offset = 0
        with archive.open("ab") as target, self._progress.bar(f"{snapshot.slug} snapshot", snapshot.bytes) as bar:
            bar.update(offset)
            async for chunk in self._snapshots.chunks(snapshot, offset=offset):
                target.write(chunk)
                bar.update(len(chunk))

    @staticmethod
    def _unpack(snapshot: Snapshot, archive: Path, folder: Path) -> None:
        Repositories._clear(folder)
        with archive.open("rb") as source:
            extract_snapshot(
                source, folder, file_count=snapshot.file_count, uncompressed_bytes=snapshot.uncompressed_bytes
            )

    @staticmethod
    def _clear(folder: Path) -> None:
        for section in rules.SECTIONS:
            for path in entries(folder / section):
                remove(path)

    async def _replay(self, slug: str, folder: Path, since: int) -> int:
        watermark: int | None = None
        storing: asyncio.Future[None] | None = None
        stored, pages = since, 0
        with self._progress.bar(f"{slug} journal", None) as bar:
            try:
                async for page in self._records.pages(slug, since=since, limit=PAGE_ROWS):
                    watermark = page.revision if watermark is None else watermark
                    # a page is written while the next one is on its way
                    if storing is not None:
                        await asyncio.shield(storing)
                        pages += 1
                        if pages % NOTED_PAGES == 0:
                            self._note(slug, stored)
                    records = [row.record for row in page.rows]
                    storing = asyncio.ensure_future(asyncio.to_thread(store, folder, records))
                    stored = page.rows[-1].store_revision if page.rows else stored
                    bar.update(len(records))
            finally:
                # also when a page does not come: nothing is written behind the back of whoever goes on from here
                if storing is not None:
                    await storing
        return since if watermark is None else watermark

    async def differences(self, slug: str, folder: Path) -> list[int]:
        """Returns the item numbers of which a section here is not what the service lists."""
        numbers: set[int] = set()
        for section in rules.TUPLE_SECTIONS:
            here = await asyncio.to_thread(local_digests, folder, section)
            async for entry in self._records.live(slug, section):
                if here.pop(entry.number, None) != entry.digest:
                    numbers.add(entry.number)
            numbers.update(here)
        return sorted(numbers)

"""The trees `ledger/v1/` and `assets/` in a folder, several blobs at a time."""

import asyncio
import hashlib
import os
import shutil
from collections.abc import AsyncIterator, Collection
from pathlib import Path
from typing import Final

from moorage.protocols.blobs import Blob, parse_path
from moorage.protocols.wire.blobs import InvalidBlobPath

from ..blobs import AsyncBlobs, BlobDiffers
from ..errors import InvalidAnswer
from .local import below, check_names, digest_here, is_absent, is_plain, plain_below
from .progress import Progress

AT_ONCE: Final = 8
TREES: Final = {"ledger": "ledger/v1", "assets": "assets"}
"""What is called how on the command line, and where it lies."""


def path_of(tree: Path, blob: Blob) -> Path:
    """Returns where a blob lies below `tree`. Raises InvalidAnswer for a path that no blob may have."""
    try:
        return tree.joinpath(*parse_path(blob.path).text.split("/"))
    except InvalidBlobPath:
        raise InvalidAnswer(f"the service lists a blob with the path {blob.path!r}") from None


def is_there(path: Path, blob: Blob) -> bool:
    """Tells whether `path` is a plain file with the blob's size and digest; False where the digest is not known."""
    try:
        if blob.digest is None or not is_plain(path) or path.stat().st_size != blob.size:
            return False
        return digest_here(path) == blob.digest
    except OSError:
        return False


class BlobTrees:
    """Hydrates blobs into `tree`; what `before`, the tree that will be replaced, has is not downloaded again.

    `folding`: whether the file system takes names for one that differ in case alone.
    """

    def __init__(
        self, blobs: AsyncBlobs, tree: Path, before: Path, progress: Progress, *, folding: bool = False
    ) -> None:
        self._blobs = blobs
        self._tree = tree
        self._before = before
        self._progress = progress
        self._folding = folding

    async def hydrate(self, prefix: str) -> int:
        """Makes a tree whole and returns the number of its blobs.

        Raises the first error of a download, CannotBeFiles, ClientError, OSError.
        """
        wanted = [blob async for blob in self._blobs.list(prefix)]
        check_names((blob.path for blob in wanted), folding=self._folding)
        keep = {path_of(self._tree, blob) for blob in wanted}
        for path in below(self._tree / prefix):
            if path not in keep:
                path.unlink()
        reusable = await asyncio.to_thread(plain_below, self._before, prefix)
        waiting = iter(wanted)
        with self._progress.bar(prefix, len(wanted)) as bar:

            async def work() -> None:
                for blob in waiting:
                    await self._fetch(blob, reusable)
                    bar.update(1)

            try:
                async with asyncio.TaskGroup() as group:
                    for _ in range(min(AT_ONCE, len(wanted))):
                        group.create_task(work())
            except ExceptionGroup as failures:
                raise failures.exceptions[0] from None
        return len(wanted)

    async def _fetch(self, blob: Blob, reusable: Collection[Path]) -> None:
        path = path_of(self._tree, blob)
        if await asyncio.to_thread(is_there, path, blob):
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = path.with_name(f".{hashlib.sha256(path.name.encode()).hexdigest()[:16]}.part")
        earlier = path_of(self._before, blob)
        if earlier in reusable and await asyncio.to_thread(is_there, earlier, blob):
            await asyncio.to_thread(_reuse, earlier, partial)
        else:
            await self._download(blob, partial)
        partial.replace(path)

    async def _download(self, blob: Blob, partial: Path) -> None:
        try:
            with partial.open("wb") as target:
                async for chunk in self._blobs.chunks_of(blob):
                    target.write(chunk)
        except BlobDiffers:
            # replaced since it was listed, which assets may be: take what is there now
            with partial.open("wb") as target:
                await self._blobs.download(blob.path, target)

    async def differences(self, prefix: str) -> AsyncIterator[tuple[str, str]]:
        """Yields path and `missing`, `different` or `extra` of what is not as the service lists it; writes nothing.

        A blob whose digest the service does not know is compared by its size.
        """
        here = await asyncio.to_thread(plain_below, self._tree, prefix)
        seen: set[Path] = set()
        with self._progress.bar(f"{prefix} compared", None) as bar:
            async for blob in self._blobs.list(prefix):
                bar.update(1)
                path = path_of(self._tree, blob)
                seen.add(path)
                if is_absent(path):
                    yield blob.path, "missing"
                elif (
                    path not in here
                    or path.stat().st_size != blob.size
                    or (blob.digest is not None and not await asyncio.to_thread(is_there, path, blob))
                ):
                    yield blob.path, "different"
        for path in below(self._tree / prefix):
            if path not in seen:
                yield path.relative_to(self._tree).as_posix(), "extra"


def _reuse(source: Path, target: Path) -> None:
    target.unlink(missing_ok=True)
    try:
        os.link(source, target)
    except OSError:
        shutil.copyfile(source, target)

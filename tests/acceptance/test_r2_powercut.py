"""Power cuts under a bucket on disk: system calls replayed, objects in the catalogue and in files.

Needs `strace`. In the control, with our own syncs ignored, acknowledged puts must be lost.
"""

import hashlib
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from moorage.r2 import Bucket, R2Error, R2ObjectBody, open_bucket

from .powercut import replayed, traced

pytestmark = pytest.mark.skipif(shutil.which("strace") is None, reason="strace is not installed")

WORKLOAD = Path(__file__).with_name("r2_powercut_workload.py")


class Known:
    """Of every key, the number that was acknowledged last and the one asked for last; 0 is the object's absence."""

    def __init__(self) -> None:
        self.acknowledged: dict[str, int] = {}
        self.asked: dict[str, int] = {}
        self.count = 0
        self.useless = 0

    def note(self, line: str) -> bool:
        """Takes a line of the workload's notes in; False for any other."""
        word, _, rest = line.partition(" ")
        if word not in {"ASK", "ACK"}:
            return False
        key, number = rest.split()
        known = self.asked if word == "ASK" else self.acknowledged
        known[key] = int(number)
        self.count += word == "ACK"
        return True

    async def lost(self, image: Path) -> int:
        """How many keys are not as acknowledged, or are there by half."""
        try:
            stored = await self._numbers(image / "state")
            self.useless += len(_useless_files(image / "state" / "r2" / "b"))
        except Exception:
            return len(self.acknowledged)  # a file that is damaged anywhere, as in the control, has lost everything
        wrong = sum(stored.get(key, 0) not in {number, self.asked[key]} for key, number in self.acknowledged.items())
        return wrong + sum(number is None for number in stored.values())

    async def _numbers(self, state: Path) -> dict[str, int | None]:
        bucket = await open_bucket("file", name="b", state_folder=state)
        try:
            return {item.key: await self._number(bucket, item.key) for item in (await bucket.list()).objects}
        finally:
            await bucket.close()

    async def _number(self, bucket: Bucket, key: str) -> int | None:
        """The number that the object's bytes begin with; None when they are not those of its etag."""
        try:
            found = await bucket.get(key)
            assert isinstance(found, R2ObjectBody)
            data: bytes = await found.bytes()
        except R2Error:
            return None
        if hashlib.md5(data).hexdigest() != found.etag:
            return None
        name, number, _ = data.split(b" ", 2)
        assert name.decode() == key
        return int(number)


def _useless_files(folder: Path) -> set[str]:
    """Files of the bucket that no row points at, after it was opened and closed."""
    with closing(sqlite3.connect(folder / "bucket.sqlite")) as connection:
        used = connection.execute("SELECT blob FROM objects WHERE blob IS NOT NULL UNION SELECT blob FROM parts")
        return {path.name for path in (folder / "blobs").rglob("*") if path.is_file()} - {name for (name,) in used}


@pytest.mark.timeout(1800)
async def test_power_cuts_lose_no_acknowledged_object(tmp_path: Path, full_size: bool) -> None:
    work = tmp_path / "work"
    work.mkdir()
    writes, cuts = (420, 60) if full_size else (90, 12)
    found = traced(WORKLOAD, work, writes)

    async def cut(*, ignore_our_syncs: bool = False, ordered: bool = False) -> tuple[int, int, Known]:
        known = Known()
        images, failures = await replayed(
            found,
            work,
            tmp_path / "image",
            cuts,
            note=known.note,
            lost=known.lost,
            ignore_our_syncs=ignore_our_syncs,
            ordered=ordered,
        )
        return images, failures, known

    for ordered in (False, True):
        images, failures, known = await cut(ordered=ordered)
        assert known.count == writes
        assert failures == 0, f"{failures} of {images} images lack an acknowledged object"
        # where even names come and go on their own, a file may outlive everything that led to it
        assert not ordered or known.useless == 0, f"{known.useless} files of no object were left for good"
    control, lossy, _ = await cut(ignore_our_syncs=True)
    assert lossy > control // 10, "the control lost nothing: the proof proves nothing"

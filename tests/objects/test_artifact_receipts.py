"""Artifact receipts: recorded store calls with the bucket's own steps, and the bounds of clean-up."""

import base64
from collections.abc import Iterator, Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from moorage.durable_objects.objects.artifact_receipts import ArtifactReceiptStore
from moorage.protocols.artifact_receipts import CLEAN_LOT, PREFIX, RETENTION_MS
from moorage.protocols.wire.artifact_receipts import (
    ArtifactCacheObjectMismatch,
    ArtifactCacheUnavailable,
    ArtifactReceiptImmutableConflict,
    InvalidArtifactReceipt,
)
from tests.objects.sqlite_storage import Storage
from tests.objects.store_vectors import by_name

SEQUENCES = by_name("artifact-receipts-store")
UPLOADED = 1_796_048_000_000


class Bucket:
    """The four operations that receipts need, over a dictionary; every object was uploaded at `UPLOADED`."""

    def __init__(self) -> None:
        self.objects: dict[str, tuple[int, str]] = {}
        self.listings = 0

    async def head(self, key: str) -> Any:
        if key not in self.objects:
            return None
        size, digest = self.objects[key]
        return SimpleNamespace(key=key, size=size, customMetadata={"sha256": digest}, uploaded=UPLOADED)

    async def list(self, options: dict[str, Any]) -> Any:
        self.listings += 1
        keys = [key for key in sorted(self.objects) if key.startswith(options["prefix"])]
        keys = [key for key in keys if key > options.get("cursor", "")]
        page, more = keys[: options["limit"]], len(keys) > options["limit"]
        return SimpleNamespace(
            objects=[await self.head(key) for key in page], truncated=more, cursor=page[-1] if more else None
        )

    async def delete(self, keys: Sequence[str]) -> None:
        for key in keys:
            self.objects.pop(key, None)


@pytest.fixture
def storage() -> Iterator[Storage]:
    storage = Storage()
    yield storage
    storage.close()


@pytest.mark.parametrize("name", SEQUENCES)
async def test_recorded_calls(name: str, storage: Storage) -> None:
    bucket = Bucket()
    store = ArtifactReceiptStore(storage, bucket)
    for step in SEQUENCES[name]:
        if step.get("kind") == "store":
            result = getattr(store, step["op"])(*step["args"])
            if step["op"] != "lookup":
                result = await result
            assert result == step["result"], step["name"]
            continue
        body = step["request"]["body"]["json"]
        if step["request"]["path"].endswith("/put"):
            bucket.objects[body["path"]] = (len(base64.b64decode(body["contentBase64"])), body["digest"])
        else:
            assert (body["path"] in bucket.objects) == (step["response"]["status"] == 200), step["name"]


def receipt(number: int, digest: str = "a" * 64, size: int = 5) -> dict[str, Any]:
    return {
        "producer_run_id": str(number),
        "producer_run_attempt": 1,
        "artifact_name": f"exact-review-{number}-1",
        "canonical_item_key": "acme/widgets#7",
        "lease_revision": 1,
        "protocol_version": 2,
        "digest": digest,
        "bytes": size,
    }


async def test_a_receipt_is_immutable_and_needs_its_object(storage: Storage) -> None:
    bucket = Bucket()
    store = ArtifactReceiptStore(storage, bucket)
    with pytest.raises(ArtifactCacheObjectMismatch):
        await store.store(receipt(1), UPLOADED)
    for digest in ("a" * 64, "b" * 64):
        bucket.objects[PREFIX + digest] = (5, digest)
    await store.store(receipt(1), UPLOADED)
    with pytest.raises(ArtifactReceiptImmutableConflict):
        await store.store(receipt(1, "b" * 64), UPLOADED)
    with pytest.raises(ArtifactCacheObjectMismatch):
        await store.store(receipt(1, size=6), UPLOADED)
    with pytest.raises(InvalidArtifactReceipt):
        await store.store(receipt(1, "A" * 64), UPLOADED)
    with pytest.raises(ArtifactCacheUnavailable):
        await ArtifactReceiptStore(storage, None).store(receipt(1), UPLOADED)


async def test_clean_up_looks_at_one_page_and_goes_on_where_it_ended(storage: Storage) -> None:
    bucket = Bucket()
    for number in range(CLEAN_LOT + 5):
        digest = f"{number:064x}"
        bucket.objects[PREFIX + digest] = (5, digest)
    store = ArtifactReceiptStore(storage, bucket)
    late = UPLOADED + RETENTION_MS + 1
    assert await store.prune(late) == {"receiptsDeleted": 0, "objectsDeleted": CLEAN_LOT}
    reopened = ArtifactReceiptStore(storage, bucket)
    assert await reopened.prune(late) == {"receiptsDeleted": 0, "objectsDeleted": 5}
    assert not bucket.objects


async def test_young_objects_and_live_receipts_keep_their_objects(storage: Storage) -> None:
    bucket = Bucket()
    bucket.objects[PREFIX + "a" * 64] = (5, "a" * 64)
    store = ArtifactReceiptStore(storage, bucket)
    assert (await store.prune(UPLOADED + RETENTION_MS))["objectsDeleted"] == 0
    await store.store(receipt(1), UPLOADED + RETENTION_MS)
    assert (await store.prune(UPLOADED + RETENTION_MS + 1000))["objectsDeleted"] == 0
    assert bucket.listings == 2

"""Bundles of a review's artifact, cached in front of the code host's own artifact store.

Spec state-plane-protocol 8, seed "State storage". A restored bundle has matched all six members of its receipt
and its digest;
every miss, mismatch and failure of the cache ends at the caller's own fetcher, never in an error.
"""

import hashlib
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from moorage.protocols.artifact_receipts import PREFIX, ReceiptTuple
from moorage.protocols.bundles import InvalidBundle, pack, unpack

from .blobs import AsyncBlobs, BlobDiffers
from .errors import ClientError, InvalidAnswer
from .http import AsyncHttp, Http

RECEIPTS: Final = "/internal/exact-review/artifact-cache/receipt/"
logger = logging.getLogger(__name__)

Files = Mapping[str, bytes]


@dataclass(frozen=True, slots=True)
class Restored:
    """The files, and where they came from: `cached`, else the caller's fetcher. `reason` says why not from the
    cache."""

    files: Files
    cached: bool
    reason: str | None = None


def _members(name: ReceiptTuple) -> dict[str, Any]:
    return {
        "producer_run_id": name.producer_run_id,
        "producer_run_attempt": name.producer_run_attempt,
        "artifact_name": name.artifact_name,
        "canonical_item_key": name.canonical_item_key,
        "lease_revision": name.lease_revision,
        "protocol_version": name.protocol_version,
    }


def _matches(receipt: Mapping[str, Any], name: ReceiptTuple) -> bool:
    found = (
        receipt.get("producerRunId"),
        receipt.get("producerRunAttempt"),
        receipt.get("artifactName"),
        receipt.get("canonicalItemKey"),
        receipt.get("leaseRevision"),
        receipt.get("protocolVersion"),
    )
    return found == name.columns() and receipt.get("objectKey") == f"{PREFIX}{receipt.get('digest')}"


class AsyncBundles:
    """The cache over an `AsyncHttp`."""

    def __init__(self, http: AsyncHttp) -> None:
        self._http = http
        self._blobs = AsyncBlobs(http)

    async def publish(self, name: ReceiptTuple, files: Files) -> dict[str, Any]:
        """Stores the bundle and its receipt, and returns the receipt.

        Raises InvalidBundle, Conflict when another bundle has that receipt already, ClientError.
        """
        archive = pack(files)
        digest = hashlib.sha256(archive).hexdigest()
        await self._blobs.put(PREFIX + digest, archive)
        stored = {**_members(name), "digest": digest, "bytes": len(archive)}
        answer = await self._http.json("POST", RECEIPTS + "store", stored)
        receipt = answer.get("receipt")
        if not isinstance(receipt, dict) or not _matches(receipt, name) or receipt.get("digest") != digest:
            raise InvalidAnswer("the receipt is not that of the bundle")
        return receipt

    async def lookup(self, name: ReceiptTuple) -> dict[str, Any] | None:
        """The receipt of exactly `name`, or None. Raises ClientError."""
        answer = await self._http.json("POST", RECEIPTS + "lookup", _members(name))
        receipt = answer.get("receipt")
        if answer.get("hit") is not True:
            return None
        if not isinstance(receipt, dict) or not _matches(receipt, name):
            raise InvalidAnswer("the receipt is that of another bundle")
        return receipt

    async def read(self, receipt: Mapping[str, Any]) -> dict[str, bytes]:
        """The files behind a receipt, size and digest verified. Raises BlobDiffers, InvalidBundle, ClientError."""
        archive = await self._blobs.read(str(receipt["objectKey"]))
        if len(archive) != receipt["bytes"] or hashlib.sha256(archive).hexdigest() != receipt["digest"]:
            raise BlobDiffers("the cached bundle is not the one that its receipt names")
        return unpack(archive)

    async def restore(
        self, name: ReceiptTuple, fetch: Callable[[], Awaitable[Files]], *, publish: bool = True
    ) -> Restored:
        """The files of `name`: from the cache, else from `fetch`, whose result is then cached where `publish` is set.

        What `fetch` returns must have passed the caller's own validation. Raises what `fetch` raises, nothing else.
        """
        reason = "no receipt"
        try:
            receipt = await self.lookup(name)
            if receipt is not None:
                return Restored(await self.read(receipt), True)
        except (ClientError, InvalidBundle) as error:
            reason = str(error)
            logger.warning("bundle cache: %s; fetching instead", reason)
        files = await fetch()
        if publish:
            try:
                await self.publish(name, files)
            except (ClientError, InvalidBundle) as error:
                logger.warning("bundle cache: not stored: %s", error)
        return Restored(files, False, reason)


class Bundles:
    """The synchronous face of `AsyncBundles`, over an `Http`."""

    def __init__(self, http: Http) -> None:
        self._loop = http.loop
        self._bundles = AsyncBundles(http.asynchronous)

    def publish(self, name: ReceiptTuple, files: Files) -> dict[str, Any]:
        """See `AsyncBundles.publish`."""
        return self._loop.run(self._bundles.publish(name, files))

    def lookup(self, name: ReceiptTuple) -> dict[str, Any] | None:
        """See `AsyncBundles.lookup`."""
        return self._loop.run(self._bundles.lookup(name))

    def restore(self, name: ReceiptTuple, fetch: Callable[[], Files], *, publish: bool = True) -> Restored:
        """See `AsyncBundles.restore`; `fetch` is called in the client's thread."""

        async def fetched() -> Files:
            return fetch()

        return self._loop.run(self._bundles.restore(name, fetched, publish=publish))

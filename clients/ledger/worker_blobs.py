"""The Worker's blob routes as a ledger's store (spec state-plane-protocol 9)."""

import hashlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import msgspec

from moorage.protocols.ledger.refusals import LedgerConflict, LedgerRefusal

from ..blobs import PREFIX, Blobs
from ..errors import Conflict, InvalidAnswer

if TYPE_CHECKING:
    from ..http import Answer, Http


class WorkerBlobs:
    """A `BlobStore` over a synchronous signed client. Network errors are `moorage.clients.errors.ClientError`."""

    def __init__(self, http: "Http") -> None:
        self._http = http
        self._blobs = Blobs(http)

    def put(self, path: str, data: bytes) -> bool:
        """Stores an object once; whether this call made it. Raises LedgerConflict when other bytes are there."""
        try:
            return not self._blobs.put(path, data).unchanged
        except Conflict as conflict:
            raise LedgerConflict("blob-conflict", str(conflict), f"r2:{path}") from None

    def get(self, path: str, limit: int) -> bytes | None:
        """A whole object of at most `limit` bytes, in one request, its digest compared when told."""
        answer = self._chunk(path, 0, limit + 1)
        if answer is None or answer.status == 416:
            return None if answer is None else b""
        if len(answer.body) > limit:
            raise LedgerRefusal("byte-limit", f"holds more than {limit} bytes", f"r2:{path}")
        digest = answer.headers.get("x-clawsweeper-blob-digest")
        if digest is not None and hashlib.sha256(answer.body).hexdigest() != digest:
            raise InvalidAnswer(f"{path}: the bytes have another digest than the service says")
        return answer.body

    def get_range(self, path: str, offset: int, size: int) -> bytes | None:
        """A part of an object, empty past its end; None when missing."""
        answer = self._chunk(path, offset, size)
        if answer is None:
            return None
        return b"" if answer.status == 416 else answer.body

    def walk(self, prefix: str) -> Iterator[str]:
        """Paths below a folder, in order of their bytes."""
        return (blob.path for blob in self._blobs.list(prefix))

    def _chunk(self, path: str, offset: int, length: int) -> "Answer | None":
        body: dict[str, Any] = {"path": path, "offset": offset, "length": length}
        answer = self._http.request(
            "POST", f"{PREFIX}chunk", msgspec.json.encode(body), expect=(404, 416), max_answer_bytes=length + 4096
        )
        if answer.status == 404:
            if answer.json_object().get("error") != "blob_not_found":
                raise InvalidAnswer(f"{path}: the service has no blob routes")
            return None
        return answer

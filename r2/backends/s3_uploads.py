"""The end of a multipart upload at an S3 store. Every call blocks; they run in threads."""

import logging
from collections.abc import Callable, Sequence
from typing import Any

from ..assembly import StoredPart
from ..backend import Record
from ..errors import InternalError
from .s3_calls import code_of, was_retried
from .s3_metadata import bare_etag
from .s3_probe import REFUSALS, probe_completion, status_of

log = logging.getLogger("moorage.r2")

Place = dict[str, str]
"""Bucket, Key and UploadId."""


class Uploads:
    """Uploads of one bucket. `head` gives an object's record."""

    def __init__(self, client: Any, bucket: str, head: Callable[[str], Record | None]) -> None:
        self._client = client
        self._bucket = bucket
        self._head = head
        self._conditional: bool | None = None

    def parts(self, place: Place) -> dict[int, StoredPart]:
        """The parts that the store holds, by number."""
        pages = self._client.get_paginator("list_parts").paginate(**place)
        return {
            part["PartNumber"]: StoredPart(part["PartNumber"], bare_etag(part["ETag"]), part["Size"])
            for page in pages
            for part in page.get("Parts", [])
        }

    def complete(
        self, place: Place, parts: Sequence[tuple[int, str]], version: str | None, **condition: str
    ) -> Record:
        """Makes the object of the parts and returns its record. `version` tells our own object after a repetition."""
        from botocore.exceptions import ClientError

        key = place["Key"]
        chosen = [{"PartNumber": number, "ETag": etag} for number, etag in parts]
        try:
            self._client.complete_multipart_upload(**place, MultipartUpload={"Parts": chosen}, **condition)
        except ClientError as error:
            again = code_of(error) == "NoSuchUpload" or status_of(error) in REFUSALS
            stored = self._head(key) if again and version and was_retried(error) else None
            if stored is None or stored.version != version:
                raise
            return stored
        record = self._head(key)
        if record is None:
            raise InternalError from ConnectionError(f"{key!r} was deleted at once by somebody else")
        return record

    def complete_new(self, place: Place, parts: Sequence[tuple[int, str]], version: str | None) -> Record | None:
        """As `complete`, when there is no object yet; else None."""
        from botocore.exceptions import ClientError

        key = place["Key"]
        if not self._keeps_conditions():
            return None if self._head(key) is not None else self.complete(place, parts, version)
        try:
            return self.complete(place, parts, version, IfNoneMatch="*")
        except ClientError as error:
            if status_of(error) not in REFUSALS or self._head(key) is None:
                raise  # what was in the way may be gone by now: the caller may try again
            return None

    def _keeps_conditions(self) -> bool:
        """Whether the store keeps a condition on a completion; found out at the first one."""
        if self._conditional is None:
            self._conditional = probe_completion(self._client, self._bucket)
            if not self._conditional:
                log.warning(
                    "the S3 store of bucket %s keeps no condition on the completion of an upload: two processes that "
                    "complete uploads of one key at the same time may both succeed, and the later one stays",
                    self._bucket,
                )
        return self._conditional

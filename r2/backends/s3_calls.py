"""Calls to an S3 store from threads: errors, upload ids, bodies."""

import base64
import binascii
import hashlib
import re
from typing import Any, Final

from ..errors import (
    BadUpload,
    EntityTooLarge,
    EntityTooSmall,
    InternalError,
    InvalidObjectName,
    InvalidPart,
    MetadataTooLarge,
    NoSuchUpload,
    R2Error,
)
from .common import CHUNK_BYTES
from .s3_probe import status_of

_BY_CODE: Final[dict[str, type[R2Error]]] = {
    "EntityTooLarge": EntityTooLarge,
    "EntityTooSmall": EntityTooSmall,
    "InvalidPart": InvalidPart,
    "InvalidPartOrder": BadUpload,
    "KeyTooLongError": InvalidObjectName,
    "MetadataTooLarge": MetadataTooLarge,
    "NoSuchUpload": NoSuchUpload,
}
NOT_IN_XML: Final = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that a request body cannot name (XML 1.0, 2.2)."""


def code_of(error: Any) -> str:
    """The S3 code of a botocore ClientError."""
    return str(error.response.get("Error", {}).get("Code", ""))


def is_missing(error: Any) -> bool:
    """Whether the error says that the object is not there."""
    return status_of(error) == 404 and code_of(error) in {"404", "NoSuchKey", "NotFound"}


def was_retried(error: Any) -> bool:
    """Whether an earlier attempt of the request may have been carried out."""
    return int(error.response.get("ResponseMetadata", {}).get("RetryAttempts", 0)) > 0


def translated(error: Any) -> R2Error:
    """The bucket's error for a botocore error; InternalError when there is no better one."""
    from botocore.exceptions import ClientError

    if isinstance(error, ClientError):
        return _BY_CODE.get(code_of(error), InternalError)()
    return InternalError()


def wrap_upload(key: str, upload: str, version: str) -> str:
    """The upload id that callers see: the store's, the version of the object to be, and a check that ties them to the
    key.

    A finished upload can so be told from one that never was, which S3 does not distinguish, and an object from one
    that somebody else made. At least 171 characters.
    """
    text = f"{upload}\0{version}".encode()
    return base64.urlsafe_b64encode((_check(key, text) + text).ljust(128, b"\0")).decode().rstrip("=")


def unwrap_upload(key: str, upload: str) -> tuple[str, str | None]:
    """The store's id, and the version; None when the id did not come from `wrap_upload` with this key. Other ids are
    taken as they are.
    """
    try:
        data = base64.urlsafe_b64decode(upload + "=" * (-len(upload) % 4))
        text = data[8:].rstrip(b"\0")
        if data[:8] == _check(key, text) and text:
            raw, _, version = text.decode().partition("\0")
            return raw, version
    except (ValueError, binascii.Error):
        pass
    return upload, None


def _check(key: str, upload: bytes) -> bytes:
    return hashlib.sha256(key.encode() + b"\0" + upload).digest()[:8]


class Body:
    """A GET's body that outlives cut connections: it goes on where it stopped, while the object is still the same.

    `read` and `close` block; they run in threads.
    """

    __slots__ = ("_bucket", "_client", "_etag", "_key", "_offset", "_stream", "remaining")

    def __init__(self, client: Any, bucket: str, key: str, etag: str, stream: Any, offset: int, length: int) -> None:
        self._client = client
        self._bucket = bucket
        self._key = key
        self._etag = etag
        self._stream = stream
        self._offset = offset
        self.remaining = length

    def read(self, attempts: int = 3) -> bytes:
        """The next bytes, empty at the end. InternalError after repeated cuts, or when the object has changed."""
        from botocore.exceptions import BotoCoreError, ClientError
        from urllib3.exceptions import HTTPError

        cut: Exception | None = None
        for _ in range(attempts):
            if not self.remaining:
                self._finish()
                return b""
            try:
                if self._stream is None:
                    self._stream = self._client.get_object(
                        Bucket=self._bucket,
                        Key=self._key,
                        IfMatch=f'"{self._etag}"',
                        Range=f"bytes={self._offset}-{self._offset + self.remaining - 1}",
                    )["Body"]
                chunk: bytes = self._stream.read(min(CHUNK_BYTES, self.remaining))
                if not chunk:
                    raise ConnectionError("the store ended the body too early")
            except ClientError as error:
                raise InternalError from error
            except (BotoCoreError, HTTPError, OSError) as error:
                self.close()
                cut = error
                continue
            self._offset += len(chunk)
            self.remaining -= len(chunk)
            return chunk
        raise InternalError from cut

    def _finish(self) -> None:
        """Reads the end, which gives the connection back for use by others."""
        if self._stream is not None:
            try:
                self._stream.read()
            except Exception:
                pass  # every byte of the object is there; only the connection is lost
        self.close()

    def close(self) -> None:
        """Gives the rest up."""
        stream, self._stream = self._stream, None
        if stream is not None:
            stream.close()

    def __del__(self) -> None:
        self.close()

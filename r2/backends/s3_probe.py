"""Whether a store keeps the promise that everything here rests on: a conditional write is refused when it must be.

Some stores accept `If-None-Match` and `If-Match` on a write and ignore them. Such a store loses data silently: two
writers both believe that they created the object.
"""

import secrets
from collections.abc import Callable
from typing import Any, Final

from ..errors import StoreRefused

REFUSALS: Final = {409, 412}


def status_of(error: Any) -> int:
    """The HTTP status of a botocore ClientError."""
    return int(error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))


def probe(client: Any, bucket: str, name: Callable[[], str] = lambda: secrets.token_hex(8)) -> None:
    """Four conditional writes to a key of its own, which is removed again. StoreRefused when one has the wrong
    outcome.

    Blocks. Also the first contact with the store: a missing bucket and wrong keys show here.
    """
    from botocore.exceptions import BotoCoreError, ClientError

    key = f".moorage-probe/{name()}"
    etag = ""

    def write(body: bytes, **condition: str) -> int:
        nonlocal etag
        try:
            answer = client.put_object(Bucket=bucket, Key=key, Body=body, **condition)
        except ClientError as error:
            status = status_of(error)
            if status in REFUSALS:
                return status
            code = error.response.get("Error", {}).get("Code", "")
            if status == 501 or code == "NotImplemented":
                raise StoreRefused(
                    f"the store of bucket {bucket!r} has no conditional writes ({code}); they are needed for "
                    "create-only and compare-and-swap: use R2, Amazon S3, or a "
                    "MinIO, Ceph or Garage recent enough to have them"
                ) from error
            raise StoreRefused(f"the bucket {bucket!r} cannot be used: {error}") from error
        except BotoCoreError as error:
            raise StoreRefused(f"the store of bucket {bucket!r} cannot be reached: {error}") from error
        etag = answer["ETag"]
        return 200

    def expect(what: str, wanted: bool, status: int) -> None:
        if wanted == (status == 200):
            return
        outcome = f"accepted {what}" if status == 200 else f"refused {what} (HTTP {status})"
        raise StoreRefused(
            f"the store of bucket {bucket!r} {outcome}: it does not honour conditional writes, and would lose data "
            "silently. Nothing was kept; use a store that does"
        )

    try:
        expect("the creation of a new object with If-None-Match: *", True, write(b"1", IfNoneMatch="*"))
        expect("a second creation with If-None-Match: *", False, write(b"2", IfNoneMatch="*"))
        right = etag
        expect("a write with another object's If-Match", False, write(b"3", IfMatch='"' + "0" * 32 + '"'))
        expect("a write with the right If-Match", True, write(b"4", IfMatch=right))
    finally:
        try:
            client.delete_object(Bucket=bucket, Key=key)
        except (BotoCoreError, ClientError):
            pass  # the reason is being raised, or the next probe has another key


def probe_completion(client: Any, bucket: str, name: Callable[[], str] = lambda: secrets.token_hex(8)) -> bool:
    """Whether the store refuses to complete an upload with `If-None-Match: *` over an object that is there.

    Blocks. On a key of its own, which is removed again. What the store answers otherwise is raised.
    """
    from botocore.exceptions import ClientError

    place = {"Bucket": bucket, "Key": f".moorage-probe/{name()}"}
    client.put_object(**place, Body=b"1")
    try:
        upload = client.create_multipart_upload(**place)["UploadId"]
        try:
            part = client.upload_part(**place, UploadId=upload, PartNumber=1, Body=b"2")
            parts = {"Parts": [{"PartNumber": 1, "ETag": part["ETag"]}]}
            client.complete_multipart_upload(**place, UploadId=upload, MultipartUpload=parts, IfNoneMatch="*")
        except ClientError as error:
            if status_of(error) not in {*REFUSALS, 400, 501}:
                raise
            client.abort_multipart_upload(**place, UploadId=upload)
            return status_of(error) in REFUSALS
        return False
    finally:
        client.delete_object(**place)

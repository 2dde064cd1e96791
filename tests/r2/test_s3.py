"""What is the `s3` backend's own: settings, the probe, lost answers, cut connections, large values."""

import asyncio
import hashlib
import io
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from botocore.exceptions import ClientError, EndpointConnectionError, ReadTimeoutError

from moorage.r2 import Bucket, R2Error, R2ObjectBody, StoreRefused, open_bucket
from moorage.r2.backends.s3 import S3Backend
from moorage.r2.backends.s3_calls import Body
from moorage.r2.backends.s3_probe import probe
from moorage.r2.backends.s3_settings import S3Settings
from moorage.r2.opening import open_backend

from .stores import raw_client, s3_environment

MEBIBYTE = 1024**2


@pytest.fixture
def store() -> Iterator[tuple[str, dict[str, str]]]:
    with s3_environment() as found:
        yield found


@pytest.fixture
def raw(store: tuple[str, dict[str, str]]) -> Iterator[Any]:
    client = raw_client(store[1]["R2_ENDPOINT_URL"])
    yield client
    client.close()


@pytest_asyncio.fixture
async def backend(store: tuple[str, dict[str, str]]) -> AsyncIterator[S3Backend]:
    settings = replace(
        S3Settings.from_environment(store[1]), single_put=64 * 1024, part_size=5 * MEBIBYTE, connect_timeout=2.0
    )
    opened = await S3Backend.open(settings, store[0])
    yield opened
    await opened.close()


def refusal(status: int, code: str, operation: str = "PutObject", retries: int = 0) -> ClientError:
    metadata: Any = {"HTTPStatusCode": status, "RetryAttempts": retries}
    return ClientError({"Error": {"Code": code, "Message": code}, "ResponseMetadata": metadata}, operation)


class Recording:
    """A client that notes its calls and may answer some of them itself."""

    def __init__(self, client: Any) -> None:
        self.client = client
        self.calls: list[tuple[str, dict[str, Any]]] = []
        self.instead: dict[str, Any] = {}

    def __getattr__(self, name: str) -> Any:
        real = getattr(self.client, name)
        if name in {"close", "get_paginator"}:
            return real

        def call(**fields: Any) -> Any:
            self.calls.append((name, fields))
            instead = self.instead.pop(name, None)
            return real(**fields) if instead is None else instead(real, fields)

        return call

    def names(self) -> list[str]:
        return [name for name, _ in self.calls]


@pytest.fixture
def recording(backend: S3Backend) -> Recording:
    client = Recording(backend.client)
    backend.client = backend._uploads._client = client
    return client


# settings


def test_settings_name_what_is_missing() -> None:
    with pytest.raises(StoreRefused, match="needs R2_ACCESS_KEY_ID, R2_SECRET_ACCESS_KEY, R2_ENDPOINT_URL:"):
        S3Settings.from_environment({})
    with pytest.raises(StoreRefused, match="needs R2_SECRET_ACCESS_KEY:"):
        S3Settings.from_environment({"AWS_ACCESS_KEY_ID": "a", "AWS_ENDPOINT_URL": "https://x"})
    with pytest.raises(StoreRefused, match="must begin with https://"):
        S3Settings.from_environment(
            {"R2_ACCESS_KEY_ID": "a", "R2_SECRET_ACCESS_KEY": "b", "R2_ENDPOINT_URL": "x.com"}
        )


def test_settings_fall_back_to_amazons_names_and_hide_secrets() -> None:
    settings = S3Settings.from_environment(
        {
            "AWS_ACCESS_KEY_ID": "id",
            "AWS_SECRET_ACCESS_KEY": "hidden",
            "AWS_SESSION_TOKEN": "token",
            "AWS_REGION": "eu-1",
        }
    )
    assert (settings.endpoint_url, settings.region, settings.session_token) == (None, "eu-1", "token")
    assert "hidden" not in repr(settings)
    assert "token=" not in repr(settings)
    ours = S3Settings.from_environment(
        {
            "R2_ACCESS_KEY_ID": "r2",
            "R2_SECRET_ACCESS_KEY": "s",
            "R2_ENDPOINT_URL": "https://r2",
            "AWS_ACCESS_KEY_ID": "aws",
            "AWS_SESSION_TOKEN": "of the other key",
        }
    )
    assert (ours.access_key_id, ours.region, ours.session_token) == ("r2", "auto", None)


def test_the_client_is_bounded_and_sends_no_default_checksums() -> None:
    client = S3Settings("a", "b", "https://example.invalid").client()
    config = client.meta.config
    assert (config.connect_timeout, config.read_timeout) == (5.0, 60.0)
    assert config.retries["mode"] == "standard"
    assert config.retries["total_max_attempts"] == 4
    assert config.request_checksum_calculation == "when_required"
    assert config.response_checksum_validation == "when_required"
    client.close()


async def test_unknown_kinds_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="there are file, memory, s3, moto"):
        await open_backend("disk", name="x")
    with pytest.raises(ValueError, match="needs `folder`"):
        await open_backend("file", name="x")
    with pytest.raises(ValueError, match="a bucket's name is letters"):
        await open_bucket("file", name="../up", state_folder=tmp_path)
    with pytest.raises(StoreRefused, match="R2_ENDPOINT_URL"):
        await open_bucket("s3", name="x", environment={})


# the probe


class Store:
    """An S3 store of one object, which honours the headers named."""

    def __init__(self, *honoured: str, unknown: int = 0) -> None:
        self.honoured = honoured
        self.unknown = unknown
        self.etag: str | None = None
        self.version = 0
        self.deleted = False

    def put_object(
        self, Bucket: str, Key: str, Body: bytes, IfNoneMatch: str = "", IfMatch: str = ""
    ) -> dict[str, str]:
        if self.unknown and (IfNoneMatch or IfMatch):
            raise refusal(self.unknown, "NotImplemented" if self.unknown == 501 else "AccessDenied")
        if IfNoneMatch and "If-None-Match" in self.honoured and self.etag is not None:
            raise refusal(412, "PreconditionFailed")
        if IfMatch and "If-Match" in self.honoured and self.etag != IfMatch:
            raise refusal(412, "PreconditionFailed")
        self.version += 1
        self.etag = f'"{self.version}"'
        return {"ETag": self.etag}

    def delete_object(self, Bucket: str, Key: str) -> None:
        self.deleted = True


def test_an_honest_store_passes_the_probe_and_is_left_clean() -> None:
    store = Store("If-None-Match", "If-Match")
    probe(store, "b")
    assert store.deleted


@pytest.mark.parametrize(
    ("store", "message"),
    [
        (Store(), "accepted a second creation with If-None-Match"),
        (Store("If-Match"), "accepted a second creation with If-None-Match"),
        (Store("If-None-Match"), "accepted a write with another object's If-Match"),
        (Store(unknown=501), "has no conditional writes"),
        (Store(unknown=403), "cannot be used"),
    ],
)
def test_a_store_that_would_lose_data_is_refused(store: Store, message: str) -> None:
    with pytest.raises(StoreRefused, match=message):
        probe(store, "b")
    assert store.deleted


async def test_a_missing_bucket_and_a_dead_store_are_named(store: tuple[str, dict[str, str]]) -> None:
    with pytest.raises(StoreRefused, match="'no-such-bucket' cannot be used"):
        await open_bucket("s3", name="no-such-bucket", environment=store[1])
    settings = S3Settings("a", "b", "http://127.0.0.1:9", attempts=1, connect_timeout=0.5)
    with pytest.raises(StoreRefused, match="cannot be reached"):
        await S3Backend.open(settings, "b")


# writes


async def test_create_only_and_swap_are_single_requests(backend: S3Backend, recording: Recording) -> None:
    bucket = Bucket(backend)
    put = await bucket.put("k", "one", onlyIf={"etagDoesNotMatch": "*"})
    assert put is not None
    await bucket.put("k", "two", onlyIf={"etagMatches": put.etag})
    assert recording.names() == ["put_object", "put_object"]
    assert recording.calls[0][1]["IfNoneMatch"] == "*"
    assert recording.calls[1][1]["IfMatch"] == put.httpEtag


async def test_a_date_condition_reads_the_head_and_demands_its_etag(backend: S3Backend, recording: Recording) -> None:
    bucket = Bucket(backend)
    put = await bucket.put("k", "one")
    assert put is not None
    recording.calls.clear()
    await bucket.put("k", "two", onlyIf={"uploadedAfter": 0})
    assert recording.names() == ["head_object", "put_object"]
    assert recording.calls[1][1]["IfMatch"] == put.httpEtag


async def test_a_write_in_between_makes_the_condition_be_looked_up_again(
    backend: S3Backend, recording: Recording
) -> None:
    bucket = Bucket(backend)
    await bucket.put("k", "one")

    def another_was_faster(real: Any, fields: dict[str, Any]) -> Any:
        recording.client.put_object(Bucket=backend.bucket, Key="k", Body=b"theirs")
        return real(**fields)

    recording.instead["put_object"] = another_was_faster
    recording.calls.clear()
    assert await bucket.put("k", "two", onlyIf={"uploadedAfter": 0}) is not None
    assert recording.names() == ["head_object", "put_object", "head_object", "put_object"]


async def test_a_repeated_write_recognises_itself(backend: S3Backend, recording: Recording) -> None:
    """The answer to the first attempt is lost, the repetition is refused because of it: the put has succeeded."""

    def answer_lost(real: Any, fields: dict[str, Any]) -> Any:
        real(**fields)
        raise refusal(412, "PreconditionFailed", retries=1)

    bucket = Bucket(backend)
    recording.instead["put_object"] = answer_lost
    put = await bucket.put("k", "mine", onlyIf={"etagDoesNotMatch": "*"})
    assert put is not None
    recording.instead["put_object"] = answer_lost
    assert await bucket.put("k", "again", onlyIf={"etagDoesNotMatch": "*"}) is None


async def test_a_conflict_is_tried_again(backend: S3Backend, recording: Recording) -> None:
    def conflict(real: Any, fields: dict[str, Any]) -> Any:
        raise refusal(409, "ConditionalRequestConflict")

    recording.instead["put_object"] = conflict
    assert await Bucket(backend).put("k", "x", onlyIf={"etagDoesNotMatch": "*"}) is not None


async def test_failures_of_the_store_are_internal_errors(backend: S3Backend, recording: Recording) -> None:
    def cut(real: Any, fields: dict[str, Any]) -> Any:
        raise EndpointConnectionError(endpoint_url="http://x")

    def too_large(real: Any, fields: dict[str, Any]) -> Any:
        raise refusal(400, "MetadataTooLarge")

    bucket = Bucket(backend)
    recording.instead["put_object"] = cut
    with pytest.raises(R2Error, match=r"^put: We encountered an internal error.*\(10001\)$") as caught:
        await bucket.put("k", "x")
    assert isinstance(caught.value.__cause__, EndpointConnectionError)
    recording.instead["put_object"] = too_large
    with pytest.raises(R2Error, match="10012"):
        await bucket.put("k", "x", customMetadata={"a": "b"})


async def numbered(count: int, size: int = MEBIBYTE) -> AsyncIterator[bytes]:
    for number in range(count):
        yield bytes([number]) * size


async def test_a_large_value_goes_in_parts(backend: S3Backend, recording: Recording) -> None:
    bucket = Bucket(backend)
    data = b"".join([chunk async for chunk in numbered(12)])
    promise = hashlib.sha256(data).hexdigest()
    put = await bucket.put("k", numbered(12), sha256=promise, customMetadata={"A": "1"})
    assert put is not None
    assert recording.names()[0] == "create_multipart_upload"
    assert recording.names().count("upload_part") == 3
    assert put.etag.endswith("-3")
    assert put.checksums.toJSON() == {"sha256": promise}
    got = await bucket.get("k")
    assert isinstance(got, R2ObjectBody)
    assert got.customMetadata == {"A": "1"}
    assert await got.bytes() == data


async def test_a_large_conditional_value_is_one_request(backend: S3Backend, recording: Recording) -> None:
    """Conditions on the completion of a multipart upload are not kept by every store; they are not relied upon."""
    bucket = Bucket(backend)
    data = b"".join([chunk async for chunk in numbered(12)])
    put = await bucket.put("k", numbered(12), onlyIf={"etagDoesNotMatch": "*"})
    assert put is not None
    assert recording.names() == ["put_object"]
    assert put.etag == hashlib.md5(data).hexdigest()
    assert await bucket.put("k", numbered(13), onlyIf={"etagDoesNotMatch": "*"}) is None


@pytest.mark.parametrize("failing", ["upload_part", "complete_multipart_upload"])
async def test_a_large_value_that_fails_is_given_up(backend: S3Backend, recording: Recording, failing: str) -> None:
    def cut(real: Any, fields: dict[str, Any]) -> Any:
        raise ReadTimeoutError(endpoint_url="http://x")

    recording.instead[failing] = cut
    bucket = Bucket(backend)
    with pytest.raises(R2Error, match="10001"):
        await bucket.put("k", numbered(12))
    assert recording.names()[-1] == "abort_multipart_upload"
    assert await bucket.head("k") is None
    assert "Uploads" not in recording.client.list_multipart_uploads(Bucket=backend.bucket)


async def test_a_large_value_that_breaks_off_is_given_up(backend: S3Backend, recording: Recording) -> None:
    async def breaking() -> AsyncIterator[bytes]:
        async for chunk in numbered(11):
            yield chunk
        raise OSError("the client has gone")

    with pytest.raises(OSError, match="the client has gone"):
        await Bucket(backend).put("k", breaking())
    assert "Uploads" not in recording.client.list_multipart_uploads(Bucket=backend.bucket)


async def test_the_store_checks_what_it_received(backend: S3Backend, recording: Recording) -> None:
    bucket = Bucket(backend)
    await bucket.put("k", "hello")
    upload = await bucket.createMultipartUpload("m")
    await upload.uploadPart(1, "part")
    digests = [fields["ContentMD5"] for name, fields in recording.calls if name in {"put_object", "upload_part"}]
    assert digests == ["XUFAKrxLKna5cZ2REBfFkg==", "uNMQxW7eWsA+ja/k2wLAOQ=="] or len(set(digests)) == 2


# completions

NEW = {"onlyIf": {"etagDoesNotMatch": "*"}}


async def test_a_create_only_completion_is_one_request(
    backend: S3Backend, recording: Recording, caplog: pytest.LogCaptureFixture
) -> None:
    """After the first one, which looks whether the store keeps the condition."""
    bucket = Bucket(backend)
    for key in ("a", "b"):
        upload = await bucket.createMultipartUpload(key)
        part = await upload.uploadPart(1, "x")
        recording.calls.clear()
        assert await upload.complete([part], NEW) is not None
    assert [name for name in recording.names() if name != "head_object"][-1:] == ["complete_multipart_upload"]
    completions = [fields for name, fields in recording.calls if name == "complete_multipart_upload"]
    assert [fields.get("IfNoneMatch") for fields in completions] == ["*"]
    assert [item.key for item in (await bucket.list()).objects] == ["a", "b"]
    assert not caplog.records


@pytest.mark.parametrize("unknown", [False, True], ids=["ignored", "not implemented"])
async def test_a_store_that_keeps_no_condition_on_completions_is_named(
    backend: S3Backend, recording: Recording, caplog: pytest.LogCaptureFixture, unknown: bool
) -> None:
    def ignoring(real: Any, fields: dict[str, Any]) -> Any:
        if unknown:
            raise refusal(501, "NotImplemented")
        fields.pop("IfNoneMatch")
        return real(**fields)

    bucket = Bucket(backend)
    await bucket.put("there", "x")
    recording.instead["complete_multipart_upload"] = ignoring
    upload = await bucket.createMultipartUpload("there")
    part = await upload.uploadPart(1, "y")
    assert await upload.complete([part], NEW) is None
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "keeps no condition" in caplog.text
    # completed without the condition where nothing is there; said once
    other = await bucket.createMultipartUpload("new")
    assert await other.complete([await other.uploadPart(1, "z")], NEW) is not None
    assert len(caplog.records) == 1
    assert [item.key for item in (await bucket.list()).objects] == ["new", "there"]
    left = recording.client.list_multipart_uploads(Bucket=backend.bucket).get("Uploads", [])
    assert [item["Key"] for item in left] == ["there"]


@pytest.mark.parametrize("status", [404, 412])
@pytest.mark.parametrize("options", [None, NEW], ids=["at once", "create-only"])
async def test_a_repeated_completion_recognises_itself(
    backend: S3Backend, recording: Recording, options: Any, status: int
) -> None:
    """The answer to the first attempt is lost, and the repetition is refused because of it."""

    def answer_lost(real: Any, fields: dict[str, Any]) -> Any:
        real(**fields)
        raise refusal(status, "NoSuchUpload" if status == 404 else "PreconditionFailed", retries=1)

    bucket = Bucket(backend)
    first = await bucket.createMultipartUpload("first")
    await first.complete([await first.uploadPart(1, "x")], NEW)
    upload = await bucket.createMultipartUpload("k")
    part = await upload.uploadPart(1, "mine")
    recording.instead["complete_multipart_upload"] = answer_lost
    done = await upload.complete([part], options)
    assert done is not None
    assert done.size == 4


# reads


async def test_a_whole_read_is_one_request(backend: S3Backend, recording: Recording) -> None:
    bucket = Bucket(backend)
    await bucket.put("k", "hello")
    recording.calls.clear()
    await bucket.get("k")
    assert recording.names() == ["get_object"]
    recording.calls.clear()
    await bucket.get("k", range={"offset": 1})
    assert recording.names() == ["head_object", "get_object"]
    assert recording.calls[1][1]["Range"] == "bytes=1-4"


async def test_a_ranged_read_of_a_replaced_object_starts_anew(backend: S3Backend, recording: Recording) -> None:
    bucket = Bucket(backend)
    await bucket.put("k", "0123456789")

    def replaced(real: Any, fields: dict[str, Any]) -> Any:
        recording.client.put_object(Bucket=backend.bucket, Key="k", Body=b"abc")
        return real(**fields)

    recording.instead["get_object"] = replaced
    got = await bucket.get("k", range={"offset": 1})
    assert isinstance(got, R2ObjectBody)
    assert (got.size, await got.text()) == (3, "bc")


class CutStream(io.BytesIO):
    """A body whose connection is cut after some bytes."""

    def __init__(self, data: bytes, good: int) -> None:
        super().__init__(data)
        self.good = good

    def read(self, size: int | None = -1) -> bytes:
        if self.tell() >= self.good:
            raise ReadTimeoutError(endpoint_url="http://x")
        return super().read(min(size or 0, self.good - self.tell()))


class Ranged:
    """A client that serves ranges of one value; every answer is cut after `good` bytes."""

    def __init__(self, data: bytes, good: int, etag: str = "e") -> None:
        self.data = data
        self.good = good
        self.etag = etag
        self.asked: list[str] = []

    def get_object(self, Bucket: str, Key: str, IfMatch: str, Range: str) -> dict[str, Any]:
        self.asked.append(Range)
        if IfMatch != f'"{self.etag}"':
            raise refusal(412, "PreconditionFailed", "GetObject")
        start, end = map(int, Range.removeprefix("bytes=").split("-"))
        return {"Body": CutStream(self.data[start : end + 1], self.good)}


def read_all(body: Body) -> bytes:
    data = bytearray()
    while chunk := body.read():
        data += chunk
    return bytes(data)


def test_a_cut_body_goes_on_where_it_stopped() -> None:
    data = bytes(range(200))
    client = Ranged(data, 60)
    body = Body(client, "b", "k", "e", CutStream(data[10:], 60), 10, 190)
    assert read_all(body) == data[10:]
    assert client.asked == ["bytes=70-199", "bytes=130-199", "bytes=190-199"]


def test_a_body_that_gives_nothing_any_more_fails() -> None:
    with pytest.raises(R2Error, match="10001"):
        read_all(Body(Ranged(b"x" * 100, 0), "b", "k", "e", None, 0, 100))


def test_a_body_is_never_mixed_of_two_objects() -> None:
    client = Ranged(b"y" * 100, 100, etag="other")
    body = Body(client, "b", "k", "e", CutStream(b"x" * 100, 40), 0, 100)
    assert body.read() == b"x" * 40
    with pytest.raises(R2Error, match="10001"):
        body.read()


# other programs' objects


async def test_objects_of_other_programs(backend: S3Backend, raw: Any) -> None:
    raw.put_object(Bucket=backend.bucket, Key="theirs", Body=b"hello", ContentType="text/x", Metadata={"a": "1"})
    bucket = Bucket(backend)
    found = await bucket.head("theirs")
    assert found is not None
    assert (found.httpMetadata, found.customMetadata) == ({"contentType": "text/x"}, {"a": "1"})
    assert found.version
    assert found.checksums.toJSON() == {"md5": hashlib.md5(b"hello").hexdigest()}
    listed = (await bucket.list()).objects[0]
    assert listed.version == found.version


async def test_other_programs_see_plain_metadata(backend: S3Backend, raw: Any) -> None:
    await Bucket(backend).put(
        "ours", "x", customMetadata={"plain": "a b", "Odd": "é"}, storageClass="InfrequentAccess"
    )
    seen = raw.head_object(Bucket=backend.bucket, Key="ours")
    assert seen["Metadata"]["plain"] == "a b"
    assert set(seen["Metadata"]) == {"plain", "moorage"}
    assert seen["StorageClass"] == "STANDARD_IA"
    found = await Bucket(backend).head("ours")
    assert found is not None
    assert found.storageClass == "InfrequentAccess"


async def test_an_upload_of_another_program_can_be_resumed(backend: S3Backend, raw: Any) -> None:
    theirs = raw.create_multipart_upload(Bucket=backend.bucket, Key="k")["UploadId"]
    upload = Bucket(backend).resumeMultipartUpload("k", theirs)
    part = await upload.uploadPart(1, "x")
    assert (await upload.complete([part])).size == 1


async def test_deletes_of_many_go_together(backend: S3Backend, recording: Recording) -> None:
    bucket = Bucket(backend)
    await asyncio.gather(*(bucket.put(f"k{number}", "x") for number in range(5)))
    recording.calls.clear()
    await bucket.delete([f"k{number}" for number in range(5)])
    assert recording.names() == ["delete_objects"]
    assert (await bucket.list()).objects == []

    def some_stay(real: Any, fields: dict[str, Any]) -> Any:
        return {"Errors": [{"Key": "a", "Code": "AccessDenied"}]}

    recording.instead["delete_objects"] = some_stay
    with pytest.raises(R2Error, match=r"delete: .*10001"):
        await bucket.delete(["a", "b"])

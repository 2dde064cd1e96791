"""Every difference that a backend owns up to, shown: one that is not true, or has no proof here, fails."""

import random
import string
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from moorage.r2 import R2Error, R2ObjectBody, open_bucket
from moorage.r2.backends import file, memory, moto, s3
from moorage.r2.backends.s3 import S3Backend
from moorage.r2.backends.s3_calls import Body
from moorage.r2.backends.s3_settings import S3Settings

from .stores import HandClock, bucket_of, raw_client, s3_environment

MEBIBYTE = 1024**2
Proof = Callable[[str, Path], Awaitable[None]]
PROOFS: dict[str, Proof] = {}


def proof(name: str) -> Callable[[Proof], Proof]:
    """Registers the proof of the difference `name`: a function of the backend's kind and an empty folder."""

    def register(function: Proof) -> Proof:
        PROOFS[name] = function
        return function

    return register


CLAIMS = [
    *(("file", name) for name in file.DIFFERENCES),
    *(("memory", name) for name in memory.DIFFERENCES),
    *(("s3", name) for name in s3.DIFFERENCES),
    *(("moto", name) for name in moto.DIFFERENCES),
]


@pytest.mark.parametrize(("kind", "name"), CLAIMS, ids=lambda value: value)
async def test_each_difference_is_one(kind: str, name: str, tmp_path: Path) -> None:
    await PROOFS[name](kind, tmp_path)


def test_every_proof_is_of_a_difference() -> None:
    assert PROOFS.keys() == {name for _, name in CLAIMS}


async def refused(work: Awaitable[Any], code: int) -> None:
    with pytest.raises(R2Error) as caught:
        await work
    assert caught.value.code == code


@proof("storage class")
async def _(kind: str, folder: Path) -> None:
    async with bucket_of(kind, folder) as bucket:
        await bucket.put("k", "x", storageClass="InfrequentAccess")
        await bucket.put("s", "x", storageClass="Standard")
        shown = [found.storageClass for found in (await bucket.head("k"), await bucket.head("s")) if found]
        assert shown == (["InfrequentAccess", ""] if kind in {"s3", "moto"} else ["", ""])


@proof("unfinished uploads")
async def _(kind: str, folder: Path) -> None:
    clock = HandClock()
    async with bucket_of(kind, folder, clock) as bucket:
        upload = await bucket.createMultipartUpload("k")
        part = await upload.uploadPart(1, "x")
    clock.advance(30 * 86_400_000)
    async with bucket_of(kind, folder, clock) as bucket:
        resumed = bucket.resumeMultipartUpload("k", upload.uploadId)
        assert (await resumed.complete([part])).size == 1


@proof("durability")
async def _(kind: str, folder: Path) -> None:
    for _ in range(2):
        bucket = await open_bucket(kind, name="same", state_folder=folder)
        assert (await bucket.list()).objects == []
        await bucket.put("k", "x")
        await bucket.close()


@proof("checks")
async def _(kind: str, folder: Path) -> None:
    async with bucket_of(kind, folder) as bucket:
        backend = bucket.backend
        assert isinstance(backend, moto.MotoBackend)
        url, name = backend.address
        stranger = S3Settings("stranger", "wrong", url, region="us-east-1").client(proxies=False)
        # neither the signature nor the digest is looked at
        stranger.put_object(Bucket=name, Key="k", Body=b"x", ContentMD5="1B2M2Y8AsgTpgAmY7PhCfg==")
        stranger.close()
        found = await bucket.get("k")
        assert isinstance(found, R2ObjectBody)
        assert await found.text() == "x"
        await refused(bucket.put("line\nend", "x"), 10001)


@proof("empty key")
async def _(kind: str, folder: Path) -> None:
    async with bucket_of(kind, folder) as bucket:
        await refused(bucket.put("", "x"), 10020)
        await refused(bucket.createMultipartUpload(""), 10020)
        assert await bucket.get("") is None
        await bucket.delete("")


@proof("etag of large values")
async def _(kind: str, folder: Path) -> None:
    async with bucket_of(kind, folder) as bucket:
        data = bytes(13 * MEBIBYTE)
        put = await bucket.put("k", data)
        assert put is not None
        assert put.etag.endswith("-3")
        assert put.checksums.toJSON() == {}
        conditional = await bucket.put("c", data, onlyIf={"etagDoesNotMatch": "*"})
        assert conditional is not None
        assert "-" not in conditional.etag


@proof("listing")
async def _(kind: str, folder: Path) -> None:
    async with bucket_of(kind, folder, HandClock()) as bucket:
        put = await bucket.put("k", "x", sha1="11f6ad8ec52a2984abaafd7c3b516503785c2072")
        assert put is not None
        (bare,) = (await bucket.list()).objects
        assert bare.version != put.version
        assert bare.uploaded != put.uploaded
        assert bare.checksums.sha1 is None
        (full,) = (await bucket.list(include=["customMetadata"])).objects
        assert (full.version, full.uploaded) == (put.version, put.uploaded)
        assert full.checksums.sha1 is not None


@proof("part etag")
async def _(kind: str, folder: Path) -> None:
    async with bucket_of(kind, folder) as bucket:
        upload = await bucket.createMultipartUpload("k")
        first, again = await upload.uploadPart(1, "x"), await upload.uploadPart(1, "x")
        assert first == again
        assert (await upload.complete([first])).size == 1


@proof("no parts")
async def _(kind: str, folder: Path) -> None:
    async with bucket_of(kind, folder) as bucket:
        upload = await bucket.createMultipartUpload("k")
        await refused(upload.complete([]), 10048)


@proof("create-only completion")
async def _(kind: str, folder: Path) -> None:
    async with bucket_of(kind, folder) as bucket:
        backend = bucket.backend
        assert isinstance(backend, S3Backend)
        for kept in (True, False):
            backend._uploads._conditional = kept
            sent: list[str] = []

            def note(params: Any, sent: list[str] = sent, **_context: Any) -> None:
                sent.append(params["headers"].get("If-None-Match", "nothing"))

            event = "before-call.s3.CompleteMultipartUpload"
            backend.client.meta.events.register(event, note)
            upload = await bucket.createMultipartUpload(f"k{kept}")
            assert await upload.complete([await upload.uploadPart(1, "x")], onlyIf={"etagDoesNotMatch": "*"})
            backend.client.meta.events.unregister(event, note)
            assert sent == (["*"] if kept else ["nothing"])


@proof("upload time of parts")
async def _(kind: str, folder: Path) -> None:
    clock = HandClock()
    async with bucket_of(kind, folder, clock) as bucket:
        upload = await bucket.createMultipartUpload("k")
        done = await upload.complete([await upload.uploadPart(1, "x")])
        assert done.uploaded.timestamp() * 1000 != clock.ms


@proof("metadata limit")
async def _(kind: str, folder: Path) -> None:
    with s3_environment() as (name, environment):
        bucket = await open_bucket("s3", name=name, environment=environment)
        custom = {"plain": "value", "Großes Ä": "ü"}
        await bucket.put("k", "x", customMetadata=custom)
        client = raw_client(environment["R2_ENDPOINT_URL"])
        seen = client.head_object(Bucket=name, Key="k")["Metadata"]
        assert seen.keys() == {"plain", "moorage"}
        found = await bucket.head("k")
        assert found is not None
        assert found.customMetadata == custom
        # what the platform takes may become more than Amazon's 2 KiB
        noise = random.Random(1)
        await bucket.put("full", "x", customMetadata={"A" * 24: "".join(noise.choices(string.printable, k=2024))})
        full = client.head_object(Bucket=name, Key="full")["Metadata"]
        assert sum(len(name) + len(value) for name, value in full.items()) > 2048
        client.close()
        await bucket.close()


@proof("open readers")
async def _(kind: str, folder: Path) -> None:
    async with bucket_of(kind, folder) as bucket:
        backend = bucket.backend
        assert isinstance(backend, S3Backend)
        put = await bucket.put("k", bytes(1000))
        assert put is not None
        body = Body(backend.client, backend.bucket, "k", put.etag, None, 500, 500)  # its connection was cut
        assert len(await backend.run(body.read)) == 500
        await bucket.put("k", b"1" * 1000)
        body = Body(backend.client, backend.bucket, "k", put.etag, None, 500, 500)
        await refused(backend.run(body.read), 10001)


@proof("date conditions")
async def _(kind: str, folder: Path) -> None:
    async with bucket_of(kind, folder) as bucket:
        backend = bucket.backend
        assert isinstance(backend, S3Backend)
        await bucket.put("k", "same")
        head = backend._uploads._head
        rival: list[Any] = []

        def overwritten_after(key: str) -> Any:
            record = head(key)
            client = raw_client(str(backend._settings.endpoint_url))
            rival.append(client.put_object(Bucket=backend.bucket, Key=key, Body=b"same"))
            client.close()
            return record

        backend._head = overwritten_after  # type: ignore[method-assign]
        assert await bucket.put("k", "ours", onlyIf={"uploadedAfter": 0}) is not None
        assert len(rival) == 1  # the same bytes have the same etag: nobody noticed

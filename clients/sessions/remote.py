"""The objects of a session through a state plane: signed HTTP, and the publish lease with its fencing token."""

import asyncio
import base64
import hashlib
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import msgspec

from moorage.protocols.sessions import shared
from moorage.protocols.sessions.commits import Place

from ..errors import ClientError, InvalidAnswer, RemoteError
from .errors import Busy, PublishRefused
from .objects import Head, LeaseProof, Whole

if TYPE_CHECKING:
    from ..http import Answer, AsyncHttp

EXISTS = "session_object_exists"
GENERATION = "x-moorage-object-generation"
SIZE = "x-moorage-object-size"
ETAG = "x-moorage-object-etag"


class WorkerObjects:
    """The objects of `place` through a state plane. `place.prefix` is the service's, `shared_prefix`."""

    def __init__(self, http: "AsyncHttp", place: Place, *, ttl_seconds: int = shared.DEFAULT_TTL_SECONDS) -> None:
        self._http = http
        self._place = place
        self._ttl = ttl_seconds

    def _path(self, verb: str) -> str:
        return shared.path_of(verb, self._place.campaign, self._place.session_id)

    async def _call(self, verb: str, body: Mapping[str, Any], expect: tuple[int, ...] = ()) -> "Answer":
        return await self._http.request("POST", self._path(verb), msgspec.json.encode(body), expect=expect)

    def _key(self, key: str) -> str:
        return key.removeprefix(self._place.prefix + "/")

    def _created(self, run_id: str, key: str) -> str:
        return self._key(key).removeprefix(f"runs/{run_id}/")

    async def head(self, key: str) -> Head | None:
        """See `Objects`."""
        answer = await self._call("object-stat", {"key": self._key(key)}, (404,))
        if _absent(answer):
            return None
        return _head(answer.json_object())

    async def _read(self, key: str) -> AsyncIterator[tuple[Head, bytes]]:
        """The pieces of an object; nothing when there is none. InvalidAnswer when it was replaced meanwhile."""
        offset = 0
        first: Head | None = None
        while first is None or offset < first.size:
            answer = await self._call("object-read", {"key": self._key(key), "offset": offset}, (404,))
            if _absent(answer):
                if first is not None:
                    raise InvalidAnswer(f"{key}: it went away while it was read")
                return
            try:
                head = Head(int(answer.headers[SIZE]), answer.headers[GENERATION], answer.headers[ETAG])
            except (KeyError, ValueError):
                raise InvalidAnswer(f"{key}: the answer does not describe the object") from None
            if first is not None and head != first:
                raise InvalidAnswer(f"{key}: it was replaced while it was read")
            if not answer.body and head.size > offset:
                raise InvalidAnswer(f"{key}: the answer has no bytes")
            first = head
            offset += len(answer.body)
            yield head, answer.body

    async def get(self, key: str, limit: int) -> Whole | None:
        """See `Objects`."""
        head: Head | None = None
        chunks: list[bytes] = []
        async for found, chunk in self._read(key):
            head = found
            if head.size > limit:
                raise ValueError(f"{key} is longer than {limit} bytes")
            chunks.append(chunk)
        return None if head is None else Whole(head.size, head.generation, head.etag, b"".join(chunks))

    async def fetch(self, key: str, to: IO[bytes]) -> tuple[Head, str] | None:
        """See `Objects`."""
        head: Head | None = None
        hasher, size = hashlib.sha256(), 0
        async for found, chunk in self._read(key):
            head = found
            hasher.update(chunk)
            size += len(chunk)
            to.write(chunk)
        return None if head is None else (Head(size, head.generation, head.etag), hasher.hexdigest())

    async def create(self, run_id: str, key: str, path: Path | bytes, sha256: str) -> Head | None:
        """See `Objects`. Files larger than one request are sent in parts."""
        name = self._created(run_id, key)
        if isinstance(path, Path) and path.stat().st_size > shared.PART_BYTES:
            return await self._create_in_parts(run_id, name, path, sha256)
        data = path if isinstance(path, bytes) else path.read_bytes()
        body = {"run_id": run_id, "path": name, "sha256": sha256, "contentBase64": _base64(data)}
        return _made(await self._call("object-create", body, (409,)))

    async def _create_in_parts(self, run_id: str, name: str, path: Path, sha256: str) -> Head | None:
        place = {"run_id": run_id, "path": name}
        size = path.stat().st_size
        answer = await self._call("upload-start", {**place, "sha256": sha256, "size": size}, (409,))
        if answer.status == 409:
            return _made(answer)
        upload_id = answer.json_object().get("upload_id")
        parts = []
        with open(path, "rb") as file:  # noqa: ASYNC230 - nothing else runs on this loop
            number = 0
            while chunk := file.read(shared.PART_BYTES):
                number += 1
                body = {**place, "upload_id": upload_id, "number": number, "contentBase64": _base64(chunk)}
                part = (await self._call("upload-part", body)).json_object()
                parts.append({"number": number, "etag": part.get("etag")})
        body = {**place, "upload_id": upload_id, "sha256": sha256, "size": size, "parts": parts}
        return _made(await self._call("upload-complete", body, (409,)))

    async def move_pointer(self, key: str, data: bytes, expect: str | None, lease: LeaseProof | None) -> Head | None:
        """See `Objects`. PublishRefused `lease-lost` when the lease is over."""
        if lease is None:
            raise PublishRefused("lease-lost", "the pointer of a state plane moves under its lease alone")
        body = {"holder": lease.holder, "token": lease.token, "document": data.decode("utf-8"), "expect": expect}
        try:
            answer = await self._call("pointer-move", body, (412,))
        except RemoteError as error:
            if error.code == "session_lease_lost":
                raise PublishRefused("lease-lost", str(error.body.get("reason") or error)) from None
            raise
        return None if answer.status == 412 else _head(answer.json_object())

    @asynccontextmanager
    async def lease(self, holder: str) -> AsyncIterator[LeaseProof | None]:
        """Holds the lease, lengthening it all the while. Raises Busy when another publisher has it."""
        try:
            answer = await self._call("lease-acquire", {"holder": holder, "ttl_seconds": self._ttl})
        except RemoteError as error:
            if error.code == "session_locked":
                raise Busy(f"another publisher is at work on this session: {error.body.get('lease')}") from None
            raise
        token = answer.json_object().get("token")
        if not isinstance(token, int):
            raise InvalidAnswer("lease-acquire: the answer has no token")
        proof = LeaseProof(holder, token)
        renewing = asyncio.ensure_future(self._renew(proof))
        try:
            yield proof
        finally:
            renewing.cancel()
            with suppress(asyncio.CancelledError):
                await renewing
            # a lease that is not given back runs out
            with suppress(ClientError):
                await self._call("lease-release", {"holder": holder, "token": token})

    async def _renew(self, proof: LeaseProof) -> None:
        while True:
            await asyncio.sleep(self._ttl / 3)
            # a lease that cannot be lengthened is noticed when the pointer is to be moved
            with suppress(ClientError):
                body = {"holder": proof.holder, "token": proof.token, "ttl_seconds": self._ttl}
                await self._call("lease-renew", body)

    async def close(self) -> None:
        """Closes the connections."""
        await self._http.close()


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")


def _absent(answer: "Answer") -> bool:
    if answer.status != 404:
        return False
    if answer.json_object().get("error") != "session_object_not_found":
        raise InvalidAnswer("the state plane has no session routes: it is older than this client, or another service")
    return True


def _made(answer: "Answer") -> Head | None:
    value = answer.json_object()
    if answer.status == 409:
        if value.get("error") != EXISTS:
            raise InvalidAnswer(f"the object was refused: {value.get('error')}")
        return None
    return _head(value)


def _head(value: Mapping[str, Any]) -> Head:
    size, generation, etag = value.get("size"), value.get("generation"), value.get("etag")
    if not (isinstance(size, int) and isinstance(generation, str) and isinstance(etag, str)):
        raise InvalidAnswer("the answer does not describe the object")
    return Head(size, generation, etag)

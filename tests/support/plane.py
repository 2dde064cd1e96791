"""The state plane in this process: application, objects and bucket in memory, on a clock set by hand."""

import asyncio
import functools
import hashlib
import hmac
from collections.abc import Callable, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

from moorage.durable_objects.objects.etag_cache import GithubEtagCache
from moorage.durable_objects.objects.exact_review_queue import ExactReviewQueue
from moorage.durable_objects.runtime.testing import ManualClock, memory_runtime, settle
from moorage.r2.backends.memory import MemoryBackend
from moorage.r2.bucket import Bucket
from moorage.worker.app import StatePlane
from moorage.worker.test_store import test_store

from .asgi import Response, call

START_MS = 1_796_048_000_000
WEBHOOK_SECRET = "vector-webhook-secret"
OPERATOR_SECRET = "vector-operator-secret"
SIGNATURE = "x-clawsweeper-exact-review-signature"


def sign(secret: str, body: bytes) -> str:
    """The version 1 signature, made here on its own and not by the code under test."""
    return "sha256=" + hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()


@functools.cache
def app_private_key() -> str:
    """An RSA key for a code host app; any will do."""
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import rsa

    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    ).decode()


class Plane:
    """A state plane of its own: `async with Plane() as plane: await plane.request(…)`.

    `variables`: set over the two secrets, None unsets. `without`: `queue`, `bucket` bindings to leave out.
    `outside`: counts the calls that the plane has made to a service outside of it, for `settle` to wait for.
    """

    def __init__(
        self,
        variables: Mapping[str, str | None] | None = None,
        *,
        without: Sequence[str] = (),
        start_ms: int = START_MS,
        outside: Callable[[], int] | None = None,
        queue_class: type[ExactReviewQueue] = ExactReviewQueue,
    ) -> None:
        self._queue_class = queue_class
        self._outside = outside
        self.clock = ManualClock(start_ms)
        self.runtime = memory_runtime(clock=self.clock)
        self.env = SimpleNamespace(
            CLAWSWEEPER_WEBHOOK_SECRET=WEBHOOK_SECRET,
            EXACT_REVIEW_OPERATOR_SECRET=OPERATOR_SECRET,
            # the recordings were made with this cap
            GITHUB_ETAG_CACHE_MAX_BODY_BYTES="131072",
        )
        for name, value in (variables or {}).items():
            if value is None:
                self.env.__dict__.pop(name, None)
            else:
                setattr(self.env, name, value)
        self.bucket = Bucket(MemoryBackend(now=self.clock.now))
        if "bucket" not in without:
            self.env.STATE_SNAPSHOTS = self.bucket
        self._without = without
        self.app = StatePlane(now=lambda: self.clock.now() / 1000)

    async def __aenter__(self) -> "Plane":
        if "queue" not in self._without:
            self.env.EXACT_REVIEW_QUEUE = self.runtime.namespace(
                "state-plane-ExactReviewQueue", self._queue_class, self.env
            )
        self.env.GITHUB_ETAG_CACHE = self.runtime.namespace("state-plane-GithubEtagCache", GithubEtagCache, self.env)
        await self.runtime.start()
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.runtime.close()

    async def request(
        self, method: str, target: str, *, headers: Mapping[str, str] | None = None, body: bytes | None = None
    ) -> Response:
        """One request as given, unsigned."""
        return await call(self.app, method, target, headers=headers or {}, body=body or b"", env=self.env)

    async def signed(self, method: str, target: str, body: bytes = b"", *, secret: str = WEBHOOK_SECRET) -> Response:
        """One request with a version 1 signature."""
        return await self.request(method, target, headers={SIGNATURE: sign(secret, body)}, body=body)

    async def settle(self) -> None:
        """Lets everything that is ready run, calls to the outside included."""
        await settle()
        while self._outside is not None:
            before = self._outside()
            # the service answers from another thread, over loopback
            await asyncio.sleep(0.003)
            await settle()
            running = any(namespace.alarms.running for namespace in self.runtime.namespaces.values())
            if not running and self._outside() == before:
                return

    async def advance(self, milliseconds: int) -> None:
        """Moves the clock on; alarms that are due have run when it returns."""
        await self.clock.advance(milliseconds)
        await self.settle()

    async def jump(self, milliseconds: int) -> None:
        """Moves the clock on at once, as a server's test hook does: what fell due on the way runs now, late."""
        self.clock._now += milliseconds
        await self.clock.advance(0)
        await self.settle()

    async def restart(self) -> None:
        """Ends every object, as a restart of the server does: what they knew in memory is gone."""
        await self.settle()
        for namespace in self.runtime.namespaces.values():
            for instance in list(namespace.live.values()):
                namespace.evict(instance)
            assert not namespace.live, "an object could not be ended"
        await self.settle()

    async def until(self, look: Callable[[], Any], limit_ms: int) -> Any:
        """What `look` finds, moving the clock from timer to timer by at most `limit_ms`; None for nothing."""
        end = self.clock.now() + limit_ms
        while True:
            await self.settle()
            found = look()
            if found is not None:
                return found
            due = self.clock.next_timer()
            if due is None or due > end:
                return None
            await self.clock.advance(max(0, due - self.clock.now()))

    async def call_store(self, store: str, op: str, args: list[Any]) -> dict[str, Any]:
        """Calls a store method as the test hook does: `{"result": …}` or `{"threw": …}`."""
        return await test_store(self.env, {"store": store, "op": op, "args": args})

"""The publish lease of a session, and the one place that moves its commit pointer (`protocols.sessions.shared`).

Objects lie in the bucket STATE_SNAPSHOTS, under the session's prefix; only the lease is here. The pointer moves under
the present fencing token, to a commit that was read strictly, and by a conditional write: any one of the three is
enough to refuse.
"""

from collections.abc import Callable
from typing import Any, Final

from moorage.protocols.sessions import ReadRefused, shared
from moorage.protocols.sessions import commits as rules
from moorage.protocols.sessions.commits import Place
from moorage.protocols.sessions.identities import shared_prefix
from moorage.protocols.wire import Reply, reply, wire_method
from moorage.protocols.wire.sessions import (
    SessionCommitsNotConfigured,
    SessionLeaseLost,
    SessionLocked,
    SessionLostRace,
    SessionReadRefused,
    SessionUsage,
)

from ..runtime import DurableObject
from .clock import clock_of

BINDING: Final = "SESSION_COMMITS"
BUCKET_BINDING: Final = "STATE_SNAPSHOTS"
SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS session_lease (
  singleton INTEGER PRIMARY KEY CHECK (singleton = 1),
  token INTEGER NOT NULL,
  holder TEXT,
  expires_at INTEGER NOT NULL
) STRICT;
"""
HAS_LEASE: Final = "SELECT 1 FROM sqlite_master WHERE name = 'session_lease'"
GET_LEASE: Final = "SELECT token, holder, expires_at FROM session_lease"
PUT_LEASE: Final = (
    "INSERT OR REPLACE INTO session_lease (singleton, token, holder, expires_at) VALUES (1, ?1, ?2, ?3)"
)


class SessionCommits(DurableObject):
    """See the module. `call(verb, campaign, session, body)` runs one of `VERBS` on the bytes of a body."""

    def __init__(self, ctx: Any, env: Any) -> None:
        super().__init__(ctx, env)
        self._sql = ctx.storage.sql
        self._now = clock_of(ctx)
        # made by the first lease: a session that was only asked for leaves nothing behind
        self._made = bool(self._sql.exec(HAS_LEASE).toArray())
        self._leases: dict[str, Callable[[Any], Reply]] = {
            "lease-acquire": self._acquire,
            "lease-renew": self._renew,
            "lease-release": self._release,
        }

    @wire_method
    async def call(self, verb: str, campaign: str, session: str, body: bytes) -> Reply:
        """Runs a verb; a refusal is a reply too, and leaves nothing written."""
        try:
            parsed = shared.parse_body(verb, bytes(body))
        except shared.BadBody as error:
            raise SessionUsage(reason=str(error)) from None
        if verb == "pointer-move":
            return await self._move(
                Place(campaign=campaign, session_id=session, prefix=shared_prefix(campaign, session)), parsed
            )
        return self._leases[verb](parsed)

    # -- the lease ----------------------------------------------------------------------------------------------

    @property
    def _lease(self) -> shared.Lease:
        rows = self._sql.exec(GET_LEASE).toArray() if self._made else []
        return shared.Lease(rows[0]["token"], rows[0]["holder"], rows[0]["expires_at"]) if rows else shared.Lease()

    def _put(self, lease: shared.Lease) -> shared.Lease:
        if not self._made:
            self._sql.exec(SCHEMA)
            self._made = True
        self._sql.exec(PUT_LEASE, lease.token, lease.holder, lease.expires_at)
        return lease

    def _acquire(self, body: shared.Acquire) -> Reply:
        present = self._lease
        lease = present.acquired(body.holder, body.ttl_seconds, self._now())
        if lease is None:
            raise SessionLocked(
                reason=f"{present.holder} holds the publish lease",
                lease={"holder": present.holder, "expires_at": present.expires_at},
            )
        return reply(_shown(self._put(lease)))

    def _held(self, body: shared.Held | shared.Move) -> shared.Lease:
        lease = self._lease
        refusal = lease.refusal(body.holder, body.token, self._now())
        if refusal is not None:
            raise SessionLeaseLost(reason=refusal)
        return lease

    def _renew(self, body: shared.Held) -> Reply:
        lease = self._held(body)
        return reply(
            _shown(self._put(shared.Lease(lease.token, lease.holder, self._now() + body.ttl_seconds * 1000)))
        )

    def _release(self, body: shared.Held) -> Reply:
        lease = self._held(body)
        self._put(shared.Lease(lease.token, None, 0))
        return reply({"ok": True})

    # -- the pointer --------------------------------------------------------------------------------------------

    async def _move(self, place: Place, body: shared.Move) -> Reply:
        bucket = getattr(self.env, BUCKET_BINDING, None)
        if bucket is None:
            raise SessionCommitsNotConfigured(reason=f"{BUCKET_BINDING} is not bound")
        self._held(body)
        data = body.document.encode("utf-8", "surrogatepass")
        try:
            await _check(bucket, place, data)
        except ReadRefused as refused:
            raise SessionReadRefused(kind=refused.kind, reason=str(refused)) from None
        # reading took time: the lease may be over by now
        self._held(body)
        condition = {"etagDoesNotMatch": "*"} if body.expect is None else {"etagMatches": body.expect}
        stored = await bucket.put(place.pointer_key, data, {"onlyIf": condition})
        if stored is None:
            present = await bucket.head(place.pointer_key)
            raise SessionLostRace(
                reason="the pointer moved since it was read", etag=None if present is None else present.etag
            )
        return reply({"size": stored.size, "generation": stored.version, "etag": stored.etag})


async def _check(bucket: Any, place: Place, data: bytes) -> None:
    """Raises ReadRefused unless `data` is a pointer to a whole commit: strict reading, artifacts by their heads."""
    pointer = rules.read_pointer(data, place)
    if rules.encode(pointer) != data:
        raise ReadRefused("malformed", "the commit pointer is not written as deterministic JSON")
    found = await bucket.get(pointer.commit.key)
    if found is None:
        raise ReadRefused("missing-object", f"{pointer.commit.key} is not there")
    if found.size > rules.MAX_DOCUMENT_BYTES:
        raise ReadRefused("malformed", f"{pointer.commit.key} is longer than {rules.MAX_DOCUMENT_BYTES} bytes")
    commit = rules.read_commit(bytes(await found.bytes()), found.version, pointer, place)
    for artifact in commit.artifacts:
        head = await bucket.head(artifact.key)
        if head is None:
            raise ReadRefused("missing-object", f"{artifact.key} is not there")
        rules.check_binding(artifact.key, artifact.size, artifact.generation, head.size, head.version)


def _shown(lease: shared.Lease) -> dict[str, Any]:
    return {"holder": lease.holder, "token": lease.token, "expires_at": lease.expires_at}

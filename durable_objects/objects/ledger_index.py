"""The index of the ledger's imports in R2, and their lock (`moorage.protocols.ledger.index`).

The binding files below `ledger/v1/import-bindings/` are the truth. A row that stands in an import's way is therefore
compared with its file first, and dropped when R2 knows nothing of it: what an index says that R2 does not is what is
left of a publisher that died, or of a bucket that was changed. Between two imports it is the lock that decides, and
where a lock ran out, the one step in which a batch is compared and reserved.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, Final

from moorage.protocols.ledger import index as rules
from moorage.protocols.ledger.bindings import (
    MAX_BINDING_BYTES,
    ROOT,
    completion_binding,
    parse_event_binding,
    parse_reservation,
)
from moorage.protocols.ledger.canonical import sha256_text
from moorage.protocols.ledger.refusals import LedgerRefusal
from moorage.protocols.wire import Reply, reply, wire_method
from moorage.protocols.wire.ledger import (
    LedgerIncomplete,
    LedgerIndexNotConfigured,
    LedgerLocked,
    LedgerLockLost,
    LedgerRebuildStale,
    LedgerReserved,
    LedgerUsage,
)

from ..runtime import DurableObject
from .clock import clock_of
from .ledger_prune import prune_segment
from .ledger_rows import LedgerRows

BINDING: Final = "LEDGER_INDEX"
BUCKET_BINDING: Final = "STATE_SNAPSHOTS"
OBJECT: Final = "ledger"
"""The name of the one object: there is one ledger in a bucket."""
PARALLEL: Final = 16
_PHASES: Final = ("shard-sets", "completed-shard-sets", "events")


class LedgerIndex(DurableObject):
    """See the module. `call(verb, body)` runs a verb of `rules.VERBS` on the bytes of a body."""

    def __init__(self, ctx: Any, env: Any) -> None:
        super().__init__(ctx, env)
        self._now = clock_of(ctx)
        self._storage = ctx.storage
        self._rows = LedgerRows(ctx.storage)
        self._verbs: dict[str, Callable[[Any], Any]] = {
            "lock-acquire": self._acquire,
            "lock-renew": self._renew,
            "lock-release": self._release,
            "reserve": self._reserve,
            "complete": self._complete,
            "status": self._status,
            "rebuild": self._rebuild,
            "prune": self._prune,
        }

    @wire_method
    async def call(self, verb: str, body: bytes) -> Reply:
        """Runs a verb; a refusal is a reply too, and leaves nothing written."""
        try:
            parsed = rules.parse_body(verb, bytes(body))
        except rules.BadBody as error:
            raise LedgerUsage(reason=str(error)) from None
        return reply(await self._verbs[verb](parsed))

    @property
    def _bucket(self) -> Any:
        bucket = getattr(self.env, BUCKET_BINDING, None)
        if bucket is None:
            raise LedgerIndexNotConfigured(reason=f"{BUCKET_BINDING} is not bound")
        return bucket

    async def _text(self, path: str) -> str | None:
        """A binding file, None when it is missing or cannot be one."""
        found = await self._bucket.get(path)
        if found is None or found.size > MAX_BINDING_BYTES:
            return None
        try:
            return bytes(await found.bytes()).decode()
        except UnicodeDecodeError:
            return None

    # -- the lock -----------------------------------------------------------------------------------------------

    async def _acquire(self, body: rules.Acquire) -> Any:
        present = self._rows.lock
        lock = present.acquired(body.holder, body.ttl_seconds, self._now())
        if lock is None:
            raise LedgerLocked(reason=f"{present.holder} imports", lock=_shown(present))
        self._rows.put_lock(lock)
        return _shown(lock)

    def _held(self, body: Any) -> rules.Lock:
        lock = self._rows.lock
        refusal = lock.refusal(body.holder, body.token, self._now())
        if refusal is not None:
            raise LedgerLockLost(reason=refusal)
        return lock

    async def _renew(self, body: rules.Held) -> Any:
        lock = self._held(body)
        longer = rules.Lock(lock.token, lock.holder, self._now() + body.ttl_seconds * 1000)
        self._rows.put_lock(longer)
        return _shown(longer)

    async def _release(self, body: rules.Held) -> Any:
        lock = self._held(body)
        self._rows.put_lock(rules.Lock(lock.token, None, 0))
        return {"ok": True}

    # -- reservations and completions -----------------------------------------------------------------------------

    async def _reserve(self, body: rules.Reserve) -> Any:
        self._held(body)
        try:
            claims = rules.parse_claims(body)
        except rules.BadBody as error:
            raise LedgerUsage(reason=str(error)) from None
        while True:
            rows = self._rows
            clash = rules.find_clash(claims, rows.set, rows.sets_of_run, rows.event)
            if clash is None:
                # no wait between the comparison and the writing
                self._storage.transactionSync(lambda: self._rows.reserve(claims))
                return {"sets": [{"digest": claim.digest, "state": rows.state(claim.digest)} for claim in claims]}
            if not await self._drop_unfounded(clash.rows):
                raise LedgerReserved(reason="another import has it", refusal=clash.code, where=clash.where)
            # reading took time: the lock may be over by now
            self._held(body)

    async def _drop_unfounded(self, rows: Sequence[rules.Row]) -> bool:
        """Drops those of `rows` that R2 knows nothing of; whether there were any."""
        dropped = False
        for row in rows:
            before = self._rows.get(row)
            if before is not None and not await self._is_founded(row, before) and self._rows.get(row) == before:
                self._rows.drop(row)
                dropped = True
        return dropped

    async def _is_founded(self, row: rules.Row, value: rules.SetRow | rules.EventRow) -> bool:
        text = await self._text(row.path)
        if isinstance(value, rules.SetRow):
            return text is not None and sha256_text(text) == value.reservation_sha256
        if text is not None:
            try:
                found = parse_event_binding(text, row.key)
            except LedgerRefusal:
                return True  # a damaged file is for an operator, not to be overruled
            return (found.semantic_sha256, found.parent) == (value.semantic_sha256, value.parent)
        if value.owner is None:
            return False
        # its own file comes after the set's, which counts as soon as it is there
        owner = self._rows.set(value.owner)
        return owner is not None and await self._is_founded(rules.Row("sets", value.owner), owner)

    async def _complete(self, body: rules.Complete) -> Any:
        self._held(body)
        found: dict[str, rules.SetRow] = {}
        for digest in body.sets:
            row = await self._completed(digest)
            if row is None:
                raise LedgerIncomplete(where=f"{ROOT}/completed-shard-sets/{digest}.json")
            found[digest] = row
        self._held(body)
        for digest, row in found.items():
            self._note_complete(digest, row)
        return {"ok": True}

    async def _completed(self, digest: str) -> rules.SetRow | None:
        """The set as its files in R2 have it, None unless its completion marker is that of its reservation."""
        path = f"{ROOT}/shard-sets/{digest}.json"
        reservation = await self._text(path)
        if reservation is None:
            return None
        try:
            identity = parse_reservation(path, reservation).identity
        except LedgerRefusal:
            return None
        marker = completion_binding(identity, reservation)
        if await self._text(marker.path) != marker.text:
            return None
        return rules.SetRow(identity.run_digest(), identity.partition_date, sha256_text(reservation))

    def _note_complete(self, digest: str, row: rules.SetRow) -> None:
        self._rows.put_set(digest, row.run_digest, row.partition_date, row.reservation_sha256)
        self._rows.complete(digest)

    async def _status(self, body: rules.Body) -> Any:
        return {**self._rows.counts(), "unfinished": self._rows.unfinished(100), "lock": _shown(self._rows.lock)}

    # -- rebuilding -----------------------------------------------------------------------------------------------

    async def _rebuild(self, body: rules.Rebuild) -> Any:
        if body.generation is None:
            self._rows.begin_rebuild()
            generation, phase, after = self._rows.generation, _PHASES[0], ""
        else:
            generation = body.generation
            phase, _, after = (body.cursor or "").partition(":")
            if phase not in _PHASES:
                raise LedgerUsage(reason="cursor: it is what the last step answered")
        self._check_generation(generation)
        prefix = f"{ROOT}/{phase}/"
        page = await self._bucket.list(
            {"prefix": prefix, "limit": rules.PAGE, **({"startAfter": after} if after else {})}
        )
        paths = [found.key for found in page.objects]
        damaged = [path for path in await self._read_page(phase, prefix, paths) if path is not None]
        self._check_generation(generation)
        cursor: str | None = f"{phase}:{paths[-1]}" if page.truncated else None
        if cursor is None and phase != _PHASES[-1]:
            cursor = f"{_PHASES[_PHASES.index(phase) + 1]}:"
        if cursor is None:
            self._rows.finish_rebuild(generation, self._now())
        return {"generation": generation, "cursor": cursor, "read": len(paths), "damaged": damaged}

    def _check_generation(self, generation: int) -> None:
        if generation != self._rows.generation:
            raise LedgerRebuildStale(reason="another rebuild began since")

    async def _read_page(self, phase: str, prefix: str, paths: Sequence[str]) -> list[str | None]:
        """Takes a page of binding files in; the path of each that is damaged, None of the others."""
        free = asyncio.Semaphore(PARALLEL)

        async def one(path: str) -> str | None:
            async with free:
                text = await self._text(path)
                name = path[len(prefix) :].removesuffix(".json")
                if text is None:
                    return path
                try:
                    if phase == "events":
                        binding = parse_event_binding(text, name)
                        self._rows.put_event(name, binding.semantic_sha256, binding.parent)
                    elif phase == "shard-sets":
                        identity = parse_reservation(path, text).identity
                        self._rows.put_set(name, identity.run_digest(), identity.partition_date, sha256_text(text))
                        # whether it is complete the next phase finds out
                        self._rows.reopen(name)
                    else:
                        found = await self._completed(name)
                        if found is None:
                            return path
                        self._note_complete(name, found)
                except LedgerRefusal:
                    return path
                return None

        return list(await asyncio.gather(*map(one, paths)))

    # -- segments -------------------------------------------------------------------------------------------------

    async def _prune(self, body: rules.Prune) -> Any:
        return await prune_segment(self._bucket, body)


def _shown(lock: rules.Lock) -> dict[str, Any]:
    return {"holder": lock.holder, "token": lock.token, "expires_at": lock.expires_at}

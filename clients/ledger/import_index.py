"""The lock and the index of imports in R2, as publication uses them (`moorage.protocols.ledger.index`)."""

import secrets
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final, Protocol

from moorage.protocols.ledger.batch import Batch
from moorage.protocols.ledger.bindings import reservation_path
from moorage.protocols.ledger.index import DEFAULT_TTL_SECONDS, PREFIX
from moorage.protocols.ledger.refusals import LedgerConflict, LedgerError, LedgerRefusal

from ..errors import ClientError, InvalidAnswer, NotFound, RemoteError

if TYPE_CHECKING:
    from ..http import Http

PATIENCE_SECONDS: Final = 600.0
"""The longest wait for the lock: longer than a dead publisher can hold it."""
POLL_SECONDS: Final = 1.0


class LockLost(LedgerError):
    """The lock of imports ran out, or was taken by somebody else. Nothing is lost: publishing again finishes."""


class Turn(Protocol):
    """The lock of imports while it is held."""

    def renew(self) -> None:
        """Lengthens the lock when a third of its time is over. Raises LockLost."""
        ...

    def reserve(self, batch: Batch) -> None:
        """Reserves a batch in one step. Raises LockLost, and the refusals of an import."""
        ...

    def complete(self, completions: Sequence[str]) -> None:
        """Notes sets as complete whose markers (paths) are stored. Raises LockLost."""
        ...


class ImportIndex(Protocol):
    """Gives turns."""

    def held(self) -> AbstractContextManager[Turn | None]:
        """The lock, waited for; None where the service has no such index. Raises import-locked."""
        ...


def claims(batch: Batch) -> list[dict[str, Any]]:
    """The batch's sets as the `reserve` verb takes them."""
    texts = {binding.path: binding.text for binding in batch.reservations}
    sets: dict[str, dict[str, Any]] = {}
    for placed in batch.shards:
        path = reservation_path(placed.identity)
        claim = sets.setdefault(path, {"path": path, "text": texts[path], "events": []})
        claim["events"] += [
            [event.event_id, event.record["semantic_sha256"], event.parent] for event in placed.shard.events
        ]
    return list(sets.values())


class WorkerIndex:
    """The index behind the Worker's `/internal/ledger/` routes. `http` is a synchronous signed client.

    `now` and `sleep` are in seconds; waiting for the lock asks again every second.
    """

    def __init__(
        self,
        http: "Http",
        *,
        holder: str | None = None,
        ttl_seconds: int = DEFAULT_TTL_SECONDS,
        patience: float = PATIENCE_SECONDS,
        now: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._http = http
        self.holder = holder or f"publish-{secrets.token_hex(8)}"
        self.ttl_seconds = ttl_seconds
        self._patience = patience
        self.now = now
        self._sleep = sleep

    def ask(self, verb: str, body: dict[str, Any]) -> dict[str, Any]:
        """The answer of a verb. Raises ClientError."""
        return self._http.json("POST", PREFIX + verb, body)

    def rebuild(self, progress: Callable[[int], None] | None = None) -> list[str]:
        """Makes the index anew from R2, step by step; paths of damaged binding files. Needs the operator's secret.

        `progress` gets the number of files read.
        """
        damaged: list[str] = []
        read = 0
        body: dict[str, Any] = {}
        while True:
            answer = self.ask("rebuild", body)
            damaged += answer["damaged"]
            read += answer["read"]
            if progress is not None:
                progress(read)
            if answer["cursor"] is None:
                return damaged
            body = {"generation": answer["generation"], "cursor": answer["cursor"]}

    def prune(self, manifest: str, *, dry_run: bool = False) -> Iterator[tuple[list[str], int]]:
        """Removes the shards in R2 that a segment holds; paths and bytes, step by step. Needs the operator's secret.

        Raises LedgerRefusal: segment-invalid, segment-damaged, segment-conflict, import-transaction, missing.
        """
        after: str | None = ""
        while after is not None:
            try:
                answer = self.ask("prune", {"manifest": manifest, "after": after, "dry_run": dry_run})
            except NotFound as missing:
                if missing.code != "ledger_segment_not_found":
                    raise
                raise LedgerRefusal("missing", "no such segment", f"r2:{manifest}") from None
            except RemoteError as error:
                if error.code != "ledger_segment_refused":
                    raise
                found = error.body
                raise LedgerRefusal(str(found["refusal"]), str(found["reason"]), f"r2:{found['where']}") from None
            yield answer["removed"], answer["bytes"]
            after = answer["next"]

    @contextmanager
    def held(self) -> Iterator[Turn | None]:
        """The lock, waited for; None where the service has no such routes or object. Raises import-locked."""
        token = self._acquire()
        if token is None:
            yield None
            return
        try:
            yield _WorkerTurn(self, token)
        finally:
            # one that cannot be given back runs out by itself
            with suppress(ClientError):
                self.ask("lock-release", {"holder": self.holder, "token": token})

    def _acquire(self) -> int | None:
        deadline = self.now() + self._patience
        while True:
            try:
                answer = self.ask("lock-acquire", {"holder": self.holder, "ttl_seconds": self.ttl_seconds})
            except NotFound as missing:
                if missing.code == "not_found":
                    return None
                raise
            except RemoteError as error:
                if error.code == "ledger_index_not_configured":
                    return None
                if error.code != "ledger_locked":
                    raise
                if self.now() >= deadline:
                    raise LedgerRefusal("import-locked", "somebody else has been importing for too long") from None
                self._sleep(POLL_SECONDS)
                continue
            token = answer.get("token")
            if type(token) is not int:
                raise InvalidAnswer("lock-acquire: the answer has no token")
            return token


class _WorkerTurn:
    def __init__(self, index: WorkerIndex, token: int) -> None:
        self._index = index
        self._token = token
        self._renewed = index.now()

    def _ask(self, verb: str, **body: Any) -> None:
        try:
            self._index.ask(verb, {"holder": self._index.holder, "token": self._token, **body})
        except RemoteError as error:
            if error.code == "ledger_lock_lost":
                raise LockLost(f"the lock of imports was lost: {error.body.get('reason')}") from None
            if error.code == "ledger_reserved":
                raise _refusal(error) from None
            raise

    def renew(self) -> None:
        if self._index.now() - self._renewed < self._index.ttl_seconds / 3:
            return
        self._renewed = self._index.now()
        self._ask("lock-renew", ttl_seconds=self._index.ttl_seconds)

    def reserve(self, batch: Batch) -> None:
        self._ask("reserve", sets=claims(batch))

    def complete(self, completions: Sequence[str]) -> None:
        digests = [path.rpartition("/")[2].removesuffix(".json") for path in completions]
        for at in range(0, len(digests), 256):
            self._ask("complete", sets=digests[at : at + 256])


def _refusal(error: RemoteError) -> LedgerRefusal:
    code, where = str(error.body.get("refusal")), str(error.body.get("where", ""))
    kind = LedgerRefusal if code in ("causal-cycle", "split-partition") else LedgerConflict
    return kind(code, "another import bound it to something else", where)

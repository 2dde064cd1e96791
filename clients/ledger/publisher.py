"""Publishing shard sets to R2 through the Worker's blob routes (spec action-ledger 13, state-plane-protocol 9).

Below `ledger/v1/` the Worker stores an object once: the same bytes again are fine, others are refused. Reservations
go first, the shard set's own before all others: of two publishers with different sets one is refused before it wrote
anything that counts. Payloads follow and are read back, completions come last, and readers see nothing before. A
publication that was cut off is finished by running it again.

Where the service has an index of imports (`import_index`), its lock is held from validation to completion, and the
whole batch is reserved there in one step first. Without one the files alone decide: still nothing contradictory is
completed, but of two publishers with opposing parents both may be refused.
"""

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Final, Protocol, TypeVar

from moorage.protocols.ledger.batch import Batch
from moorage.protocols.ledger.bindings import MAX_BINDING_BYTES, ROOT, Binding, parse_event_binding
from moorage.protocols.ledger.publication import is_binding_path, parse_path_list
from moorage.protocols.ledger.refusals import LedgerConflict, LedgerRefusal
from moorage.protocols.ledger.segments import MAX_PAYLOAD_BYTES, Segment
from moorage.protocols.ledger.shards import MAX_SHARD_BYTES, Shard

from .files import Content, Entry, TrustedRoot
from .import_index import ImportIndex, LockLost, Turn
from .importer import EMPTY, ImportResult, check_history, load_batch
from .shard_files import replaces_nothing

# Requests at once for the bindings of events, one each; everything else goes in order.
PARALLEL: Final = 8
ATTEMPTS: Final = 3
_EVENTS: Final = f"{ROOT}/events/"
_COMPLETED: Final = f"{ROOT}/completed-shard-sets/"
T = TypeVar("T")


class BlobStore(Protocol):
    """The Worker's blobs, as publication needs them. Paths lie below `ledger/v1/`; threads may share it."""

    def put(self, path: str, data: bytes) -> bool:
        """Stores an object once; whether this call made it. Raises LedgerConflict when other bytes are there."""
        ...

    def get(self, path: str, limit: int) -> bytes | None:
        """A whole object, None when missing. Raises byte-limit beyond `limit`."""
        ...

    def get_range(self, path: str, offset: int, size: int) -> bytes | None:
        """A part of an object, empty past its end; None when missing."""
        ...

    def walk(self, prefix: str) -> Iterator[str]:
        """Paths below a folder, in order."""
        ...


class BlobSource:
    """A ledger tree in R2, for `iter_events`, verification and folds."""

    def __init__(self, store: BlobStore) -> None:
        self._store = store

    def list(self, folder: str) -> Iterator[Entry]:
        """Names directly below `folder`; R2 has no folders, so all paths below are looked at."""
        last = ""
        for path in self._store.walk(folder):
            name, slash, _ = path[len(folder) + 1 :].partition("/")
            if name != last:
                last = name
                yield Entry(name, "folder" if slash else "file")

    def names(self, folder: str) -> Iterator[Entry]:
        """`list`, which holds nothing here."""
        return self.list(folder)

    def walk(self, folder: str) -> Iterator[str]:
        """Paths of every object below `folder`."""
        return self._store.walk(folder)

    def read(self, path: str, limit: int) -> bytes | None:
        """A whole object."""
        return self._store.get(path, limit)

    def read_range(self, path: str, offset: int, size: int) -> bytes | None:
        """A part of an object."""
        return self._store.get_range(path, offset, size)

    def where(self, path: str) -> str:
        """The path, as an object of the bucket."""
        return f"r2:{path}"


@dataclass(frozen=True, slots=True)
class PathsResult:
    """How many blobs a path list made and how many were there already."""

    created: int
    unchanged: int


def _text(data: bytes | None, path: str) -> str | None:
    if data is None:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise LedgerRefusal("utf8", "is not UTF-8", f"r2:{path}") from None


def _reader(store: BlobStore, turn: Turn | None) -> Callable[[str], str | None]:
    """Reads bindings. As many as there are events may take longer than the lock lasts: it is renewed meanwhile."""

    def read(path: str) -> str | None:
        if turn is not None:
            turn.renew()
        return _text(store.get(path, MAX_BINDING_BYTES), path)

    return read


def _put_binding(store: BlobStore, binding: Binding) -> None:
    try:
        store.put(binding.path, binding.text.encode())
    except LedgerConflict:
        raise LedgerConflict(
            "binding-conflict", "another publication bound it to something else", f"r2:{binding.path}"
        ) from None


def _put_payload(store: BlobStore, shard: Shard) -> bool:
    """Stores a shard, or accepts the first writer's bytes when they are replay-equal."""
    try:
        return store.put(shard.path, shard.text.encode())
    except LedgerConflict:
        _check_payload(store, shard)
        return False


def _check_payload(store: BlobStore, shard: Shard) -> None:
    found = _text(store.get(shard.path, MAX_SHARD_BYTES), shard.path)
    if found is None:
        raise LedgerRefusal("missing", "does not read back", f"r2:{shard.path}")
    if not replaces_nothing(found, shard):
        raise LedgerConflict("import-conflict", "already holds different events", f"r2:{shard.path}")


def _arbiter_first(binding: Binding) -> tuple[bool, str]:
    return "/shard-sets/" not in binding.path, binding.path


def _paths(bindings: Sequence[Binding]) -> list[str]:
    return [binding.path for binding in bindings]


def publish_batch(
    store: BlobStore,
    batch: Batch,
    *,
    turn: Turn | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> ImportResult:
    """Publishes a checked batch; `progress` gets blobs done and blobs in all, `turn` is the lock of imports.

    Raises binding-conflict, import-conflict, event-identity-conflict, split-partition, causal-cycle: nothing of the
    batch is visible then that was not before. Raises LockLost when the lock ran out meanwhile.
    """
    read = _reader(store, turn)
    total, done = len(batch.reservations) + 2 * len(batch.shards) + len(batch.completions), 0
    counting = threading.Lock()

    def advance() -> None:
        nonlocal done
        with counting:
            done += 1
            if turn is not None:
                turn.renew()
            if progress is not None:
                progress(done, total)

    def reserve(binding: Binding) -> None:
        _put_binding(store, binding)
        advance()

    incoming = batch.bindings()
    events = [binding for binding in batch.reservations if "/events/" in binding.path]
    others = [binding for binding in batch.reservations if "/events/" not in binding.path]
    with ThreadPoolExecutor(PARALLEL) as pool:
        stored = dict(zip(_paths(events), pool.map(read, _paths(events)), strict=True))
        check_history(lambda path: stored[path] if path in stored else read(path), incoming)
        if turn is not None:
            turn.reserve(batch)
        for binding in sorted(others, key=_arbiter_first):
            reserve(binding)
        for _ in pool.map(reserve, events):
            pass
    # Once more, now that the own edges are durable: of two publishers with opposing parents, the later one sees both.
    own = {binding.path: binding.text for binding in events}
    check_history(lambda path: own[path] if path in own else read(path), incoming)
    created = 0
    for placed in batch.shards:
        created += _put_payload(store, placed.shard)
        advance()
    for placed in batch.shards:
        _check_payload(store, placed.shard)
        advance()
    for binding in batch.completions:
        _put_binding(store, binding)
        advance()
    if turn is not None:
        turn.complete(_paths(batch.completions))
    return ImportResult(
        created,
        len(batch.shards) - created,
        tuple(placed.shard.path for placed in batch.shards),
        tuple(binding.path for binding in batch.reservations),
        tuple(binding.path for binding in batch.completions),
    )


def _in_turn(index: ImportIndex | None, work: Callable[[Turn | None], T]) -> T:
    """Runs `work` under the lock of imports. A lock that ran out meanwhile is taken again, a few times."""
    if index is None:
        return work(None)
    for attempt in range(ATTEMPTS):
        try:
            with index.held() as turn:
                return work(turn)
        except LockLost:
            if attempt == ATTEMPTS - 1:
                raise
    raise AssertionError


def publish_tree(
    store: BlobStore,
    source: str,
    *,
    expected_paths: Sequence[str] | None = None,
    expected_producer: Mapping[str, Any] | None = None,
    index: ImportIndex | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> ImportResult:
    """Publishes the shard sets below `source`, or exactly `expected_paths`. Checked before anything is sent."""
    batch = load_batch(source, expected_paths=expected_paths, expected_producer=expected_producer)
    if batch is None:
        return EMPTY
    return _in_turn(index, lambda turn: publish_batch(store, batch, turn=turn, progress=progress))


def publish_paths(
    store: BlobStore, root: TrustedRoot, path_list: str, *, index: ImportIndex | None = None
) -> PathsResult:
    """Stores exactly the files that a path list names, one blob each (spec 13).

    Order of sending: reservations, shards, completions, so that a cut leaves nothing half visible. Event bindings are
    followed through R2 before the first is sent and again after the last, as `publish_batch` does.
    """
    paths = parse_path_list(path_list)
    order = sorted(paths, key=lambda path: (path.startswith(_COMPLETED), not is_binding_path(path), path))
    incoming = {}
    for path in paths:
        if path.startswith(_EVENTS):
            event_id = path[len(_EVENTS) : -len(".json")]
            incoming[event_id] = parse_event_binding(_listed(root, path).text(root.where(path)), event_id)
    reservations = [path for path in order if is_binding_path(path) and not path.startswith(_COMPLETED)]

    def send(turn: Turn | None) -> PathsResult:
        created = 0
        check_history(_reader(store, turn), incoming)
        for at, path in enumerate(order):
            if at == len(reservations):
                check_history(_reader(store, turn), incoming)
            created += store.put(path, _listed(root, path).data)
            if turn is not None:
                turn.renew()
        if turn is not None:
            turn.complete([path for path in order if path.startswith(_COMPLETED)])
        return PathsResult(created, len(paths) - created)

    return _in_turn(index, send)


def _listed(root: TrustedRoot, path: str) -> Content:
    content = root.read(path, MAX_BINDING_BYTES if is_binding_path(path) else MAX_SHARD_BYTES)
    if content is None:
        raise LedgerRefusal("missing", "a listed path is not below the root", root.where(path))
    return content


def publish_segment(store: BlobStore, root: TrustedRoot, segment: Segment) -> bool:
    """Stores a segment, payload before manifest; whether the manifest is new."""
    payload = root.read(segment.payload_path, MAX_PAYLOAD_BYTES + MAX_SHARD_BYTES)
    if payload is None or len(payload.data) != segment.payload_bytes:
        raise LedgerRefusal("segment-damaged", "its payload is missing or differs", root.where(segment.payload_path))
    store.put(segment.payload_path, payload.data)
    return store.put(segment.manifest_path, segment.manifest_text.encode())

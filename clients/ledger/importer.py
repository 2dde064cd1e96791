"""Copying complete shard sets from one root into another, all or nothing for readers (spec action-ledger 12)."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from moorage.protocols.ledger import batch as rules
from moorage.protocols.ledger.bindings import (
    MAX_BINDING_BYTES,
    Binding,
    EventBinding,
    event_binding_path,
    parse_event_binding,
)
from moorage.protocols.ledger.markers import IMPORT_LOCK
from moorage.protocols.ledger.publication import is_shard_path
from moorage.protocols.ledger.refusals import LedgerConflict, LedgerRefusal
from moorage.protocols.ledger.shards import EVENTS_ROOT, MAX_SHARD_BYTES, Shard

from .files import TrustedRoot
from .locks import Waiting, held_lock
from .shard_files import read_text, replaces_nothing, write_shard

LOCK = ".action-ledger-import.lock"


@dataclass(frozen=True, slots=True)
class ImportResult:
    """What an import did: counts of shard payloads, and every path that publication needs, each list sorted."""

    created: int
    unchanged: int
    event_paths: tuple[str, ...]
    reservation_paths: tuple[str, ...]
    completion_paths: tuple[str, ...]

    @property
    def paths(self) -> list[str]:
        """The publication manifest: shards and bindings, sorted."""
        return sorted({*self.event_paths, *self.reservation_paths, *self.completion_paths})

    def to_json(self) -> dict[str, Any]:
        """camelCase, as the command prints it."""
        return {
            "created": self.created,
            "unchanged": self.unchanged,
            "eventPaths": list(self.event_paths),
            "reservationPaths": list(self.reservation_paths),
            "completionPaths": list(self.completion_paths),
            "paths": self.paths,
        }


EMPTY = ImportResult(0, 0, (), (), ())


def _limit(code: str, detail: str, where: str) -> Callable[[], LedgerRefusal]:
    return lambda: LedgerRefusal(code, detail, where)


def walk_shards(root: TrustedRoot) -> list[str]:
    """Paths of the `.jsonl` files below `ledger/v1/events`, sorted. Raises the import limits and unsafe-entry."""
    found: list[str] = []
    folders = files = 0
    pending: list[tuple[str, int]] = [(EVENTS_ROOT, 0)]
    while pending:
        folder, depth = pending.pop()
        folders += 1
        if folders > rules.MAX_FOLDERS:
            raise LedgerRefusal("import-directories", f"at most {rules.MAX_FOLDERS} folders", root.where(folder))
        where = root.where(folder)
        refuse = _limit("import-entries", f"a folder holds at most {rules.MAX_FOLDER_ENTRIES} entries", where)
        try:
            entries = root.entries(folder, rules.MAX_FOLDER_ENTRIES, refuse)
        except FileNotFoundError:
            if depth == 0:
                return []
            raise
        for entry in entries:
            path = f"{folder}/{entry.name}"
            level = depth + 1
            if level > rules.MAX_DEPTH or (entry.kind == "folder" and level >= rules.MAX_DEPTH):
                raise LedgerRefusal("import-depth", f"at most {rules.MAX_DEPTH} levels", root.where(path))
            if entry.kind == "folder":
                pending.append((path, level))
            elif entry.kind == "file":
                files += 1
                if files > rules.MAX_FILES:
                    raise LedgerRefusal("import-files", f"at most {rules.MAX_FILES} files", root.where(folder))
                if entry.name.endswith(".jsonl"):
                    found.append(path)
            else:
                raise LedgerRefusal("unsafe-entry", "must be a regular file or a folder", root.where(path))
    return sorted(found)


def _read_sources(root: TrustedRoot, paths: Sequence[str], expected: bool) -> list[tuple[str, str]]:
    contents: list[tuple[str, str]] = []
    total = 0
    for path in paths:
        if not is_shard_path(path):
            raise LedgerRefusal("path-syntax", "must be ledger/v1/events/YYYY/MM/DD/…/….jsonl", root.where(path))
        content = root.read(path, MAX_SHARD_BYTES)
        if content is None:
            code = "manifest-missing" if expected else "missing"
            raise LedgerRefusal(code, "no such shard in the source", root.where(path))
        total += len(content.data)
        if total > rules.MAX_BATCH_BYTES:
            raise LedgerRefusal(
                "total-bytes", f"a batch holds at most {rules.MAX_BATCH_BYTES} bytes", root.where(path)
            )
        contents.append((path, content.text(root.where(path))))
    return contents


def load_batch(
    source: str,
    *,
    expected_paths: Sequence[str] | None = None,
    expected_producer: Mapping[str, Any] | None = None,
) -> rules.Batch | None:
    """The checked batch below `source`, None when there is nothing. Reads each shard once and writes nothing."""
    if expected_paths is not None:
        rules.check_expected_paths(expected_paths)
    try:
        root = TrustedRoot(source)
    except LedgerRefusal as refusal:
        if refusal.code != "missing":
            raise
        if expected_paths is not None:
            raise LedgerRefusal("manifest-source-missing", "the source root does not exist", source) from None
        return None
    paths = walk_shards(root) if expected_paths is None else list(expected_paths)
    shards: list[rules.PlacedShard] = []
    events = 0
    for path, content in _read_sources(root, paths, expected_paths is not None):
        placed = rules.parse_source_shard(path, content)
        events += len(placed.shard.events)
        if events > rules.MAX_BATCH_EVENTS:
            raise LedgerRefusal("event-limit", f"a batch holds at most {rules.MAX_BATCH_EVENTS} events", path)
        shards.append(placed)
    return rules.check_batch(shards, expected_producer) if shards else None


ReadText = Callable[[str], str | None]


def check_history(read: ReadText, incoming: Mapping[str, EventBinding]) -> None:
    """Follows every incoming event's ancestors through the batch and the stored bindings (spec 12.2, rule 10).

    `read` gives the text of a stored binding, None when there is none. Raises binding-invalid,
    event-identity-conflict, causal-cycle, and binding-reads beyond 262144 bindings.
    """
    stored: dict[str, str | None] = {}
    reads = 0

    def parent_in_store(event_id: str) -> str | None:
        nonlocal reads
        if event_id in stored:
            return stored[event_id]
        reads += 1
        if reads > rules.MAX_BINDING_READS:
            raise LedgerRefusal("binding-reads", f"an import follows at most {rules.MAX_BINDING_READS} bindings")
        text = read(event_binding_path(event_id))
        stored[event_id] = None
        if text is not None:
            binding = parse_event_binding(text, event_id)
            ours = incoming.get(event_id)
            if ours is not None and ours.semantic_sha256 != binding.semantic_sha256:
                raise LedgerConflict("event-identity-conflict", "was imported before with other content", event_id)
            stored[event_id] = binding.parent
        return stored[event_id]

    for event_id in incoming:
        parent_in_store(event_id)
    # Events whose every ancestor was followed; a walk that meets one is done.
    safe: set[str] = set()
    for event_id in incoming:
        walk: dict[str, None] = {}
        at: str | None = event_id
        while at is not None and at not in safe:
            if at in walk:
                raise LedgerRefusal("causal-cycle", "events are each other's ancestors", at)
            walk[at] = None
            at = incoming[at].parent if at in incoming else parent_in_store(at)
        safe.update(walk)


def _check_binding(root: TrustedRoot, binding: Binding) -> None:
    content = root.read(binding.path, MAX_BINDING_BYTES)
    if content is not None and content.data != binding.text.encode():
        raise LedgerConflict("binding-conflict", "an earlier import bound it to something else", binding.path)


def _write_bindings(root: TrustedRoot, bindings: Sequence[Binding]) -> None:
    outcomes = root.create_all([(binding.path, binding.text.encode()) for binding in bindings])
    for binding, outcome in zip(bindings, outcomes, strict=True):
        if outcome == "exists":
            _check_binding(root, binding)


def _check_payload(root: TrustedRoot, shard: Shard, *, must_exist: bool) -> None:
    existing = read_text(root, shard.path, MAX_SHARD_BYTES)
    if existing is None and not must_exist:
        return
    if existing is None or not replaces_nothing(existing, shard):
        raise LedgerConflict("import-conflict", "already holds different events", root.where(shard.path))


def import_shards(
    source: str,
    destination: str | TrustedRoot,
    *,
    expected_paths: Sequence[str] | None = None,
    expected_producer: Mapping[str, Any] | None = None,
    waiting: Waiting | None = None,
) -> ImportResult:
    """Imports the shard sets below `source` (or exactly `expected_paths` of them) into `destination`.

    Everything is checked before the first write; reservations, payloads and completions follow under one lock. A
    crash at any point leaves nothing that a reader sees, and the same import finishes the job.
    """
    root = TrustedRoot(destination) if isinstance(destination, str) else destination
    batch = load_batch(source, expected_paths=expected_paths, expected_producer=expected_producer)
    if batch is None:
        return EMPTY
    with held_lock(root, LOCK, IMPORT_LOCK, waiting):
        check_history(lambda path: read_text(root, path, MAX_BINDING_BYTES), batch.bindings())
        for binding in (*batch.reservations, *batch.completions):
            _check_binding(root, binding)
        for placed in batch.shards:
            _check_payload(root, placed.shard, must_exist=False)
        _write_bindings(root, batch.reservations)
        created = sum(write_shard(root, placed.shard, "import-conflict") for placed in batch.shards)
        for placed in batch.shards:
            _check_payload(root, placed.shard, must_exist=True)
        _write_bindings(root, batch.completions)
    return ImportResult(
        created,
        len(batch.shards) - created,
        tuple(placed.shard.path for placed in batch.shards),
        tuple(binding.path for binding in batch.reservations),
        tuple(binding.path for binding in batch.completions),
    )

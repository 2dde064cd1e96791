"""Verifying a whole tree: every shard by every reader rule, every set against its bindings."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from moorage.protocols.ledger.bindings import (
    MAX_BINDING_BYTES,
    Reservation,
    completion_binding,
    completion_path,
    event_binding,
    parse_reservation,
    producer_run_binding,
)
from moorage.protocols.ledger.bindings import ROOT as BINDINGS_ROOT
from moorage.protocols.ledger.publication import is_binding_path
from moorage.protocols.ledger.refusals import LedgerRefusal
from moorage.protocols.ledger.segments import month_of

from .sources import Source
from .trees import ReadShard, iter_shards, read_segments


@dataclass(slots=True)
class VerifyReport:
    """What was looked at. `fault` is the first thing wrong, None when the tree is sound."""

    shards: int = 0
    events: int = 0
    bytes: int = 0
    bindings: int = 0
    fault: LedgerRefusal | None = None


Progress = Callable[[VerifyReport], None]


def verify_tree(
    source: Source, *, bindings: bool = True, event_bindings: bool = False, progress: Progress | None = None
) -> VerifyReport:
    """Looks at the whole tree and stops at the first fault.

    Each shard is parsed in full, placed at its path and checked against its reservation and completion; above the
    months there are folders alone. With
    `bindings`, every reservation is also complete and every shard that it lists is there. With `event_bindings`, each
    event of an imported set has its binding and each producer run its date: a read an event. Memory does not grow
    with the number of shards; `progress` is called after each.
    """
    report = VerifyReport()
    try:
        listed = sum(len(reservation.shards) for reservation in _complete_sets(source, report)) if bindings else 0
        present = 0
        for shard in iter_shards(source, strict=True):
            report.shards += 1
            report.events += len(shard.events)
            report.bytes += shard.size
            present += shard.imported
            if shard.imported and event_bindings:
                _check_event_bindings(source, shard, report)
            if progress is not None:
                progress(report)
        # Every shard there is listed in its reservation, and no two sets list one path: unequal means missing.
        if bindings and present != listed:
            _find_missing(source)
    except LedgerRefusal as refusal:
        report.fault = refusal
    return report


def _read(source: Source, path: str) -> str | None:
    data = source.read(path, MAX_BINDING_BYTES)
    if data is None:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise LedgerRefusal("utf8", "is not UTF-8", source.where(path)) from None


def _names(source: Source, kind: str) -> Iterator[str]:
    for entry in source.names(f"{BINDINGS_ROOT}/{kind}"):
        path = f"{BINDINGS_ROOT}/{kind}/{entry.name}"
        if not is_binding_path(path):
            raise LedgerRefusal("path-syntax", "is no import binding", source.where(path))
        yield path


def _complete_sets(source: Source, report: VerifyReport) -> Iterator[Reservation]:
    """Every reservation, each with a completion that matches it, and no completion without reservation."""
    for path in _names(source, "shard-sets"):
        content = _read(source, path)
        if content is None:
            raise LedgerRefusal("missing", "vanished while the tree was read", source.where(path))
        reservation = parse_reservation(path, content)
        completion = _read(source, completion_path(reservation.identity))
        report.bindings += 2
        if completion is None:
            raise LedgerRefusal("import-incomplete", "the import was not finished; run it again", source.where(path))
        if completion != completion_binding(reservation.identity, content).text:
            raise LedgerRefusal("import-transaction", "its completion does not match", source.where(path))
        yield reservation
    for path in _names(source, "completed-shard-sets"):
        if _read(source, path.replace("/completed-shard-sets/", "/shard-sets/")) is None:
            raise LedgerRefusal("import-transaction", "the import was never reserved", source.where(path))


def _check_event_bindings(source: Source, shard: ReadShard, report: VerifyReport) -> None:
    for binding in (producer_run_binding(shard.identity), *map(event_binding, shard.events)):
        content = _read(source, binding.path)
        report.bindings += 1
        if content is None:
            raise LedgerRefusal("import-transaction", "an imported event is not bound", source.where(binding.path))
        if content != binding.text:
            raise LedgerRefusal("binding-conflict", "binds something else", source.where(binding.path))


def _find_missing(source: Source) -> None:
    for reservation in _complete_sets(source, VerifyReport()):
        month = month_of(reservation.shards[0][0])
        held = {shard.path for segment in read_segments(source, month) for shard in segment.shards}
        for path, _ in reservation.shards:
            if path not in held and source.read_range(path, 0, 1) is None:
                raise LedgerRefusal("missing", "an imported shard is gone", source.where(path))

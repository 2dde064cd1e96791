"""Per-artifact state of the artifact stage: records, candidate collections, reconciliation (spec session-manifest 8).

A collection is a plain map from key to record; every function gives a new one.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from msgspec import UNSET
from msgspec.structs import replace

from .documents import MAX_REASON, AnalyzeArtifact, Artifact, Disposition, Fingerprint, Output
from .errors import CollectionRefused
from .identities import path_fault, segment_fault
from .lifecycle import bounded
from .strict_json import canonical

Records: TypeAlias = Mapping[str, AnalyzeArtifact]

MAX_PROVENANCE_BYTES: Final = 16 * 1024


@dataclass(frozen=True, slots=True)
class Configured:
    """One configured artifact, with the fingerprint that its resolved semantics have now."""

    key: str
    depends_on: tuple[str, ...]
    source_id: str
    path: str
    contract: Mapping[str, Any]
    fingerprint: Fingerprint
    family: str | None = None
    character_id: str | None = None


def normalized_key(text: str) -> str:
    """The key of a configured artifact: lower case, outer space gone, inner runs of space as one `-`.

    Raises CollectionRefused for an empty one, or one longer than 512 characters.
    """
    key = "-".join(text.lower().split())
    if not 0 < len(key) <= 512:
        raise CollectionRefused(f"artifact key {text[:80]!r}: it must have 1 to 512 characters")
    return key


class Configuration:
    """The configured artifacts in their order. CollectionRefused: a key twice, an unknown dependency, a cycle."""

    def __init__(self, artifacts: Iterable[Configured]) -> None:
        found = list(artifacts)
        self.artifacts = {artifact.key: artifact for artifact in found}
        if len(self.artifacts) != len(found):
            raise CollectionRefused("an artifact key is configured twice")
        for artifact in found:
            for name in artifact.depends_on:
                if name not in self.artifacts:
                    raise CollectionRefused(f"artifact {artifact.key}: it depends on {name!r}, which is no artifact")
        paths = [artifact.path for artifact in found]
        if len(set(paths)) != len(paths):
            raise CollectionRefused("two artifacts have the same path")
        self.order = self._sorted()

    def _sorted(self) -> tuple[str, ...]:
        """Dependencies first, else in configured order."""
        done: list[str] = []
        waiting = list(self.artifacts)
        while waiting:
            ready = next((key for key in waiting if set(self.artifacts[key].depends_on) <= set(done)), None)
            if ready is None:
                raise CollectionRefused(f"artifacts depend on each other in a circle: {', '.join(waiting)}")
            waiting.remove(ready)
            done.append(ready)
        return tuple(done)

    def closure(self, selected: Iterable[str] | None) -> tuple[str, ...]:
        """`selected` and what they depend on, dependencies first; None: all. CollectionRefused for an unknown key."""
        if selected is None:
            return self.order
        wanted: set[str] = set()
        pending = list(selected)
        while pending:
            key = pending.pop()
            if key not in self.artifacts:
                raise CollectionRefused(f"there is no artifact {key!r}; there are {', '.join(self.artifacts)}")
            if key not in wanted:
                wanted.add(key)
                pending.extend(self.artifacts[key].depends_on)
        return tuple(key for key in self.order if key in wanted)

    def dependents(self, key: str) -> tuple[str, ...]:
        """Every artifact that depends on `key`, directly or not."""
        reached = {key}
        for name in self.order:
            if not reached.isdisjoint(self.artifacts[name].depends_on):
                reached.add(name)
        return tuple(name for name in self.order if name in reached and name != key)


def record_of(
    configured: Configured, disposition: Disposition, run_id: str, now: str, **fields: Any
) -> AnalyzeArtifact:
    """A record that binds the configured key, dependencies and provenance."""
    return AnalyzeArtifact(
        key=configured.key,
        disposition=disposition,
        depends_on=configured.depends_on,
        run_id=run_id,
        updated_at=now,
        family=UNSET if configured.family is None else configured.family,
        character_id=UNSET if configured.character_id is None else configured.character_id,
        **fields,
    )


def identity(record: AnalyzeArtifact | None) -> tuple[Any, ...] | None:
    """What a rebuilt output is compared by, bytes and contract; None unless the record is current."""
    if record is None or record.disposition != "current" or record.output is UNSET:
        return None
    return record.output.sha256, record.output_size, record.output.contract


def withdrawn(record: AnalyzeArtifact, disposition: Disposition, now: str) -> AnalyzeArtifact:
    """The record without its output authority; the run that made it stays named."""
    return replace(
        record,
        disposition=disposition,
        output=UNSET,
        output_size=UNSET,
        diagnostic=UNSET,
        diagnostic_paths=UNSET,
        updated_at=now,
    )


def is_usable(configured: Configured, record: AnalyzeArtifact | None) -> bool:
    """Whether a record is current and made of the present semantics; its file is checked by the caller."""
    return (
        record is not None
        and record.disposition == "current"
        and record.fingerprint == configured.fingerprint
        and record.depends_on == configured.depends_on
        and record.output is not UNSET
        and record.output.path == configured.path
        and record.output.source_id == configured.source_id
        and record.output.contract == dict(configured.contract)
    )


def reconciled(
    configuration: Configuration,
    records: Records,
    selected: Collection[str],
    intact: Collection[str],
    run_id: str,
    now: str,
) -> dict[str, AnalyzeArtifact]:
    """The collection with which an evaluation of `selected` (a closure) begins.

    `intact`: keys whose recorded output was found on disk, byte for byte. Records of keys that are configured no more
    are dropped, and a current record stays only while it is usable and intact: the identity to compare a rebuilt
    output with is that of `records`.
    """
    found: dict[str, AnalyzeArtifact] = {}
    for key, configured in configuration.artifacts.items():
        record = records.get(key)
        absent: Disposition = "missing" if key in selected else "unselected"
        if record is None:
            found[key] = record_of(configured, absent, run_id, now)
        elif record.disposition == "unselected" and key in selected:
            found[key] = withdrawn(record, "missing", now)
        elif record.disposition != "current":
            found[key] = record
        elif not is_usable(configured, record):
            found[key] = withdrawn(record, "stale", now)
        else:
            found[key] = record if key in intact else withdrawn(record, "missing", now)
    return found


def completed(
    configuration: Configuration,
    records: Records,
    key: str,
    *,
    sha256: str,
    size: int,
    run_id: str,
    now: str,
    provenance: Mapping[str, Any] | None = None,
    former: tuple[Any, ...] | None = None,
) -> dict[str, AnalyzeArtifact]:
    """The candidate collection after `key` was made: it is current; dependents are stale if its identity changed.

    `former`: the identity before the attempt. With the same bytes and contract, dependents keep their authority; with
    others every current transitive dependent loses it, selected ones until they are rebuilt.
    """
    configured = configuration.artifacts[key]
    if provenance and len(canonical(dict(provenance))) > MAX_PROVENANCE_BYTES:
        raise CollectionRefused(f"artifact {key[:80]}: its provenance is larger than {MAX_PROVENANCE_BYTES} bytes")
    output = Output(
        source_id=configured.source_id, path=configured.path, contract=dict(configured.contract), sha256=sha256
    )
    made = record_of(
        configured,
        "current",
        run_id,
        now,
        fingerprint=configured.fingerprint,
        output=output,
        output_size=size,
        provenance=dict(provenance) if provenance else UNSET,
    )
    candidate = {**records, key: made}
    if identity(made) != former:
        _stale_dependents(configuration, candidate, key, now)
    check_collection(candidate)
    return candidate


def failed(
    configuration: Configuration,
    records: Records,
    key: str,
    diagnostic: str,
    run_id: str,
    now: str,
    paths: Iterable[str] = (),
) -> dict[str, AnalyzeArtifact]:
    """The retry collection: the active record failed without output, its current transitive dependents stale."""
    configured = configuration.artifacts[key]
    active = record_of(
        configured,
        "failed",
        run_id,
        now,
        fingerprint=configured.fingerprint,
        diagnostic=bounded(diagnostic, MAX_REASON) or "it failed",
        diagnostic_paths=tuple(paths) or UNSET,
    )
    candidate = {**records, key: active}
    _stale_dependents(configuration, candidate, key, now)
    check_collection(candidate)
    return candidate


def _stale_dependents(configuration: Configuration, records: dict[str, AnalyzeArtifact], key: str, now: str) -> None:
    for name in configuration.dependents(key):
        record = records.get(name)
        if record is not None and record.disposition == "current":
            records[name] = withdrawn(record, "stale", now)


def outputs(configuration: Configuration, records: Records) -> tuple[Artifact, ...]:
    """The aggregate outputs of the stage, in configured order, from current records only."""
    found = []
    for key in configuration.artifacts:
        record = records.get(key)
        if record is None or identity(record) is None or record.output is UNSET or record.output_size is UNSET:
            continue
        output = record.output
        found.append(
            Artifact(
                id=output.source_id,
                path=output.path,
                sha256=output.sha256,
                size=record.output_size,
                contract=output.contract,
            )
        )
    return tuple(found)


def check_collection(records: Records) -> None:
    """Raises CollectionRefused for the first record that breaks the table of dispositions."""
    for key, record in records.items():
        fault = _fault(key, record)
        if fault is not None:
            raise CollectionRefused(f"artifact {key[:80]}: {fault}")


def _fault(key: str, record: AnalyzeArtifact) -> str | None:
    has_output, has_size = record.output is not UNSET, record.output_size is not UNSET
    has_diagnostic = record.diagnostic is not UNSET
    current = record.disposition == "current"
    if record.key != key:
        return f"its key is {record.key!r}"
    if current and not (has_output and has_size and record.fingerprint is not UNSET):
        return "a current record carries a fingerprint, an output and its size"
    if not current and (has_output or has_size):
        return f"a {record.disposition} record carries no output"
    if current and has_diagnostic:
        return "a current record carries no diagnostic"
    if record.disposition == "failed" and not (has_diagnostic and record.diagnostic):
        return "a failed record carries a diagnostic"
    if len(set(record.depends_on)) != len(record.depends_on):
        return "a dependency is there twice"
    fault = segment_fault(record.run_id)
    if fault is not None:
        return f"run_id: {fault}"
    paths = [record.output.path] if record.output is not UNSET else []
    if record.diagnostic_paths is not UNSET:
        paths += record.diagnostic_paths
    return next((f"path {path[:80]!r}: {wrong}" for path in paths if (wrong := path_fault(path)) is not None), None)

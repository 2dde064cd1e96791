"""Command manifests on disk: what one run of a lane wrote, for the job that publishes it (spec action-ledger 13)."""

from collections.abc import Mapping, Sequence

from moorage.protocols.ledger.publication import (
    MAX_MANIFEST_BYTES,
    CommandManifest,
    command_manifest,
    parse_command_manifest,
    run_identity,
)
from moorage.protocols.ledger.refusals import LedgerConflict, LedgerRefusal
from moorage.protocols.ledger.vocabulary import FAMILIES

from .files import TrustedRoot
from .shard_files import read_shard

_IDENTITY = ("repository", "sha", "workflow", "job", "run_id", "run_attempt")


def command_shards(root: TrustedRoot, paths: Sequence[str], environment: Mapping[str, str]) -> list[str]:
    """Those of `paths` whose events are all of the command family and of the current run, sorted."""
    current = run_identity(environment)
    family = frozenset(FAMILIES["command"])
    chosen = []
    for path in sorted(paths):
        events = read_shard(root, path)
        producer = events[0].producer
        if all(event.record["event_type"] in family for event in events) and all(
            producer[name] == current[name] for name in _IDENTITY
        ):
            chosen.append(path)
    return chosen


def write_manifest(
    root: TrustedRoot, relative: str, lane: str, paths: Sequence[str], environment: Mapping[str, str]
) -> CommandManifest:
    """Writes a lane's manifest once. The same content again is fine; other content is manifest-conflict."""
    manifest = command_manifest(lane, run_identity(environment), paths)
    data = manifest.text().encode()
    if root.create(relative, data) == "exists":
        found = root.read(relative, MAX_MANIFEST_BYTES)
        if found is None or found.data != data:
            raise LedgerConflict("manifest-conflict", "is taken by another manifest", root.where(relative))
    return manifest


def read_manifest(root: TrustedRoot, relative: str, lane: str, environment: Mapping[str, str]) -> CommandManifest:
    """The manifest of the current run and lane in a file. Raises missing, and as `parse_command_manifest`."""
    content = root.read(relative, MAX_MANIFEST_BYTES)
    if content is None:
        raise LedgerRefusal("missing", "no such manifest", root.where(relative))
    return parse_command_manifest(content.text(root.where(relative)), lane, environment)

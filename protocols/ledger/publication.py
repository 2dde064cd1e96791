"""What may be published, and the lists that name it (spec action-ledger 13)."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

from .canonical import canonical_digest, canonical_text, parse_json
from .numbers import integer
from .producers import workflow_producer
from .refusals import LedgerRefusal
from .text import machine_text, repository_text

MAX_PATHS: Final = 263_168
MAX_PATH_BYTES: Final = 512
MAX_MANIFEST_BYTES: Final = 262_144
MANIFEST: Final = "clawsweeper.command-action-ledger-manifest"
BINDING_KINDS: Final = ("producer-runs", "events", "shard-sets", "completed-shard-sets")

_SHARD_PATH = re.compile(
    r"ledger/v1/events/[0-9]{4}/[0-9]{2}/[0-9]{2}/[A-Za-z0-9_.\-]+/[A-Za-z0-9_.\-]+/[A-Za-z0-9_.\-]+\.jsonl"
)
_BINDING_PATH = re.compile(rf"ledger/v1/import-bindings/(?:{'|'.join(BINDING_KINDS)})/[0-9a-f]{{64}}\.json")
_LANE = re.compile(r"[a-z0-9][a-z0-9._\-]{0,63}")
_IDENTITY = ("repository", "sha", "workflow", "job", "run_id", "run_attempt")
_MEMBERS = frozenset({*_IDENTITY, "event_paths", "lane", "manifest_sha256", "schema", "schema_version"})


def is_shard_path(path: str) -> bool:
    """Whether `path` has the form of a shard's path. The date need not be real."""
    return _SHARD_PATH.fullmatch(path) is not None


def is_binding_path(path: str) -> bool:
    """Whether `path` has the form of an import binding's path."""
    return _BINDING_PATH.fullmatch(path) is not None


def is_publishable_path(path: str) -> bool:
    """Whether `path` may be stored as a blob: a shard or an import binding. Only the form is judged."""
    return is_shard_path(path) or is_binding_path(path)


def check_ascending(paths: Sequence[str]) -> None:
    """Raises manifest-order unless the paths are sorted and unique."""
    for before, after in pairwise(paths):
        if before >= after:
            raise LedgerRefusal("manifest-order", "paths must be sorted, each given once", after)


def parse_path_list(content: str) -> list[str]:
    """The paths of a path list file.

    Raises manifest-empty, manifest-order, path-syntax, collection-size, byte-limit.
    """
    if len(content.encode()) > MAX_PATHS * MAX_PATH_BYTES:
        raise LedgerRefusal("byte-limit", f"a path list holds at most {MAX_PATHS * MAX_PATH_BYTES} bytes")
    paths = [line for line in content.split("\n") if line]
    if not paths:
        raise LedgerRefusal("manifest-empty", "a path list names at least one path")
    if len(paths) > MAX_PATHS:
        raise LedgerRefusal("collection-size", f"a path list names at most {MAX_PATHS} paths")
    for path in paths:
        if not is_publishable_path(path):
            raise LedgerRefusal("path-syntax", "must be a shard or an import binding", path[:200])
    check_ascending(paths)
    return paths


@dataclass(frozen=True, slots=True)
class CommandManifest:
    """The shards that one run of a lane wrote. `identity` has repository, sha, workflow, job, run_id, run_attempt."""

    lane: str
    identity: Mapping[str, Any]
    event_paths: tuple[str, ...]

    def body(self) -> dict[str, Any]:
        """Every member but the digest."""
        return {
            **{name: self.identity[name] for name in _IDENTITY},
            "event_paths": list(self.event_paths),
            "lane": self.lane,
            "schema": MANIFEST,
            "schema_version": 1,
        }

    def text(self) -> str:
        """Content of the manifest file. Raises byte-limit beyond 262144 bytes."""
        body = self.body()
        content = canonical_text({**body, "manifest_sha256": canonical_digest(body)}) + "\n"
        if len(content.encode()) > MAX_MANIFEST_BYTES:
            raise LedgerRefusal("byte-limit", f"a command manifest holds at most {MAX_MANIFEST_BYTES} bytes")
        return content


def lane_name(value: object) -> str:
    """A lane's name: a lower-case letter or digit, then up to 63 of those and `. _ -`."""
    if not isinstance(value, str) or not _LANE.fullmatch(value):
        raise LedgerRefusal("machine-text", "must be a lower-case lane name of at most 64 characters", "lane")
    return value


def _manifest_invalid(detail: str, where: str = "") -> LedgerRefusal:
    return LedgerRefusal("manifest-invalid", detail, where)


def run_identity(environment: Mapping[str, str]) -> dict[str, Any]:
    """The identity that a manifest of the current run carries. Raises as `producers.workflow_producer`."""
    producer = workflow_producer(environment, "command")
    return {
        "repository": producer["repository"],
        "sha": producer["sha"],
        "workflow": producer["workflow"],
        "job": producer["job"],
        "run_id": producer["runId"],
        "run_attempt": producer["runAttempt"],
    }


def command_manifest(lane: object, identity: Mapping[str, Any], paths: Sequence[str]) -> CommandManifest:
    """A checked manifest. Raises LedgerRefusal: machine-text, manifest-empty, manifest-order, path-syntax, …"""
    if not paths:
        raise LedgerRefusal("manifest-empty", "a command manifest names at least one shard")
    for path in paths:
        if not isinstance(path, str) or not is_shard_path(path):
            raise LedgerRefusal("path-syntax", "must be a shard's path", str(path)[:200])
    check_ascending(paths)
    checked = {
        "repository": repository_text(identity.get("repository")),
        "sha": machine_text(identity.get("sha"), "sha"),
        "workflow": machine_text(identity.get("workflow"), "workflow", 128),
        "job": machine_text(identity.get("job"), "job", 128),
        "run_id": machine_text(identity.get("run_id"), "run_id"),
        "run_attempt": integer(identity.get("run_attempt"), 1, "run_attempt"),
    }
    return CommandManifest(lane_name(lane), checked, tuple(paths))


def parse_command_manifest(content: str, lane: object, environment: Mapping[str, str]) -> CommandManifest:
    """The manifest in `content`, which must be the expected lane's and the current run's.

    Raises LedgerRefusal: json-syntax, not-object, byte-limit, not-canonical, manifest-invalid, producer-provenance, …
    """
    expected_lane = lane_name(lane)
    if len(content.encode("utf-8", "replace")) > MAX_MANIFEST_BYTES:
        raise LedgerRefusal("byte-limit", f"a command manifest holds at most {MAX_MANIFEST_BYTES} bytes")
    value = parse_json(content)
    if not isinstance(value, dict):
        raise LedgerRefusal("not-object", "a command manifest is an object")
    if frozenset(value) != _MEMBERS:
        raise _manifest_invalid(f"must have exactly the members {', '.join(sorted(_MEMBERS))}")
    version = value["schema_version"]
    if value["schema"] != MANIFEST or type(version) is not int or version != 1:
        raise LedgerRefusal("schema", f"must be {MANIFEST}, version 1", "schema")
    if not isinstance(value["event_paths"], list):
        raise _manifest_invalid("must be an array of paths", "event_paths")
    manifest = command_manifest(value["lane"], value, value["event_paths"])
    if manifest.text() != content:
        raise LedgerRefusal("not-canonical", "must be canonical text with the digest of its other members")
    if manifest.lane != expected_lane:
        raise _manifest_invalid(f"belongs to lane {manifest.lane}, not {expected_lane}", "lane")
    current = run_identity(environment)
    for name in _IDENTITY:
        if manifest.identity[name] != current[name]:
            raise LedgerRefusal("producer-provenance", "is not the current run's", name)
    return manifest

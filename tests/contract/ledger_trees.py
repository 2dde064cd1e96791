"""Trees on disk for the ledger cases: laying files, links and folders, and looking at what is there afterwards."""

import base64
import hashlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from moorage.protocols.ledger.shards import ShardIdentity, build_shards

from .ledger_rules import source_events
from .result import refuse_unknown

Case = dict[str, Any]


def lay(root: Path, case: Case) -> None:
    """Makes the folders, files and links that a case starts from."""
    for folder in case.get("dirs", ()):
        (root / folder).mkdir(parents=True, exist_ok=True)
    if "dir_range" in case:
        pattern, count = case["dir_range"]
        for index in range(count):
            (root / (pattern % index)).mkdir(parents=True)
    if "file_range" in case:
        pattern, count = case["file_range"]
        for index in range(count):
            put(root, pattern % index, b"x\n")
    for path, text in case.get("files", {}).items():
        put(root, path, text.encode("utf-8", "surrogatepass"))
    for path, encoded in case.get("files_base64", {}).items():
        put(root, path, base64.b64decode(encoded))
    for path, target in case.get("links", {}).items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).symlink_to(target)


def put(root: Path, path: str, data: bytes) -> None:
    """Writes one file, its folders made before."""
    target = root / path
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(data)


def lay_source(root: Path, source: Case) -> None:
    """Makes an import's source tree."""
    for given in source.get("shards_from", ()):
        for shard in build_shards(ShardIdentity.of_input(given["identity"]), source_events(given)):
            put(root, shard.path, shard.text.encode())
    for path in source.get("omit", ()):
        (root / path).unlink()
    lay(root, source)
    if "single_from" in source:
        given = source["single_from"]
        text = "".join(f"{event.line}\n" for event in source_events(given))
        put(root, given["path"], text.encode())


def files(root: Path) -> dict[str, bytes]:
    """Every regular file below `root`; links are left out."""
    return {
        str(path.relative_to(root)): path.read_bytes()
        for path in sorted(root.rglob("*"))
        if path.is_file() and not path.is_symlink()
    }


def tree_digest(contents: dict[str, bytes]) -> str:
    """Digest over path, NUL, file digest, LF of every file, by path."""
    lines = (f"{path}\0{hashlib.sha256(data).hexdigest()}\n" for path, data in sorted(contents.items()))
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def paths_digest(paths: Iterable[str]) -> str:
    """Digest over the paths, each with LF."""
    return hashlib.sha256("".join(f"{path}\n" for path in paths).encode()).hexdigest()


def same_tree(found: dict[str, bytes], recorded: dict[str, Case], where: str) -> None:
    """Asserts that a tree is the recorded one, byte for byte where the bytes do not depend on the wall clock."""
    from moorage.protocols.ledger.validate import parse_shard_text

    assert sorted(found) == sorted(recorded), f"{where}: {sorted(set(found) ^ set(recorded))}"
    for path, expected in recorded.items():
        data = found[path]
        if "replay_json" in expected:
            refuse_unknown(expected, ("replay_json", "recorded_at"), f"{where}: {path}")
            assert expected.get("recorded_at", "wall clock") == "wall clock", f"{where}: {path}: recorded_at"
            replay = [event.replay_text for event in parse_shard_text(data.decode())]
            assert replay == expected["replay_json"], f"{where}: {path}: {replay}"
            continue
        refuse_unknown(expected, ("sha256", "bytes", "text"), f"{where}: {path}")
        if "text" in expected:
            assert data.decode() == expected["text"], f"{where}: {path}: {data.decode()[:1500]}"
        assert len(data) == expected["bytes"], f"{where}: {path}"
        assert hashlib.sha256(data).hexdigest() == expected["sha256"], f"{where}: {path}"

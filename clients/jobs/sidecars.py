"""Sidecars: what an author keeps beside a file, in `<file>.sidecar.json`, and the suppressions in it.

A sidecar is a JSON object; its `annotations` hold `tags`, a list of texts, and `suppressions`, a list of
`{"extension": id, "type": type}`. Other members are kept as they are.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from moorage.protocols.jobs import sql
from moorage.protocols.jobs.settings import jobs_settings
from moorage.protocols.jobs.steps import Statement, Steps

from .database import QueueDatabase
from .folder import JobsFolder, read_json, write_whole

SUFFIX = ".sidecar.json"


def sidecar_of(root: Path, path: str) -> Path:
    """The sidecar of a target."""
    return root / f"{path}{SUFFIX}"


def read_sidecar(root: Path, path: str) -> dict[str, Any]:
    """The whole sidecar, empty without one. Raises `Refused("invalid-setting")` when it is not usable."""
    value = read_json(sidecar_of(root, path), {})
    return value if isinstance(value, dict) else {}


def read_annotations(root: Path, path: str) -> dict[str, Any]:
    """The annotations of a target, empty without any."""
    value = read_sidecar(root, path).get("annotations")
    return value if isinstance(value, dict) else {}


class SidecarSuppressions:
    """Suppressions in sidecar files, mirrored in the stored target."""

    def __init__(self, folder: JobsFolder, database: QueueDatabase) -> None:
        self._folder = folder
        self._database = database

    def get(self, path: str) -> Sequence[Mapping[str, Any]]:
        """The live suppressions of a target."""
        return _entries(read_annotations(self._folder.root, path))

    def mirrored(self, path: str) -> Sequence[Mapping[str, Any]]:
        """The suppressions of the last scan or refresh."""
        row = self._database.query(_stored(path))
        return _entries(json.loads(row)) if row is not None else []

    def consented(self) -> bool:
        """Whether `jobs.allowSidecarEdits` is true."""
        return jobs_settings(self._folder.config()).get("allowSidecarEdits") is True

    def remove(self, path: str, entries: Sequence[Mapping[str, Any]]) -> None:
        """Removes the entries; everything else in the sidecar stays."""
        whole = read_sidecar(self._folder.root, path)
        held = whole.get("annotations", {})
        held["suppressions"] = [entry for entry in held.get("suppressions", []) if entry not in entries]
        if not held["suppressions"]:
            del held["suppressions"]
        write_whole(sidecar_of(self._folder.root, path), json.dumps(whole, indent=2, ensure_ascii=False) + "\n")

    def refresh(self, path: str) -> None:
        """Brings the mirror up to the sidecar."""
        text = json.dumps(read_annotations(self._folder.root, path), ensure_ascii=False)
        self._database.transact(_mirror(path, text))


def _entries(held: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    value = held.get("suppressions")
    return [entry for entry in value if isinstance(entry, Mapping)] if isinstance(value, list) else []


def _stored(path: str) -> Steps[str | None]:
    rows = yield Statement(sql.NODE, (path,))
    return rows[0]["annotations_json"] if rows else None


def _mirror(path: str, text: str) -> Steps[None]:
    yield Statement("UPDATE scan_nodes SET annotations_json = ? WHERE path = ?", (text, path))

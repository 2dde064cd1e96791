"""The findings verbs on stored rows (spec job-lifecycle 22)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from . import sql
from .errors import Refused
from .shapes import finding_shape
from .steps import Row, SqlValue, Statement, Steps

BodyHash = Callable[[str], str | None]
"""The stored body hash of a target, None when the target is gone."""


@dataclass(frozen=True, slots=True)
class FindingFilter:
    """Which findings are asked for; every member narrows. `since` is in milliseconds, `threshold` a confidence."""

    node: str | None = None
    extension: str | None = None
    type: str | None = None
    severity: str | None = None
    since: int | None = None
    threshold: float | None = None

    def clause(self) -> tuple[str, tuple[SqlValue, ...]]:
        """The WHERE clause with its bindings."""
        parts: list[tuple[str, tuple[SqlValue, ...]]] = []
        if self.node is not None:
            parts.append(("node_id = ?", (self.node,)))
        if self.extension is not None:
            parts.append((sql.MATCHES_FILTER, (self.extension, self.extension)))
        if self.type is not None:
            parts.append(("type = ?", (self.type,)))
        if self.severity is not None:
            parts.append(("severity = ?", (self.severity,)))
        if self.since is not None:
            parts.append(("generated_at >= ?", (self.since,)))
        if self.threshold is not None:
            parts.append(("confidence >= ?", (self.threshold,)))
        if not parts:
            return "", ()
        return " WHERE " + " AND ".join(part for part, _ in parts), tuple(v for _, values in parts for v in values)


def findings(wanted: FindingFilter, body_hash: BodyHash) -> Steps[list[dict[str, Any]]]:
    """The findings that pass the filter, by target and id, each with `stale`."""
    where, bindings = wanted.clause()
    columns = ", ".join(sql.FINDING_COLUMNS)
    rows = yield Statement(f"SELECT {columns} FROM state_findings{where} ORDER BY node_id, id", bindings)
    return [finding_shape(row, body_hash(row["node_id"])) for row in rows]


def _finding(identifier: int) -> Steps[Row]:
    columns = ", ".join(sql.FINDING_COLUMNS)
    rows = yield Statement(f"SELECT {columns} FROM state_findings WHERE id = ?", (identifier,))
    if not rows:
        raise Refused("not-found", f"no finding {identifier}")
    return rows[0]


def set_resolution(
    identifier: int, state: str | None, note: str | None, now: int, body_hash: BodyHash
) -> Steps[dict[str, Any]]:
    """Resolves (`fixed`), dismisses (`dismissed`) or reopens (None) one finding by hand; the finding after it.

    Raises `Refused`: `not-found`, `already-resolved` when it is in that state, `not-dismissible` for the safety lane.
    """
    row = yield from _finding(identifier)
    if row["resolution"] == state:
        raise Refused("already-resolved", f"finding {identifier} is {state or 'open'} already")
    if state == "dismissed" and row["origin"] == "kernel":
        raise Refused("not-dismissible", "a row of the safety lane cannot be dismissed; resolve it")
    by_hand = state is not None
    yield Statement(
        "UPDATE state_findings SET resolution = ?, resolution_actor = ?, resolution_note = ?, resolution_by = NULL,"
        " resolution_at = ? WHERE id = ?",
        (state, "human" if by_hand else None, note if by_hand else None, now if by_hand else None, identifier),
    )
    row = yield from _finding(identifier)
    return finding_shape(row, body_hash(row["node_id"]))


def node_of(identifier: int) -> Steps[list[str]]:
    """The target of a finding, in a list; empty for an unknown one."""
    rows = yield Statement("SELECT node_id FROM state_findings WHERE id = ?", (identifier,))
    return [row["node_id"] for row in rows]


def nodes() -> Steps[list[str]]:
    """Every target that has findings."""
    rows = yield Statement("SELECT DISTINCT node_id FROM state_findings ORDER BY node_id")
    return [row["node_id"] for row in rows]


def prune_stale(hashes: Mapping[str, str | None], *, dry_run: bool) -> Steps[dict[str, int]]:
    """Deletes every stale finding of the targets of `hashes`; of others, which came meanwhile, it knows nothing."""
    every = yield from findings(FindingFilter(), hashes.get)
    stale = [finding["id"] for finding in every if finding["stale"] and finding["nodeId"] in hashes]
    if not dry_run:
        for identifier in stale:
            yield Statement("DELETE FROM state_findings WHERE id = ?", (identifier,))
    return _deleted(len(stale), dry_run)


def clear(node: str | None, *, dry_run: bool) -> Steps[dict[str, int]]:
    """Deletes every finding of one target, or of all for None."""
    where, bindings = FindingFilter(node=node).clause()
    rows = yield Statement(f"SELECT count(*) AS n FROM state_findings{where}", bindings)
    if not dry_run:
        yield Statement(f"DELETE FROM state_findings{where}", bindings)
    return _deleted(rows[0]["n"], dry_run)


def _deleted(count: int, dry_run: bool) -> dict[str, int]:
    return {"deleted": 0 if dry_run else count, "wouldDelete": count if dry_run else 0}

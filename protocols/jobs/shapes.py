"""The JSON shapes of rows. The public shape of a job asserts the nonce's absence (spec job-lifecycle 6)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from .catalogue import Target
from .hashes import text_hash
from .steps import Row


def camel(name: str) -> str:
    """`extension_id` as `extensionId`."""
    head, *rest = name.split("_")
    return head + "".join(word.capitalize() for word in rest)


def credentialed_job(row: Mapping[str, Any]) -> dict[str, Any]:
    """A job with its nonce: for the answer to its submit, and nothing else."""
    shape: dict[str, Any] = {}
    for name, value in row.items():
        if name == "auto_fix":
            shape["autoFix"] = bool(value)
        elif name == "finding_ids_json":
            shape["findingIds"] = None if value is None else json.loads(value)
        else:
            shape[camel(name)] = value
    return shape


def public_job(row: Mapping[str, Any]) -> dict[str, Any]:
    """A job without its nonce: for list, show, HTTP and every other read."""
    shape = credentialed_job(row)
    shape.pop("nonce", None)
    assert_public(shape)
    return shape


def assert_public(shape: Mapping[str, Any]) -> None:
    """Raises AssertionError when a shape that others read carries a nonce, however it was built."""
    if "nonce" in shape:
        raise AssertionError("a public job must not carry its nonce")


def public_execution(row: Mapping[str, Any], *, report: bool = False) -> dict[str, Any]:
    """An execution as `history` shows it; the report's value is added as `report` when asked for."""
    shape = {camel(name): value for name, value in row.items() if name not in ("node_ids_json", "report_json")}
    ordered: dict[str, Any] = {}
    for name, value in shape.items():
        ordered[name] = value
        if name == "extensionVersion":
            ordered["nodeIds"] = json.loads(row["node_ids_json"])
    if report:
        ordered["report"] = stored_report(row)
    return ordered


def stored_report(row: Mapping[str, Any]) -> Any:
    """What an execution's report slot holds: the report of a completed one, else the error text or None."""
    text = row["report_json"]
    return json.loads(text) if row["status"] == "completed" and text is not None else text


def finding_shape(row: Mapping[str, Any], body_hash: str | None) -> dict[str, Any]:
    """A finding with `stale`: the target is gone (`body_hash` None) or its body is another one (spec 22)."""
    shape = {camel(name): value for name, value in row.items()}
    shape["stale"] = body_hash != row["body_hash_at_generation"]
    return shape


def frontmatter_hash(frontmatter: Mapping[str, Any]) -> str:
    """A stable hash of frontmatter: SHA-256 of its JSON with sorted keys (spec 23)."""
    return text_hash(json.dumps(frontmatter, sort_keys=True, ensure_ascii=False, default=str))


def target_of_row(row: Row) -> Target:
    """The stored target that a row of `scan_nodes` holds."""
    return Target(
        path=row["path"],
        kind=row["kind"],
        provider=row["provider"],
        body_hash=row["body_hash"],
        frontmatter_hash=row["frontmatter_hash"],
        frontmatter=json.loads(row["frontmatter_json"]),
        tags=json.loads(row["annotations_json"]).get("tags"),
        virtual=bool(row["virtual"]),
    )


def row_of_target(target: Target, annotations: Mapping[str, Any], body: str | None) -> tuple[Any, ...]:
    """The bindings of `sql.UPSERT_NODE`. `body` is kept only where there are no files to read it from."""
    return (
        target.path,
        target.kind,
        target.provider,
        target.body_hash,
        target.frontmatter_hash,
        json.dumps(target.frontmatter, ensure_ascii=False, default=str),
        json.dumps(annotations, ensure_ascii=False),
        int(target.virtual),
        body,
    )

"""The commands of `moorage ledger` that look after a tree: compact, prune, index."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click

from ..connection import connection_options

if TYPE_CHECKING:
    from ..http import Http


@click.command("compact")
@click.argument("root")
@click.option("--retention-months", type=int, required=True, help="Whole months that stay as shards.")
@click.option("--today", help="Day to count from, YYYY-MM-DD. Default: today, UTC.")
@click.option("--publish", "publish_too", is_flag=True, help="Also store the segments in R2 through the state plane.")
@connection_options
def compact(
    root: str,
    retention_months: int,
    today: str | None,
    publish_too: bool,
    as_json: bool,
    http_of: Callable[..., Http],
) -> None:
    """Write segments for the months before the retention. Removes nothing; see prune.

    With --publish, every segment of those months is stored that R2 has not got: an interrupted run is run again.
    """
    from moorage.protocols.ledger.timestamps import calendar_date

    from .compaction import compact as run
    from .compaction import compacted
    from .files import TrustedRoot

    day = datetime.now(UTC).strftime("%Y-%m-%d") if today is None else calendar_date(today, "--today")
    trusted = TrustedRoot(root)
    segments = run(trusted, today=day, retention_months=retention_months)
    if publish_too:
        from .publisher import publish_segment
        from .worker_blobs import WorkerBlobs

        with http_of() as http:
            for segment in compacted(trusted, today=day, retention_months=retention_months):
                publish_segment(WorkerBlobs(http), trusted, segment)
    for segment in segments:
        value = {"path": segment.manifest_path, "shards": len(segment.shards), "bytes": segment.payload_bytes}
        click.echo(
            json.dumps(value) if as_json else f"{value['shards']:>6} {value['bytes']:>9} {segment.manifest_path}"
        )


@click.command("prune")
@click.argument("root", required=False)
@click.option("--remote", is_flag=True, help="Prune R2 through the state plane; needs the operator's secret.")
@click.option("--dry-run", is_flag=True, help="Only say what would go.")
@connection_options
def prune(root: str | None, remote: bool, dry_run: bool, as_json: bool, http_of: Callable[..., Http]) -> None:
    """Remove the shards, below ROOT or in R2, that a whole segment holds, each read back first."""
    from .compaction import PruneResult, prune_remote
    from .compaction import prune as run
    from .files import TrustedRoot

    if remote == (root is not None):
        raise click.UsageError("give ROOT or --remote")
    if root is not None:
        result = run(TrustedRoot(root), dry_run=dry_run)
    else:
        from .import_index import WorkerIndex
        from .publisher import BlobSource
        from .worker_blobs import WorkerBlobs

        with http_of() as http, http_of(operator=True) as operator:
            found = list(prune_remote(BlobSource(WorkerBlobs(http)), WorkerIndex(operator), dry_run=dry_run))
        result = PruneResult(
            tuple(path for step in found for path in step.removed), sum(step.bytes for step in found)
        )
    if as_json:
        click.echo(json.dumps({"removed": list(result.removed), "bytes": result.bytes}))
        return
    for path in result.removed:
        click.echo(path)
    click.echo(f"{len(result.removed)} shards, {result.bytes} bytes {'would go' if dry_run else 'removed'}", err=True)


@click.command("index")
@click.option("--rebuild", is_flag=True, help="Make it anew from the files in R2; needs the operator's secret.")
@connection_options
def index(rebuild: bool, as_json: bool, http_of: Callable[..., Http]) -> None:
    """Show the state plane's index of imports: counts, unfinished sets, who holds the lock. Or rebuild it.

    Status 1 when a rebuild met binding files that are damaged.
    """
    from .import_index import WorkerIndex

    damaged: list[str] = []
    if rebuild:
        with http_of(operator=True) as http:
            damaged = WorkerIndex(http).rebuild(
                (lambda read: click.echo(f"\r{read} files", nl=False, err=True)) if sys.stderr.isatty() else None
            )
        if sys.stderr.isatty():
            click.echo(err=True)
    with http_of() as http:
        found = WorkerIndex(http).ask("status", {})
    if as_json:
        click.echo(json.dumps({**found, "damaged": damaged}))
    else:
        holder = found["lock"]["holder"]
        click.echo(f"{found['sets']} sets, {found['complete']} complete, {found['events']} events")
        click.echo(f"lock: {'free' if holder is None else holder}")
        for path in found["unfinished"]:
            click.echo(f"unfinished: {path}")
        for path in damaged:
            click.echo(f"damaged: {path}", err=True)
    if damaged:
        sys.exit(1)


def add_to(group: click.Group) -> None:
    """Adds these commands to the ledger's group."""
    for command in (compact, prune, index):
        group.add_command(command)

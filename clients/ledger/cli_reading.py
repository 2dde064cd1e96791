"""The commands of `moorage ledger` that look: verify, ls, show, history, rebuild."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..connection import connection_options

if TYPE_CHECKING:
    from ..http import Http
    from .sources import Source

source_argument = click.argument("source", default=".")
remote_option = click.option("--remote", is_flag=True, help="Read R2 through the state plane instead of SOURCE.")


@contextmanager
def opened(source: str, remote: bool, http_of: Callable[..., Http]) -> Iterator[Source]:
    """The tree to read: a folder, or R2 through the Worker."""
    from .sources import folder_source

    if not remote:
        yield folder_source(source)
        return
    from .publisher import BlobSource
    from .worker_blobs import WorkerBlobs

    with http_of() as http:
        yield BlobSource(WorkerBlobs(http))


def _filters(function: Any) -> Any:
    for option in (
        click.option("--until", help="Only what occurred before this timestamp."),
        click.option("--since", help="Only what occurred at or after this timestamp."),
        click.option("--type", "type_", help="Only this event type, or family: review, command, repair, apply, …"),
        click.option("--subject", help="Only this subject: owner/name, owner/name#number, owner/name:kind[:id]."),
        click.option("--operation", help="Only this operation id."),
    ):
        function = option(function)
    return function


def _line(record: dict[str, Any]) -> str:
    from moorage.protocols.ledger.folds.chronology import subject_name

    action = record["action"]
    reason = f" ({action['reason_code']})" if "reason_code" in action else ""
    mutation = " mutation" if action["mutation"] else ""
    return (
        f"{record['occurred_at']}  {record['event_type']} {action['status']}{reason}{mutation}  "
        f"{subject_name(record['subject'])}  {record['event_id'][:12]}"
    )


@click.command("verify")
@source_argument
@remote_option
@click.option("--event-bindings", is_flag=True, help="Also read the binding of every imported event.")
@connection_options
def verify(source: str, remote: bool, event_bindings: bool, as_json: bool, http_of: Callable[..., Http]) -> None:
    """Verify a whole tree by every reader rule; names the first fault and where it is. Status 1 when there is one."""
    from .verify import VerifyReport, verify_tree

    shown = 0

    def progress(report: VerifyReport) -> None:
        nonlocal shown
        if report.events - shown >= 10_000:
            shown = report.events
            click.echo(f"\r{report.shards} shards, {report.events} events", nl=False, err=True)

    with opened(source, remote, http_of) as tree:
        report = verify_tree(tree, event_bindings=event_bindings, progress=progress if sys.stderr.isatty() else None)
    if shown:
        click.echo(err=True)
    if report.fault is None and not report.shards:
        click.echo("WARNING: there is not one shard: is this the tree that was meant?", err=True)
    value: dict[str, Any] = {
        "shards": report.shards,
        "events": report.events,
        "bytes": report.bytes,
        "bindings": report.bindings,
        "fault": None,
    }
    counts = (
        (report.shards, "shard"),
        (report.events, "event"),
        (report.bytes, "byte"),
        (report.bindings, "binding"),
    )
    text = ", ".join(f"{count} {noun}{'' if count == 1 else 's'}" for count, noun in counts)
    if report.fault is not None:
        fault = report.fault
        value["fault"] = {"error": fault.code, "detail": fault.detail, "where": fault.where}
        text = f"fault after {text}: {fault}"
    click.echo(json.dumps(value) if as_json else text if report.fault else f"sound: {text}")
    if report.fault is not None:
        sys.exit(1)


@click.command("ls")
@source_argument
@remote_option
@click.option("--month", help="Only this month, YYYY/MM.")
@connection_options
def ls(source: str, remote: bool, month: str | None, as_json: bool, http_of: Callable[..., Http]) -> None:
    """List the shards of a tree, with their events and bytes. Shards of unfinished imports are named on stderr."""
    from .trees import iter_shards

    if month is not None and not re.fullmatch("[0-9]{4}/(0[1-9]|1[0-2])", month):
        raise click.UsageError("--month is YYYY/MM")
    with opened(source, remote, http_of) as tree:
        for shard in iter_shards(
            tree, since_month=month, until_month=month, hidden=lambda refusal: click.echo(str(refusal), err=True)
        ):
            value = {"path": shard.path, "events": len(shard.events), "bytes": shard.size, "imported": shard.imported}
            click.echo(json.dumps(value) if as_json else f"{value['events']:>6} {value['bytes']:>8} {shard.path}")


@click.command("show")
@click.argument("what")
@click.option("--source", default=".", help="Tree or spool root that WHAT is looked up in.")
@remote_option
@connection_options
def show(what: str, source: str, remote: bool, as_json: bool, http_of: Callable[..., Http]) -> None:
    """Show an event by its id (or 8 or more digits of it), or every event of a shard by its path."""
    from moorage.protocols.ledger.publication import is_shard_path
    from moorage.protocols.ledger.refusals import LedgerRefusal

    from .readers import iter_events
    from .trees import iter_shards

    is_path = is_shard_path(what)
    if not is_path and not re.fullmatch("[0-9a-f]{8,64}", what):
        raise click.UsageError("WHAT is the path of a shard, or 8 to 64 digits of an event id")
    found = False
    with opened(source, remote, http_of) as tree:
        if is_path:
            month = what[len("ledger/v1/events/") :][:7]
            shards = iter_shards(tree, since_month=month, until_month=month)
            events = (event for shard in shards if shard.path == what for event in shard.events)
        else:
            events = (event for event in iter_events(tree) if event.event_id.startswith(what))
        for event in events:
            found = True
            click.echo(event.line if as_json else json.dumps(event.record, indent=2, ensure_ascii=False))
    if not found:
        raise LedgerRefusal("missing", "no such event or shard", what)


@click.command("history")
@source_argument
@remote_option
@_filters
@connection_options
def history(
    source: str,
    remote: bool,
    operation: str | None,
    subject: str | None,
    type_: str | None,
    since: str | None,
    until: str | None,
    as_json: bool,
    http_of: Callable[..., Http],
) -> None:
    """List events of a spool or tree, filtered, in the order of their shards."""
    from .readers import iter_events

    with opened(source, remote, http_of) as tree:
        for event in iter_events(tree, operation=operation, subject=subject, type=type_, since=since, until=until):
            click.echo(event.line if as_json else _line(event.record))


@click.command("rebuild")
@click.argument("view", type=click.Choice(["reviews", "commands", "notifications", "evidence", "timing"]))
@source_argument
@remote_option
@_filters
@click.option("--out", type=click.Path(dir_okay=False, path_type=Path), help="Write the view here instead.")
@click.option(
    "--compare",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Only compare with this JSON; names where they differ, status 1 when they do.",
)
@connection_options
def rebuild(
    view: str,
    source: str,
    remote: bool,
    operation: str | None,
    subject: str | None,
    type_: str | None,
    since: str | None,
    until: str | None,
    out: Path | None,
    compare: Path | None,
    as_json: bool,
    http_of: Callable[..., Http],
) -> None:
    """Fold events into a view; its canonical JSON is the same wherever it is built.

    Views: reviews (bounded history of each item), commands (current state), notifications (deliveries), evidence
    (graph), timing (status and timing of operations).
    """
    from moorage.protocols.ledger.canonical import parse_json
    from moorage.protocols.ledger.folds import FOLDS
    from moorage.protocols.ledger.parity import differences

    from .readers import iter_events
    from .views import view_text, write_view

    with opened(source, remote, http_of) as tree:
        value = FOLDS[view](
            iter_events(tree, operation=operation, subject=subject, type=type_, since=since, until=until)
        )
    if compare is not None:
        found = list(differences(parse_json(compare.read_text()), value))
        for difference in found:
            shown = {"pointer": difference.pointer, "legacy": difference.legacy, "events": difference.events}
            click.echo(
                json.dumps(shown) if as_json else f"{difference.pointer}: {difference.legacy} -> {difference.events}"
            )
        if found:
            sys.exit(1)
    elif out is None:
        click.echo(view_text(value), nl=False)
    else:
        write_view(out, value)


def add_to(group: click.Group) -> None:
    """Adds these commands to the ledger's group."""
    for command in (verify, ls, show, history, rebuild):
        group.add_command(command)

"""`moorage ledger`: record, finalize, publish, import, verify, look at and rebuild the action ledger."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..connection import connection_options

if TYPE_CHECKING:
    from ..http import Http
    from .recorder import Recorder


class LedgerGroup(click.Group):
    """Turns a refusal into one line on standard error (JSON with --json) and status 1."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        ctx.meta["moorage.ledger.json"] = "--json" in args
        return super().parse_args(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        from moorage.protocols.ledger.refusals import LedgerError, LedgerRefusal

        try:
            return super().invoke(ctx)
        except LedgerRefusal as refusal:
            if ctx.meta.get("moorage.ledger.json"):
                value = {"error": refusal.code, "detail": refusal.detail, "where": refusal.where}
                click.echo(json.dumps(value), err=True)
                ctx.exit(1)
            raise click.ClickException(str(refusal)) from None
        except LedgerError as error:
            raise click.ClickException(str(error)) from None
        except UnicodeDecodeError as error:
            raise click.ClickException(f"the input is not UTF-8 at byte {error.start}") from None
        except OSError as error:
            if error.filename is None:
                raise
            raise click.ClickException(f"{error.filename}: {error.strerror}") from None


json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON for programs.")
root_option = click.option(
    "--root",
    envvar="CLAWSWEEPER_ACTION_LEDGER_ROOT",
    show_envvar=True,
    help="Spool root: an existing folder, by its absolute real path. Default: the current folder.",
)


@click.group(cls=LedgerGroup)
def command() -> None:
    """The action ledger: immutable events, from local spool to shards in R2."""


def _recorder(root: str | None) -> Recorder:
    from .delivery import process_queue
    from .recorder import Recorder

    return Recorder(os.path.realpath(os.getcwd()) if root is None else root, projections=process_queue())


def _show(value: Any, as_json: bool, lines: list[str]) -> None:
    if as_json:
        click.echo(json.dumps(value, ensure_ascii=False))
    else:
        for line in lines:
            click.echo(line)


def _plural(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"


# Members of an event's input, and the options of the recorder that they become.
_MEMBERS = {
    "action": "action",
    "attemptIdentity": "attempt_identity",
    "attributes": "attributes",
    "component": "component",
    "evidence": "evidence",
    "idempotencyIdentity": "idempotency_identity",
    "identity": "identity",
    "learning": "learning",
    "mutation": "mutation",
    "occurredAt": "occurred_at",
    "operation": "operation",
    "operationIdentity": "operation_identity",
    "parentEventId": "parent_event_id",
    "phase": "phase",
    "phaseSeq": "phase_seq",
    "privacy": "privacy",
    "reasonCode": "reason_code",
    "retryable": "retryable",
    "scope": "scope",
    "status": "status",
    "subject": "subject",
    "type": "type",
}


@command.command("record")
@click.argument("file", type=click.File("r", encoding="utf-8"), default="-")
@root_option
@json_option
def record(file: Any, root: str | None, as_json: bool) -> None:
    """Record one event, given as a JSON object in FILE or on standard input.

    With phase, status, retryable and mutation it is a phase event; with scope, type and action an action event. Both
    have identity, component and subject.
    """
    from moorage.protocols.ledger.canonical import parse_json
    from moorage.protocols.ledger.refusals import LedgerRefusal

    given = parse_json(file.read())
    if not isinstance(given, dict):
        raise LedgerRefusal("not-object", "an event is given as an object")
    unknown = sorted(set(given) - set(_MEMBERS))
    if unknown:
        raise LedgerRefusal("unknown-field", f"is none of {', '.join(_MEMBERS)}", unknown[0])
    options = {_MEMBERS[name]: value for name, value in given.items()}
    recorder = _recorder(root)
    call: Callable[..., Any] = recorder.record_phase_event if "phase" in options else recorder.record_action_event
    try:
        event = call(**options)
    except TypeError as error:
        raise LedgerRefusal("required", str(error).split(") ", 1)[-1]) from None
    if event is None:
        click.echo("recording is off: set CLAWSWEEPER_ACTION_LEDGER_FORCE=1", err=True)
        _show({"disabled": True}, as_json, [])
        return
    _show({"eventId": event.event_id, "event": event.record}, as_json, [event.event_id])


@command.command("reconcile")
@click.argument("event_id")
@click.option("--source", help="Where the receipt lies: a spool root or a tree. Default: the spool root.")
@click.option("--present/--absent", default=None, help="Whether the dispatched workflow run exists. Must be given.")
@root_option
@json_option
def reconcile(event_id: str, source: str | None, present: bool | None, root: str | None, as_json: bool) -> None:
    """Record what became of a dispatch of unknown outcome, so that its revision may go on."""
    from .readers import iter_events
    from .reconcile import open_receipt, reconcile_dispatch

    if present is None:
        raise click.UsageError("say what was found: --present or --absent")
    recorder = _recorder(root)
    receipts = iter_events(recorder.root if source is None else source, type="review.retry")
    event = reconcile_dispatch(recorder, open_receipt(receipts, event_id), present=present)
    if event is None:
        click.echo("recording is off: set CLAWSWEEPER_ACTION_LEDGER_FORCE=1", err=True)
        _show({"disabled": True}, as_json, [])
        return
    _show({"eventId": event.event_id, "event": event.record}, as_json, [event.event_id])


@command.command("finalize")
@root_option
@click.option("--output", help="Where shards go. Default: $CLAWSWEEPER_ACTION_LEDGER_OUTPUT_ROOT, else in the root.")
@click.option("--interrupt-open-attempts", "interrupt", is_flag=True, help="First close what a killed run left open.")
@click.option(
    "--reason",
    type=click.Choice(["timeout", "cancelled", "workflow_failed"]),
    default="timeout",
    show_default=True,
    help="Why it was left open.",
)
@click.option("--drain-timeout-ms", type=int, default=10_000, show_default=True, help="Deadline of live deliveries.")
@click.option("--lane", help="Also write the command manifest of this lane.")
@click.option("--manifest", help="The manifest's path below the output root. Default: <lane>.manifest.json.")
@click.option("--allow-empty", is_flag=True, help="Without command shards, write no manifest and succeed.")
@json_option
def finalize(
    root: str | None,
    output: str | None,
    interrupt: bool,
    reason: str,
    drain_timeout_ms: int,
    lane: str | None,
    manifest: str | None,
    allow_empty: bool,
    as_json: bool,
) -> None:
    """Seal every producer of the spool and write its shards. Running it again changes nothing."""
    from .delivery import process_queue
    from .finalise import finalise, output_root
    from .interrupt import interrupt_open_attempts
    from .manifests import command_shards, write_manifest

    recorder = _recorder(root)
    if not recorder.enabled:
        click.echo("recording is off: set CLAWSWEEPER_ACTION_LEDGER_FORCE=1", err=True)
    closed = interrupt_open_attempts(recorder, reason) if interrupt else []
    paths = finalise(recorder, output, projections=process_queue(), drain_timeout_ms=drain_timeout_ms)
    value: dict[str, Any] = {"paths": paths, "interrupted": [event.event_id for event in closed]}
    if lane is not None and recorder.enabled:
        target = output_root(recorder, output)
        chosen = command_shards(target, paths, recorder.environment)
        if chosen or not allow_empty:
            name = manifest or f"{lane}.manifest.json"
            write_manifest(target, name, lane, chosen, recorder.environment)
            value["manifest"] = target.where(name)
    _show(value, as_json, [*([f"closed {_plural(len(closed), 'open attempt')}"] if interrupt else []), *paths])


def _expected(job: str | None, run_id: str | None, attempt: int | None, sha: str | None) -> dict[str, Any] | None:
    given = {"job": job, "runId": run_id, "runAttempt": attempt, "sha": sha}
    found = {name: value for name, value in given.items() if value is not None}
    return found or None


def expected_options(function: Any) -> Any:
    """Adds the options that name the producer which every shard must come from."""
    for option in (
        click.option("--expected-producer-sha", "sha", help="Only shards of this commit."),
        click.option("--expected-producer-run-attempt", "run_attempt", type=int, help="Only of this run attempt."),
        click.option("--expected-producer-run-id", "run_id", help="Only of this run."),
        click.option("--expected-producer-job", "job", help="Only of this job; others are refused."),
    ):
        function = option(function)
    return function


def _progress() -> Callable[[int, int], None] | None:
    if not sys.stderr.isatty():
        return None

    def show(done: int, total: int) -> None:
        click.echo(f"\r{done}/{total} blobs", nl=done == total, err=True)

    return show


@command.command("publish")
@click.option("--source", required=True, help="Root of the shard tree: the output root of finalize, or a state tree.")
@click.option(
    "--paths-file", type=click.Path(exists=True, dir_okay=False, path_type=Path), help="Exactly these files."
)
@click.option("--lane", help="With --manifest: the lane that the manifest must be of.")
@click.option("--manifest", help="Command manifest below the source, of the current run: exactly its shards.")
@expected_options
@connection_options
def publish(
    source: str,
    paths_file: Path | None,
    lane: str | None,
    manifest: str | None,
    job: str | None,
    run_id: str | None,
    run_attempt: int | None,
    sha: str | None,
    as_json: bool,
    http_of: Callable[..., Http],
) -> None:
    """Publish shard sets to the state plane: reserve, put, read back, complete. An interrupted one is run again."""
    from moorage.protocols.ledger.publication import MAX_PATH_BYTES, MAX_PATHS
    from moorage.protocols.ledger.refusals import LedgerRefusal

    from .files import TrustedRoot
    from .import_index import WorkerIndex
    from .manifests import read_manifest
    from .publisher import publish_paths, publish_tree
    from .worker_blobs import WorkerBlobs

    if (lane is None) != (manifest is None) or (manifest is not None and paths_file is not None):
        raise click.UsageError("give --lane and --manifest together, and not with --paths-file")
    expected = _expected(job, run_id, run_attempt, sha)
    if paths_file is not None:
        if expected is not None:
            raise click.UsageError("--paths-file stores files as they are; no producer can be expected of them")
        with paths_file.open("rb") as listed:
            data = listed.read(MAX_PATHS * MAX_PATH_BYTES + 1)
        try:
            path_list = data.decode()
        except UnicodeDecodeError:
            raise LedgerRefusal("utf8", "is not UTF-8", str(paths_file)) from None
        with http_of() as http:
            stored = publish_paths(WorkerBlobs(http), TrustedRoot(source), path_list, index=WorkerIndex(http))
        _show(
            {"created": stored.created, "unchanged": stored.unchanged},
            as_json,
            [f"{_plural(stored.created, 'new blob')}, {stored.unchanged} unchanged"],
        )
        return
    paths: list[str] | None = None
    if manifest is not None and lane is not None:
        found = read_manifest(TrustedRoot(source), manifest, lane, os.environ)
        paths = list(found.event_paths)
        identity = found.identity
        expected = {
            **{name: identity[name] for name in ("repository", "sha", "workflow", "job")},
            "runId": identity["run_id"],
            "runAttempt": identity["run_attempt"],
            **(expected or {}),
        }
    with http_of() as http:
        result = publish_tree(
            WorkerBlobs(http),
            source,
            expected_paths=paths,
            expected_producer=expected,
            index=WorkerIndex(http),
            progress=_progress(),
        )
    _show(
        result.to_json(),
        as_json,
        [f"published {_plural(result.created, 'shard')}, {result.unchanged} unchanged", *result.event_paths],
    )


@command.command("import")
@click.option("--source", required=True, help="Root of the tree to import from.")
@click.option("--dest", required=True, help="Root of the tree to import into; must exist.")
@click.option("--expected-path", "paths", multiple=True, help="Import exactly these shards; give them sorted.")
@expected_options
@json_option
def import_(
    source: str,
    dest: str,
    paths: tuple[str, ...],
    job: str | None,
    run_id: str | None,
    run_attempt: int | None,
    sha: str | None,
    as_json: bool,
) -> None:
    """Import complete shard sets from one tree into another; the same import finishes an interrupted one."""
    from .importer import import_shards

    result = import_shards(
        source, dest, expected_paths=paths or None, expected_producer=_expected(job, run_id, run_attempt, sha)
    )
    _show(
        result.to_json(),
        as_json,
        [f"imported {_plural(result.created, 'shard')}, {result.unchanged} unchanged", *result.paths],
    )


from . import cli_operating, cli_reading  # noqa: E402 - add their commands to the group above

cli_reading.add_to(command)
cli_operating.add_to(command)

"""`moorage session`: the stages of a session, run as commands, with one durable ledger of what was done."""

from __future__ import annotations

import functools
import json
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from moorage.protocols.sessions import SessionManifest

    from .runner import Runner
    from .settings import Session

F = TypeVar("F", bound=Callable[..., Any])

INTERRUPTED_STATUS = 130


@click.group("session")
def command() -> None:
    """Session manifests: run stages, reuse what is current, publish immutable snapshots.

    A folder holds one session; `moorage.session.toml` in it says which, and how each stage is run.
    """


def where(function: F) -> F:
    """`-C`, `--config`, `--profile`, `--json`. The command gets `session` and `as_json`."""

    @click.option(
        "-C", "folder", type=click.Path(file_okay=False, path_type=Path), default=".", help="The session's folder."
    )
    @click.option(
        "--config",
        type=click.Path(dir_okay=False, path_type=Path),
        help="Another file than moorage.session.toml in it.",
    )
    @click.option("--profile", metavar="NAME", help="Lay the table [profiles.NAME] over the configuration.")
    @click.option("--json", "as_json", is_flag=True, help="Print JSON for programs.")
    @functools.wraps(function)
    def run(folder: Path, config: Path | None, profile: str | None, as_json: bool, **options: Any) -> Any:
        from moorage.protocols.sessions import SessionError

        from .errors import Refused
        from .settings import load

        try:
            return function(session=load(folder, config, profile), as_json=as_json, **options)
        except SessionError as error:
            raise Refused(str(error)) from error

    return run  # type: ignore[return-value]


def selection(function: F) -> F:
    """Which stages and artifacts."""
    options = [
        click.option("--from", "first", metavar="STAGE", help="Begin with this stage; all before must be complete."),
        click.option("--to", "last", metavar="STAGE", help="End with this stage."),
        click.option("--only", metavar="STAGE", help="This stage alone: --from and --to in one."),
        click.option("--force", is_flag=True, help="Run every selected stage, whatever is recorded."),
        click.option(
            "--force-stage", "forced", multiple=True, metavar="STAGE", help="Run this one; may be repeated."
        ),
        click.option("--artifact", "artifacts", multiple=True, metavar="KEY", help="Of the artifact stage, these."),
        click.option("--run-id", metavar="ID", help="Identity of the run; a new one unless given."),
    ]
    for option in reversed(options):
        function = option(function)
    return function


def _bounds(session: Session, options: dict[str, Any]) -> tuple[str | None, str | None, set[str]]:
    first, last, only = options["first"], options["last"], options["only"]
    if only is not None:
        if first is not None or last is not None:
            raise click.UsageError("--only excludes --from and --to")
        first = last = only
    forced = set(session.pipeline.between(first, last)) if options["force"] else set()
    for name in options["forced"]:
        forced.add(session.pipeline.check(name))
    selected = session.pipeline.between(first, last)
    if options["artifacts"] and session.pipeline.artifact_stage not in selected:
        raise click.UsageError("--artifact: the artifact stage is not among the selected stages")
    outside = forced - set(selected)
    if outside:
        raise click.UsageError(f"--force-stage {min(outside)}: it is not among the selected stages")
    return first, last, forced


def _runner(session: Session, options: dict[str, Any]) -> Runner:
    from .assembly import stages_of, store_of
    from .runner import Runner, new_run_id

    store = store_of(session)
    stages = stages_of(session, store, artifacts=options["artifacts"] or None)
    projection = session.projection(options["run_id"] or new_run_id(store.now()))
    return Runner(
        session.folder,
        store,
        stages,
        projection,
        inputs=session.prepared,
        say=lambda line: click.echo(line, err=True),
    )


@contextmanager
def _terminated() -> Iterator[None]:
    """SIGTERM is a cancellation as Ctrl-C is."""

    def stop(number: int, frame: Any) -> None:
        raise KeyboardInterrupt("terminated")

    former = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, former)


def _run(session: Session, as_json: bool, options: dict[str, Any]) -> None:
    from .errors import Interrupted

    first, last, forced = _bounds(session, options)
    runner = _runner(session, options)
    try:
        with _terminated():
            runner.run(first, last, force=forced)
    except (Interrupted, KeyboardInterrupt) as error:
        text = str(error) if isinstance(error, Interrupted) else "interrupted between stages"
        click.echo(f"moorage session: {text}", err=True)
        _show_run(runner, as_json)
        raise SystemExit(INTERRUPTED_STATUS) from None
    except Exception:
        if runner.reports:
            _show_run(runner, as_json)
        raise
    _show_run(runner, as_json)


def _show_run(runner: Runner, as_json: bool) -> None:
    rows = [
        {"stage": report.stage, "action": report.action, "reason": report.reason, "seconds": round(report.seconds, 3)}
        for report in runner.reports
    ]
    if as_json:
        click.echo(json.dumps({"run_id": runner.projection.run_id, "stages": rows}, ensure_ascii=False))
        return
    click.echo(f"run {runner.projection.run_id}")
    for row in rows:
        click.echo(f"  {row['stage']:<12} {row['action']:<12} {row['reason']}".rstrip())


@command.command("run")
@where
@selection
def run(session: Session, as_json: bool, **options: Any) -> None:
    """Run the stages that need it, in order.

    Status 1: a stage failed, or the request was refused before anything was made. Status 130: interrupted.
    """
    _run(session, as_json, options)


@command.command("publish")
@where
@click.option("--force", is_flag=True, help="Publish again, though the current commit is this session's.")
@click.option("--run-id", metavar="ID", help="Identity of the run; a new one unless given.")
def publish(session: Session, as_json: bool, force: bool, run_id: str | None) -> None:
    """Run the publish stage alone; every earlier stage must be complete."""
    name = session.pipeline.publish_stage
    if name is None:
        raise click.UsageError("the pipeline has no publish stage")
    chosen = {"first": None, "last": None, "only": name, "force": force, "forced": (), "artifacts": ()}
    _run(session, as_json, {**chosen, "run_id": run_id})


@command.command("plan")
@where
@selection
def plan(session: Session, as_json: bool, **options: Any) -> None:
    """Say what `run` would do and why, if every stage that runs succeeds. Saves nothing."""
    first, last, forced = _bounds(session, options)
    runner = _runner(session, options)
    planned = runner.plan(first, last, force=forced)
    if as_json:
        rows = [
            {
                "stage": row.stage,
                "action": row.decision.action.value,
                "reason": row.decision.reason,
                "stales": row.decision.stales.value,
            }
            for row in planned
        ]
        click.echo(json.dumps({"stages": rows}))
        return
    for row in planned:
        click.echo(f"{row.stage:<12} {row.decision.action.value:<6} {row.decision.reason}")


def _manifest(session: Session) -> SessionManifest:
    from moorage.protocols.sessions.lifecycle import check_agrees

    from .assembly import store_of
    from .errors import Refused, SessionFailure

    try:
        manifest = store_of(session).load()
    except OSError as error:
        raise Refused(f"the session manifest cannot be read: {error}") from error
    if manifest is None:
        raise SessionFailure(f"{session.folder} has no session manifest yet: nothing has run")
    check_agrees(manifest, session.projection(manifest.run_id))
    return manifest


@command.command("status")
@where
def status(session: Session, as_json: bool) -> None:
    """Show the state of every stage, of the artifacts, and of a clean-up that is owed."""
    from moorage.protocols.sessions.documents import builtins

    manifest = _manifest(session)
    if as_json:
        click.echo(json.dumps(builtins(manifest), ensure_ascii=False))
        return
    click.echo(f"{manifest.campaign}/{manifest.session_id}, run {manifest.run_id}, saved {manifest.updated_at}")
    for name in session.pipeline.order:
        record = manifest.stages.get(name)
        if record is None:
            click.echo(f"  {name:<12} no record")
            continue
        reason = record.reason if isinstance(record.reason, str) else ""
        click.echo(f"  {name:<12} {record.status.value:<12} {reason}".rstrip())
        if isinstance(record.analyze_artifacts, dict):
            for key, artifact in record.analyze_artifacts.items():
                diagnostic = artifact.diagnostic if isinstance(artifact.diagnostic, str) else ""
                click.echo(f"    {key:<20} {artifact.disposition:<12} {diagnostic}".rstrip())
    for line in _owed(manifest):
        click.echo(f"  clean-up owed: {line}")


def _owed(manifest: SessionManifest) -> list[str]:
    from msgspec import UnsetType

    cleanup = manifest.post_publish_cleanup
    if isinstance(cleanup, UnsetType):
        return []
    return [f"{target.root}/{target.path}" for target in cleanup.targets if not target.completed]


@command.command("verify")
@where
@click.option("--remote", is_flag=True, help="Read the published commit instead, strictly, with every artifact.")
@click.option("--heads", is_flag=True, help="With --remote: compare sizes and generations and read no bytes.")
def verify(session: Session, as_json: bool, remote: bool, heads: bool) -> None:
    """Compare what is recorded with what is there. Status 1 when something differs."""
    if heads and not remote:
        raise click.UsageError("--heads belongs to --remote")
    if remote:
        _verify_remote(session, as_json, heads)
        return
    from .verifying import differences

    manifest = _manifest(session)
    checked, wrong = differences(session.folder, manifest, session.pipeline)
    if as_json:
        click.echo(json.dumps({"checked": checked, "wrong": wrong}, ensure_ascii=False))
    else:
        for line in wrong:
            click.echo(line)
        click.echo(f"{checked} files compared, {len(wrong)} differ")
    if wrong:
        raise SystemExit(1)


def _verify_remote(session: Session, as_json: bool, heads: bool) -> None:
    from .assembly import opener
    from .publish_stage import run_with
    from .reading import verify_current

    def say(line: str) -> None:
        click.echo(line, err=True)

    found = run_with(
        opener(session), lambda objects: verify_current(objects, session.place, heads_only=heads, say=say)
    )
    if found is None:
        click.echo(json.dumps({"published": False}) if as_json else "nothing is published")
        return
    run_id, count = found.commit.run_id, len(found.commit.artifacts)
    depth = "size and generation" if heads else "size, generation and SHA-256"
    shown = {"published": True, "run_id": run_id, "artifacts": count, "compared": depth}
    click.echo(json.dumps(shown) if as_json else f"run {run_id} is current: {count} artifacts, {depth} as declared")


@command.command("restore")
@where
@click.option("--into", type=click.Path(path_type=Path), help="Another folder than the session's.")
@click.option("--replace", is_flag=True, help="Take the place of a folder that is not empty; it is kept beside.")
def restore(session: Session, as_json: bool, into: Path | None, replace: bool) -> None:
    """Rebuild a folder from the current verified commit, and swap it in whole.

    The configuration is copied in. Every stage is pending afterwards: a commit proves files, not progress.
    """
    from .assembly import opener
    from .publish_stage import run_with
    from .restoring import restore as rebuild
    from .settings import CONFIG_NAME
    from .store import utc_now

    target = into or session.folder
    done = run_with(
        opener(session),
        lambda objects: rebuild(
            objects,
            session.place,
            target,
            session.pipeline,
            utc_now,
            replace_existing=replace,
            keep={CONFIG_NAME: session.path},
            say=lambda line: click.echo(line, err=True),
        ),
    )
    run_id, count = done.snapshot.commit.run_id, len(done.snapshot.commit.artifacts)
    shown = {
        "run_id": run_id,
        "artifacts": count,
        "folder": str(target),
        "former": None if done.former is None else str(done.former),
    }
    text = f"restored run {run_id} into {target}: {count} artifacts"
    if done.former is not None:
        text += f"; the former folder is {done.former}"
    click.echo(json.dumps(shown) if as_json else text)

"""`moorage sweep`: the engine of sweep states, a drop-in for the reference engine's command line."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import click

from .arguments import EngineCommand, OurOption

if TYPE_CHECKING:
    from moorage.protocols.sweep import Outcome

    from .file import SweepFile
    from .remote import SharedSweep

    # the same methods, but for what `where` refuses
    Engine: TypeAlias = SweepFile | SharedSweep

F = TypeVar("F", bound="Callable[..., Outcome]")

OUTCOMES = ("completed", "aborted-locked", "partial", "failed")


class EngineGroup(click.Group):
    """The subcommands."""

    command_class = EngineCommand


@click.group("sweep", cls=EngineGroup, no_args_is_help=False)
def command() -> None:
    """Sweep state: one file, or one shared state, that several writers never tear or overwrite.

    The first line that a subcommand prints is a status word, the second, if there is one, JSON. Whatever happens to
    the sweep exits 0; only misuse exits with 2. A line on standard error explains every word but OK.
    """


def say(outcome: Outcome) -> None:
    """Prints an outcome as the reference engine does; the reason goes to standard error."""
    # before the word, which must not be followed by a trace
    payload = None if outcome.payload is None else json.dumps(outcome.payload)
    click.echo(outcome.word.value)
    if payload is not None:
        click.echo(payload)
    if outcome.reason:
        click.echo(f"moorage sweep: {outcome.word.value}: {outcome.reason}", err=True)


def tell(work: Callable[[], Outcome]) -> None:
    """Runs `work` and prints its outcome; whatever it raises, but for misuse, is ERROR."""
    from moorage.protocols.sweep import Outcome, Word

    from ..errors import ConfigurationError

    try:
        say(work())
    except ConfigurationError as error:
        raise click.UsageError(str(error)) from None
    except click.ClickException:
        raise
    except Exception as error:
        say(Outcome(Word.ERROR, reason=f"{type(error).__name__}: {error}"))


def _where(function: F, *, operator: bool) -> Callable[..., None]:
    @click.option("--state", metavar="PATH", help="The state file.")
    @click.option(
        "--remote", cls=OurOption, metavar="URL", help="State plane of a shared sweep, in place of --state."
    )
    @click.option(
        "--sweep",
        cls=OurOption,
        metavar="NAME",
        default="default",
        show_default=True,
        help="Name of the shared sweep.",
    )
    @click.option(
        "--token", cls=OurOption, type=int, metavar="N", help="Fencing token of a lease taken with --fenced."
    )
    @functools.wraps(function)
    def run(state: str | None, remote: str | None, sweep: str, token: int | None, **options: Any) -> None:
        if state == "":
            raise click.UsageError("--state is empty")
        if (state is None) == (remote is None):
            raise click.UsageError("give --state PATH, or --remote URL of a shared sweep")
        if remote is None:
            if token is not None:
                raise click.UsageError("--token belongs to --remote: a file has no fencing token")
            from .file import SweepFile

            tell(lambda: function(engine=SweepFile(str(state)), **options))
            return
        if options.get("now"):
            raise click.UsageError("--now belongs to --state: a shared sweep goes by the clock of its state plane")
        from .remote import SharedSweep

        def ask() -> Outcome:
            with SharedSweep.open(remote, sweep, token=token, operator=operator) as engine:
                return function(engine=engine, **options)

        tell(ask)

    return run


def where(function: F) -> Callable[..., None]:
    """Where the state is: `--state`, or `--remote` and `--sweep`. The command gets `engine`, returns an Outcome."""
    return _where(function, operator=False)


def where_as_operator(function: F) -> Callable[..., None]:
    """`where`, with calls to a state plane signed with the operator's secret."""
    return _where(function, operator=True)


def writer(function: F) -> F:
    """`--writer`, required."""
    return click.option("--writer", required=True, help="Unique id of the writer.")(function)


def now(function: F) -> F:
    """`--now`."""
    return click.option("--now", metavar="INSTANT", help="ISO 8601 instant in place of the clock.")(function)


@command.command("read")
@where
def read(engine: Engine) -> Outcome:
    """Print the whole document."""
    return engine.read()


@command.command("validate")
@where
def validate(engine: Engine) -> Outcome:
    """Downgrade closed items that lack evidence to fix_pending; print their keys."""
    return engine.validate()


@command.command("upsert-item")
@where
@click.option("--id", "item", required=True, help="The item's id at its source.")
@click.option("--source", required=True, help="The source's id.")
@click.option("--json", "text", required=True, metavar="OBJECT", help="Fields to set; others stay.")
@writer
@now
def upsert_item(engine: Engine, item: str, source: str, text: str, writer: str, now: str | None) -> Outcome:
    """Merge fields into one item. Needs the lease, and re-stamps it."""
    return engine.upsert_item(source, item, text, writer, now)


@command.command("cursor-get")
@where
@click.option("--source", required=True, help="The source's id.")
def cursor_get(engine: Engine, source: str) -> Outcome:
    """Print the cursor of a source."""
    return engine.cursor_get(source)


@command.command("cursor-advance")
@where
@click.option("--source", required=True, help="The source's id.")
@click.option("--to", required=True, metavar="CURSOR", help="The new cursor, not before the present one.")
@click.option("--past-item", required=True, metavar="ID", help="The last item behind it; it must be in the state.")
@writer
@now
def cursor_advance(engine: Engine, source: str, to: str, past_item: str, writer: str, now: str | None) -> Outcome:
    """Move a cursor forward, past an item that is recorded. Needs the lease, and re-stamps it."""
    return engine.cursor_advance(source, to, past_item, writer, now)


@command.command("lease-acquire")
@where
@writer
@click.option("--ttl-minutes", type=int, metavar="N", help="Minutes without a write after which others may take it.")
@now
@click.option("--fenced", cls=OurOption, is_flag=True, help="Print a fencing token that later calls must carry.")
@click.option(
    "--git",
    "branch",
    cls=OurOption,
    nargs=2,
    metavar="REMOTE BRANCH",
    help="The state lies on a branch that others push to: commit, push and fetch back before saying OK.",
)
def lease_acquire(
    engine: Engine,
    writer: str,
    ttl_minutes: int | None,
    now: str | None,
    fenced: bool,
    branch: tuple[str, str] | None,
) -> Outcome:
    """Take the lease, or learn who holds it. One's own is taken again; one that is over is reclaimed."""
    from .file import SweepFile

    if not isinstance(engine, SweepFile):
        if branch:
            raise click.UsageError("--git belongs to --state: a shared sweep needs no branch")
        return engine.lease_acquire(writer, ttl_minutes, fenced=fenced)
    if fenced:
        raise click.UsageError("--fenced belongs to --remote: a file has no fencing token")
    if branch:
        from .git import PushedBranch

        return PushedBranch(engine, *branch).lease_acquire(writer, ttl_minutes, now)
    return engine.lease_acquire(writer, ttl_minutes, now)


@command.command("lease-release")
@where
@writer
def lease_release(engine: Engine, writer: str) -> Outcome:
    """Give one's own lease back."""
    return engine.lease_release(writer)


@command.command("run-record")
@where
@writer
@click.option("--outcome", required=True, type=click.Choice(OUTCOMES), help="How the run ended.")
@click.option("--counts", required=True, metavar="OBJECT", help="Tallies of the run, as JSON.")
@click.option("--timestamp", required=True, metavar="INSTANT", help="When it ran; stored as given.")
def run_record(engine: Engine, writer: str, outcome: str, counts: str, timestamp: str) -> Outcome:
    """Record how a sweep ended. Needs no lease."""
    return engine.run_record(writer, outcome, counts, timestamp)


@command.command("import-legacy")
@where
@click.option("--file", "path", required=True, metavar="PATH", help="The older tracker's file, JSON or subset YAML.")
@click.option("--source-map", metavar="OBJECT", help="Source ids by legacy channel id, as JSON.")
def import_legacy(engine: Engine, path: str, source_map: str | None) -> Outcome:
    """Bring in cursors and items of an older tracker; nothing that is there is changed."""
    text: str | None
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        text = None
    return engine.import_legacy(text, source_map)


@command.command("export")
@where
@click.option(
    "--to", "path", required=True, type=click.Path(dir_okay=False), metavar="PATH", help="The file to write."
)
@click.option("--replace", cls=OurOption, is_flag=True, help="Write over a file that is there.")
def export(engine: SharedSweep, path: str, replace: bool) -> Outcome:
    """Write the shared sweep of --remote to a state file."""
    _shared_only(engine)
    return engine.export(Path(path), replace=replace)


@command.command("import")
@where_as_operator
@click.option("--from", "path", required=True, metavar="PATH", help="The state file to read.")
@click.option("--replace", cls=OurOption, is_flag=True, help="Replace a shared state that is there.")
def load(engine: SharedSweep, path: str, replace: bool) -> Outcome:
    """Make a state file the shared sweep of --remote. Signed with the operator's secret."""
    _shared_only(engine)
    return engine.load(Path(path), replace=replace)


def _shared_only(engine: SweepFile | SharedSweep) -> None:
    from .file import SweepFile

    if isinstance(engine, SweepFile):
        raise click.UsageError("give --remote URL: this moves a state between a file and a shared sweep")

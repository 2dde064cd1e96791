"""Options and plumbing that every verb of `moorage jobs` shares."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from .environment import Backend, Environment

F = TypeVar("F", bound=Callable[..., Any])

INTEGERS = frozenset(
    {"--ttl", "--priority", "--finding", "--interval", "--timeout", "--tokens-in", "--tokens-out", "--duration-ms"}
    | {"--limit", "--after"}
)


class VerbCommand(click.Command):
    """A verb. A negative number wants an equals sign (`--priority=-3`): alone it looks like an option."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Refuses an integer option whose value begins with a dash."""
        for option, value in itertools.pairwise(args):
            if option == "--":
                break
            if option in INTEGERS and value.startswith("-"):
                raise click.UsageError(f"{option} needs a value; a negative one is given as {option}={value}", ctx)
        return super().parse_args(ctx, args)


class JobsGroup(click.Group):
    """The verbs. A leading `jobs` is dropped, so that argument lists of other tools can be passed on whole."""

    command_class = VerbCommand

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The verb, with or without the leading word."""
        if args[:1] == ["jobs"]:
            args = args[1:]
            if not args:
                raise click.UsageError("a verb is missing", ctx)
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        """Runs the verb; a refusal is one line on standard error and its exit status (spec job-lifecycle 5)."""
        from moorage.protocols.jobs.errors import Refused

        from ..errors import ClientError

        environment = ctx.ensure_object(Environment)
        try:
            return super().invoke(ctx)
        except Refused as error:
            environment.err(f"moorage jobs: {error.message}")
            ctx.exit(int(error.exit))
        except ClientError as error:
            environment.err(f"moorage jobs: {error}")
            ctx.exit(2)
        except KeyboardInterrupt:
            # not 1, which says that the queue is empty
            ctx.exit(130)
        except click.exceptions.Exit:
            raise
        except Exception as error:
            if type(error).__module__ != "sqlite3":
                raise
            environment.err(f"moorage jobs: the queue's file cannot be used: {error}")
            ctx.exit(2)


def environment_of(ctx: click.Context) -> Environment:
    """The invocation's environment."""
    return ctx.ensure_object(Environment)


def _set(name: str) -> Callable[[click.Context, click.Parameter, Any], None]:
    def callback(ctx: click.Context, _: click.Parameter, value: Any) -> None:
        if value is not None:
            setattr(environment_of(ctx), name, value)

    return callback


def where(function: F) -> F:
    """`--dir`, `--remote` and `--queue`, which may stand before the verb or after it."""
    directory = click.Path(exists=True, file_okay=False, path_type=Path)
    for option in (
        click.option(
            "--queue", callback=_set("queue"), expose_value=False, help="Name of the shared queue [default]."
        ),
        click.option("--remote", callback=_set("remote"), expose_value=False, help="State plane of a shared queue."),
        click.option("--dir", type=directory, callback=_set("root"), expose_value=False, help="Project folder [.]."),
    ):
        function = option(function)
    return function


def verb(function: F) -> F:
    """The options of every verb: where the queue is, and `--json`."""
    return click.option("--json", "as_json", is_flag=True, help="Print JSON.")(where(function))


def show_json(environment: Environment, value: Any) -> None:
    """Prints a JSON document on one line."""
    environment.out(json.dumps(value, ensure_ascii=False))


class Opened:
    """`with Opened(ctx) as (environment, backend)`: the queue, closed at the end."""

    def __init__(self, ctx: click.Context) -> None:
        self._environment = environment_of(ctx)
        self._backend: Backend | None = None

    def __enter__(self) -> tuple[Environment, Backend]:
        self._backend = self._environment.open()
        return self._environment, self._backend

    def __exit__(self, *exc: object) -> None:
        if self._backend is not None:
            self._backend.close()


def confirm(environment: Environment, question: str, yes: bool) -> None:
    """Asks before something goes; without a terminal `--yes` must say so. Raises `Refused` or `click.Abort`."""
    from moorage.protocols.jobs.errors import Refused

    if yes:
        return
    if not environment.interactive():
        raise Refused("usage", f"{question} Give --yes: there is no terminal to ask")
    click.confirm(question, abort=True, err=True)


def table(rows: list[dict[str, Any]], columns: list[tuple[str, str]]) -> list[str]:
    """Rows as aligned lines under their headings."""
    cells = [[head for head, _ in columns]]
    cells += [["" if row.get(key) is None else str(row[key]) for _, key in columns] for row in rows]
    widths = [max(len(line[i]) for line in cells) for i in range(len(columns))]
    return ["  ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)).rstrip() for line in cells]


def instant(milliseconds: int | None) -> str:
    """A time for people, UTC."""
    from datetime import UTC, datetime

    return "" if milliseconds is None else f"{datetime.fromtimestamp(milliseconds / 1000, UTC):%Y-%m-%d %H:%M:%S}"

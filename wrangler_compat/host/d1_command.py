"""`moorage d1`: statements and migrations of a D1 database in a state folder."""

import asyncio
import json
import sqlite3
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import click


@click.group("d1")
def command() -> None:
    """Run statements and migrations on a D1 database.

    DATABASE is a binding, a name or an id of the configuration. The state folder must not be in use by a server.
    """


@command.group("migrations")
def migrations() -> None:
    """List and apply the SQL files of a database's migrations."""


def _options(function: Callable[..., Any]) -> Callable[..., Any]:
    options = [
        click.argument("database"),
        click.option(
            "--dir",
            "folder",
            type=click.Path(path_type=Path, exists=True, file_okay=False),
            default=Path("."),
            show_default=True,
            help="folder of the Worker",
        ),
        click.option(
            "--state",
            type=click.Path(path_type=Path, file_okay=False),
            metavar="FOLDER",
            help="state folder; .moorage/state of the Worker's folder if not given",
        ),
        click.option("--env", "environment", metavar="NAME", help="environment of the configuration"),
        click.option(
            "--config",
            "config_file",
            type=click.Path(path_type=Path, exists=True, dir_okay=False),
            metavar="FILE",
            help="configuration file; ends the search",
        ),
        click.option("--local", is_flag=True, expose_value=False, help="accepted, as everything here is local"),
        click.option("--json", "as_json", is_flag=True, help="one JSON document on standard output"),
    ]
    for option in reversed(options):
        function = option(function)
    return function


def _run(
    work: Callable[[Any, Any, Any], Coroutine[Any, Any, Any]],
    database: str,
    folder: Path,
    state: Path | None,
    environment: str | None,
    config_file: Path | None,
) -> Any:
    """Runs `work(database, configuration, declaration)` and returns its result; known errors are shown by click."""
    from ..config import ConfigError, load
    from ..workers.js.errors import JsException
    from .d1 import offline
    from .settings import HostSettings
    from .statelock import StateInUse

    async def main() -> Any:
        config = load(folder, config=config_file, environment=environment).require()
        declared = offline.declared(config, database)
        where = folder.resolve() / HostSettings().state if state is None else state
        async with offline.opened(where, declared) as opened:
            return await work(opened, config, declared)

    try:
        return asyncio.run(main())
    except JsException as error:
        raise click.ClickException(error.message) from None
    except (offline.D1CommandError, ConfigError, StateInUse, OSError, ValueError, sqlite3.Error) as error:
        raise click.ClickException(str(error)) from None


@command.command("execute")
@_options
@click.option("--command", "text", metavar="SQL", help="the statements")
@click.option(
    "--file", "file", type=click.Path(path_type=Path, exists=True, dir_okay=False), help="a file of statements"
)
def execute(text: str | None, file: Path | None, as_json: bool, **options: Any) -> None:
    """Run statements in one transaction: all of them or none."""
    from .d1 import offline

    if (text is None) == (file is None):
        raise click.UsageError("give one of --command and --file")
    statements = text if file is None else file.read_text(encoding="utf-8")

    async def work(database: Any, config: Any, declared: Any) -> Any:
        return await offline.execute(database, statements or "")

    results = _run(work, **options)
    if as_json:
        click.echo(json.dumps(results, ensure_ascii=False, indent=2))
        return
    for result in results:
        rows = result["results"]
        if rows:
            click.echo("\t".join(rows[0]))
        for row in rows:
            click.echo("\t".join("" if value is None else str(value) for value in row.values()))
    changes = sum(result["meta"]["changes"] for result in results)
    click.echo(f"{len(results)} statements, {changes} rows changed", err=True)


@migrations.command("list")
@_options
def list_pending(as_json: bool, **options: Any) -> None:
    """List the migrations that have not been applied."""
    from .d1 import offline

    async def work(database: Any, config: Any, declared: Any) -> list[str]:
        return await offline.Migrations.of(config, declared).pending(database)

    _say(_run(work, **options), as_json, "all migrations have been applied")


@migrations.command("apply")
@_options
def apply(as_json: bool, **options: Any) -> None:
    """Apply the migrations that have not been, in the order of their names, each all or nothing."""
    from .d1 import offline

    async def work(database: Any, config: Any, declared: Any) -> list[str]:
        found = offline.Migrations.of(config, declared)
        applied: list[str] = []
        for name in await found.pending(database):
            try:
                await found.apply(database, name)
            except Exception as error:
                before = f"; applied before it: {', '.join(applied)}" if applied else ""
                raise offline.D1CommandError(f"{name}: {getattr(error, 'message', error)}{before}") from error
            applied.append(name)
        return applied

    _say(_run(work, **options), as_json, "there was nothing to apply")


def _say(names: list[str], as_json: bool, none: str) -> None:
    if as_json:
        click.echo(json.dumps(names, ensure_ascii=False))
        return
    for name in names:
        click.echo(name)
    if not names:
        click.echo(none, err=True)

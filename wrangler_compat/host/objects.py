"""`moorage objects`: list, show, export and restore what Durable Objects have stored."""

import datetime
import json
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from . import inspection
from .statelock import StateInUse


@click.group("objects")
def command() -> None:
    """List, show, export and restore the storage of Durable Objects in a state folder.

    Reading works beside a running server; restoring needs the folder for itself.
    """


def _state(function: Callable[..., Any]) -> Callable[..., Any]:
    return click.option(
        "--state",
        type=click.Path(path_type=Path, exists=True, file_okay=False),
        default=Path(".moorage/state"),
        show_default=True,
        metavar="FOLDER",
        help="state folder of the server",
    )(function)


def _json(function: Callable[..., Any]) -> Callable[..., Any]:
    return click.option("--json", "as_json", is_flag=True, help="one JSON document on standard output")(function)


def _time(milliseconds: int | None) -> str:
    if milliseconds is None:
        return "-"
    return datetime.datetime.fromtimestamp(milliseconds / 1000, datetime.UTC).isoformat(timespec="milliseconds")


def _refused(error: Exception) -> click.ClickException:
    return click.ClickException(str(error))


@command.command("list")
@click.argument("namespace", required=False)
@_state
@_json
def list_command(namespace: str | None, state: Path, as_json: bool) -> None:
    """List objects, of NAMESPACE (`<worker>-<Class>`) or of all."""
    try:
        found = list(inspection.listed(state, namespace))
    except (inspection.InspectionError, sqlite3.Error) as error:
        raise _refused(error) from None
    if as_json:
        rows = [
            {"namespace": o.namespace, "id": o.id, "name": o.name, "bytes": o.bytes, "alarm": o.alarm} for o in found
        ]
        click.echo(json.dumps(rows, indent=2, ensure_ascii=False))
        return
    for item in found:
        click.echo(f"{item.namespace}  {item.id}  {item.bytes:>10}  {_time(item.alarm)}  {item.name or ''}".rstrip())
    click.echo(f"{len(found)} objects", err=True)


@command.command("show")
@click.argument("namespace")
@click.argument("object_", metavar="ID_OR_NAME")
@_state
@_json
def show_command(namespace: str, object_: str, state: Path, as_json: bool) -> None:
    """Show the keys, tables and alarm of one object."""
    try:
        found = inspection.contents(inspection.locate(state, namespace, object_))
    except (inspection.InspectionError, sqlite3.Error, ValueError) as error:
        raise _refused(error) from None
    if as_json:
        document = {"alarm": found.alarm, "keys": found.keys, "tables": found.tables}
        click.echo(json.dumps(document, indent=2, ensure_ascii=False, default=repr))
        return
    click.echo(f"alarm  {_time(found.alarm)}")
    for key, value in found.keys.items():
        click.echo(f"key    {key} = {value!r}")
    for name, rows in found.tables.items():
        click.echo(f"table  {name}: {rows} rows")


@command.command("export")
@click.argument("namespace")
@click.argument("object_", metavar="ID_OR_NAME")
@click.option(
    "-o", "--output", type=click.Path(path_type=Path), required=True, metavar="FILE", help="new SQLite file"
)
@_state
def export_command(namespace: str, object_: str, output: Path, state: Path) -> None:
    """Copy a consistent snapshot of one object into a new SQLite file."""
    try:
        size = inspection.export(inspection.locate(state, namespace, object_), output)
    except (inspection.InspectionError, sqlite3.Error, OSError) as error:
        raise _refused(error) from None
    click.echo(f"{output}: {size} bytes")


@command.command("restore")
@click.argument("namespace")
@click.argument("object_", metavar="ID_OR_NAME")
@click.argument("source", type=click.Path(path_type=Path, exists=True, dir_okay=False), metavar="FILE")
@_state
def restore_command(namespace: str, object_: str, source: Path, state: Path) -> None:
    """Replace the storage of one object by an exported FILE. The server must be stopped."""
    try:
        target = inspection.restore(state, namespace, object_, source)
    except (inspection.InspectionError, StateInUse, sqlite3.Error, OSError) as error:
        raise _refused(error) from None
    click.echo(f"restored {target}")

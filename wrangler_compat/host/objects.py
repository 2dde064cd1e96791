"""`moorage objects`: list, show, export and restore what Durable Objects have stored."""

import datetime
import json
import os
import sqlite3
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import quote

import click

from . import inspection
from .statelock import StateInUse


class _Source(Protocol):
    """Where objects are read from."""

    def listed(self, namespace: str | None) -> Iterable[inspection.StoredObject]: ...

    def contents(self, namespace: str, which: str) -> inspection.Contents: ...

    def export(self, namespace: str, which: str, target: Path) -> int: ...


class _Folder:
    """A state folder on this machine, served or not."""

    def __init__(self, state: Path) -> None:
        self._state = state

    def listed(self, namespace: str | None) -> Iterable[inspection.StoredObject]:
        return inspection.listed(self._state, namespace)

    def contents(self, namespace: str, which: str) -> inspection.Contents:
        return inspection.contents(inspection.locate(self._state, namespace, which))

    def export(self, namespace: str, which: str, target: Path) -> int:
        return inspection.export(inspection.locate(self._state, namespace, which), target)


class _Server:
    """The admin port of a running server."""

    def __init__(self, url: str) -> None:
        self._url = url.rstrip("/")

    def _get(self, path: str) -> Any:
        import httpx

        try:
            answer = httpx.get(f"{self._url}/objects{path}", timeout=60)
        except httpx.TransportError as error:
            raise inspection.InspectionError(f"{self._url} does not answer: {error}") from None
        if answer.status_code != 200:
            raise inspection.InspectionError(answer.text.strip())
        return answer

    def listed(self, namespace: str | None) -> Iterable[inspection.StoredObject]:
        found = self._get(f"/{quote(namespace, safe='')}" if namespace else "").json()
        return [inspection.StoredObject(**item) for item in found]

    def contents(self, namespace: str, which: str) -> inspection.Contents:
        return inspection.Contents(**self._get(f"/{quote(namespace, safe='')}/{quote(which, safe='')}").json())

    def export(self, namespace: str, which: str, target: Path) -> int:
        data = self._get(f"/{quote(namespace, safe='')}/{quote(which, safe='')}.sqlite").content
        return inspection.write_new(target, data)


@click.group("objects")
def command() -> None:
    """List, show, export and restore the storage of Durable Objects.

    Reads a state folder, also beside a running server, or asks a server's admin port. Restoring needs the folder for
    itself.
    """


def _reads(function: Callable[..., Any]) -> Callable[..., Any]:
    state = click.option(
        "--state",
        type=click.Path(path_type=Path, file_okay=False),
        default=Path(".moorage/state"),
        show_default=True,
        metavar="FOLDER",
        help="state folder of the server",
    )
    admin = click.option("--admin", metavar="URL", help="admin port of a running server, instead of a folder")
    return state(admin(function))


def _source(state: Path, admin: str | None) -> _Source:
    if admin:
        return _Server(admin)
    if not state.is_dir():
        raise click.ClickException(
            f"there is no state folder {state}; name it with --state, or a server with --admin"
        )
    return _Folder(state)


def _json(function: Callable[..., Any]) -> Callable[..., Any]:
    return click.option("--json", "as_json", is_flag=True, help="one JSON document on standard output")(function)


def _time(milliseconds: int | None) -> str:
    if milliseconds is None:
        return "-"
    return datetime.datetime.fromtimestamp(milliseconds / 1000, datetime.UTC).isoformat(timespec="milliseconds")


_FAILURES = (inspection.InspectionError, StateInUse, sqlite3.Error, OSError, ValueError)


@command.command("list")
@click.argument("namespace", required=False)
@_reads
@_json
def list_command(namespace: str | None, state: Path, admin: str | None, as_json: bool) -> None:
    """List objects, of NAMESPACE (`<worker>-<Class>`) or of all."""
    try:
        found = list(_source(state, admin).listed(namespace))
    except _FAILURES as error:
        raise click.ClickException(str(error)) from None
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
@_reads
@_json
def show_command(namespace: str, object_: str, state: Path, admin: str | None, as_json: bool) -> None:
    """Show the keys, tables and alarm of one object."""
    try:
        found = _source(state, admin).contents(namespace, object_)
    except _FAILURES as error:
        raise click.ClickException(str(error)) from None
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
@_reads
def export_command(namespace: str, object_: str, output: Path, state: Path, admin: str | None) -> None:
    """Copy a consistent snapshot of one object into a new SQLite file."""
    try:
        size = _source(state, admin).export(namespace, object_, output)
    except _FAILURES as error:
        raise click.ClickException(str(error)) from None
    click.echo(f"{output}: {size} bytes")


@command.command("restore")
@click.argument("namespace")
@click.argument("object_", metavar="ID_OR_NAME")
@click.argument("source", type=click.Path(path_type=Path, exists=True, dir_okay=False), metavar="FILE")
@click.option(
    "--state",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    default=Path(".moorage/state"),
    show_default=True,
    metavar="FOLDER",
    help="state folder, not served meanwhile",
)
def restore_command(namespace: str, object_: str, source: Path, state: Path) -> None:
    """Replace the storage of one object by an exported FILE. The server must be stopped."""
    try:
        target = inspection.restore(state, namespace, object_, source)
    except _FAILURES as error:
        raise click.ClickException(str(error)) from None
    click.echo(f"restored {os.fspath(target)}")

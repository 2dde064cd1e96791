"""Read and move cursors of the state plane."""

from collections.abc import Callable
from typing import TYPE_CHECKING

import click

from .connection import connection_options, show

if TYPE_CHECKING:
    from moorage.protocols.cursors import Cursor

    from .http import Http


@click.group("cursor")
def command() -> None:
    """Read and move cursors: positions with a revision, moved by compare-and-set."""


def _text(cursor: "Cursor") -> str:
    when = f", moved {cursor.updated_at}" if cursor.updated_at else ", never moved"
    return f"{cursor.mode}: {cursor.next_cursor} (revision {cursor.revision}{when})"


def _fail_open(error: Exception) -> None:
    click.echo(f"WARNING: the cursor is not used, going on: {error}", err=True)


@command.command("get")
@click.argument("mode")
@click.option("--fail-open", is_flag=True, help="On any failure print nothing but a warning, and succeed.")
@connection_options
def get(mode: str, fail_open: bool, as_json: bool, http_of: "Callable[..., Http]") -> None:
    """Print the cursor MODE: hot-intake, normal-review, audit, review-placeholder-<16 hex>-open or -closed."""
    from .cursors import Cursors
    from .errors import ClientError

    try:
        with http_of() as http:
            cursor = Cursors(http).read(mode)
    except ClientError as error:
        if not fail_open:
            raise
        _fail_open(error)
        return
    show(cursor.answer(), as_json, _text(cursor))


@command.command("set")
@click.argument("mode")
@click.argument("position", type=click.IntRange(0))
@click.option(
    "--expected-revision",
    type=click.IntRange(0),
    help="Move it only if it has this revision. Default: the revision that it has now.",
)
@click.option(
    "--fail-open", is_flag=True, help="On any failure, a lost compare included, print a warning and succeed."
)
@connection_options
def set_position(
    mode: str,
    position: int,
    expected_revision: int | None,
    fail_open: bool,
    as_json: bool,
    http_of: "Callable[..., Http]",
) -> None:
    """Move the cursor MODE to POSITION."""
    from .cursors import Cursors
    from .errors import ClientError

    try:
        with http_of() as http:
            cursors = Cursors(http)
            if expected_revision is None:
                expected_revision = cursors.read(mode).revision
            cursor = cursors.write(mode, position, expected_revision)
    except ClientError as error:
        if not fail_open:
            raise
        _fail_open(error)
        return
    show(cursor.answer(), as_json, _text(cursor))

"""`moorage queue`: what an operator does with the review queue."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from .connection import connection_options, show

if TYPE_CHECKING:
    from .http import Http

F = TypeVar("F", bound=Callable[..., Any])

ids_argument = click.argument("ids", nargs=-1, required=True)
key_option = click.option(
    "--key", help="Idempotency key: the same call again does nothing. Default: a new one, which is printed."
)
note_option = click.option("--note", required=True, help="Why; at most 500 characters, kept for 30 days.")


@click.group("queue")
def command() -> None:
    """Look after the review queue: dead letters, parked items, receipts of what it wrote outside."""


@command.group("dead-letters")
def dead_letters() -> None:
    """Publications that failed for good."""


@command.group("parked")
def parked() -> None:
    """Items that wait for an operator, or for their next recovery."""


def _rows(rows: Any, as_json: bool, text: Callable[[dict[str, Any]], str]) -> None:
    for row in rows:
        click.echo(json.dumps(row, ensure_ascii=False) if as_json else text(row))


def _counts(counts: dict[str, int], as_json: bool, key: str | None = None) -> None:
    text = ", ".join(f"{value} {name}" for name, value in counts.items()) or "nothing to do"
    show(
        counts if key is None else {**counts, "idempotency_key": key}, as_json, f"{text} (key {key})" if key else text
    )


def _letter(row: dict[str, Any]) -> str:
    return "  ".join(
        str(row.get(name)) for name in ("dead_letter_id", "status", "reason_code", "attempts", "target_repo")
    )


def _item(row: dict[str, Any]) -> str:
    until = "by itself" if row.get("parked_until") is not None else "waits for an operator"
    return f"{row.get('item_key')}  revision {row.get('revision')}  {row.get('parked_reason')}  {until}"


@dead_letters.command("list")
@click.option(
    "--status", type=click.Choice(["open", "replayed", "resolved", "all"]), default="open", show_default=True
)
@connection_options
def list_letters(status: str, as_json: bool, http_of: Callable[..., Http]) -> None:
    """Print the letters by id; --json prints each whole, one a line."""
    from .review_queue import DeadLetters

    with http_of(operator=True) as http:
        _rows(DeadLetters(http).list(status), as_json, _letter)


@dead_letters.command("replay")
@ids_argument
@key_option
@connection_options
def replay(ids: tuple[str, ...], key: str | None, as_json: bool, http_of: Callable[..., Http]) -> None:
    """Put the publications IDS back as they were. Takes the webhook secret."""
    from .review_queue import DeadLetters

    key = key or uuid.uuid4().hex
    with http_of() as http:
        _counts(DeadLetters(http).replay(ids, key), as_json, key)


@dead_letters.command("recover")
@ids_argument
@key_option
@connection_options
def recover_letters(ids: tuple[str, ...], key: str | None, as_json: bool, http_of: Callable[..., Http]) -> None:
    """Make fresh reviews in place of the publications IDS."""
    from .review_queue import DeadLetters

    key = key or uuid.uuid4().hex
    with http_of(operator=True) as http:
        _counts(DeadLetters(http).recover(ids, key), as_json, key)


@dead_letters.command("resolve")
@ids_argument
@note_option
@connection_options
def resolve_letters(ids: tuple[str, ...], note: str, as_json: bool, http_of: Callable[..., Http]) -> None:
    """Close the letters IDS with a note."""
    from .review_queue import DeadLetters

    with http_of(operator=True) as http:
        _counts(DeadLetters(http).resolve(ids, note), as_json)


@parked.command("list")
@click.option("--lane", type=click.Choice(["review", "publication"]), default="review", show_default=True)
@connection_options
def list_parked(lane: str, as_json: bool, http_of: Callable[..., Http]) -> None:
    """Print parked items, oldest first; --json prints each whole, one a line."""
    from .review_queue import Parked

    with http_of(operator=True) as http:
        _rows(Parked(http).list(lane), as_json, _item)


@parked.command("recover")
@ids_argument
@key_option
@connection_options
def recover_parked(ids: tuple[str, ...], key: str | None, as_json: bool, http_of: Callable[..., Http]) -> None:
    """Let the items IDS (their keys) be handed out again, with fresh attempts."""
    from .review_queue import Parked

    key = key or uuid.uuid4().hex
    with http_of(operator=True) as http:
        _counts(Parked(http).recover(ids, key), as_json, key)


@parked.command("resolve")
@ids_argument
@note_option
@connection_options
def resolve_parked(ids: tuple[str, ...], note: str, as_json: bool, http_of: Callable[..., Http]) -> None:
    """Take the items IDS (their keys) out of the queue, with a note."""
    from .review_queue import Parked

    with http_of(operator=True) as http:
        _counts(Parked(http).resolve(ids, note), as_json)


@command.command("mutations")
@click.argument("root", required=False)
@click.option("--before", help="Only days before this one, YYYY-MM-DD. Default: the service's today.")
@connection_options
def mutations(root: str | None, before: str | None, as_json: bool, http_of: Callable[..., Http]) -> None:
    """Take the receipts of writes to the code host over into the ledger spool below ROOT.

    Whole days only, then `moorage ledger finalize --root ROOT` makes shards of them. Without ROOT every receipt there
    is, today's too, is printed as it is stored, one JSON object a line.
    """
    from .review_queue import Mutations

    with http_of() as http:
        found = Mutations(http)
        if root is None:
            for page in found.pages(before):
                for row in page["events"]:
                    click.echo(row["line"])
            return
        import os

        from moorage.protocols.ledger.refusals import LedgerRefusal

        from .ledger.recorder import Recorder
        from .ledger.taking import take

        try:
            taken = sum(1 for _ in take(found, Recorder(os.path.realpath(root)), before))
        except LedgerRefusal as refusal:
            raise click.ClickException(str(refusal)) from None
    show({"taken": taken}, as_json, f"{taken} receipts are in {root}")

"""`moorage git`: the paths that are left to Git."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ..connection import connection_options, show

if TYPE_CHECKING:
    from ..http import Http


@click.group("git")
def command() -> None:
    """Publish the paths that are left to Git, under the state-writer lease."""


@command.command("publish")
@click.argument("paths", nargs=-1)
@click.option("--remote", required=True, help="Address or folder of the repository.")
@click.option("--branch", default="state", show_default=True, help="Branch that is published to.")
@click.option(
    "--source",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    default=Path(),
    help="Folder that PATHS are below. Default: the current one.",
)
@click.option("--remove", multiple=True, help="A path to be removed; may be repeated.")
@click.option("--message", "-m", required=True, help="Message of the commit.")
@click.option("--author", default="moorage", show_default=True, help="Name of author and committer.")
@click.option("--email", default="moorage@localhost", show_default=True, help="Their address.")
@click.option("--create", is_flag=True, help="Start the branch when there is none.")
@click.option("--wait", type=click.FloatRange(0), default=1800.0, show_default=True, help="Seconds for the lease.")
@connection_options
def publish_command(
    paths: tuple[str, ...],
    remote: str,
    branch: str,
    source: Path,
    remove: tuple[str, ...],
    message: str,
    author: str,
    email: str,
    create: bool,
    wait: float,
    as_json: bool,
    http_of: "Callable[..., Http]",
) -> None:
    """Publish PATHS (jobs/, results/, notifications/, the two reports) in one commit.

    One fetch, one commit, one push. jobs/ and results/ are mandatory: a failure ends with status 1. The others are
    best-effort: a failure is a warning.
    """
    from ..state_writer import StateWriter, Writer
    from .publish import Publication, publish, read_files

    files = read_files(source, list(paths), list(remove))
    publication = Publication(remote, files, message, branch, author, email, create)
    writer = Writer(
        branch=branch,
        repository=os.environ.get("GITHUB_REPOSITORY") or remote.rstrip("/").rpartition("/")[2] or "local",
        workflow=os.environ.get("GITHUB_WORKFLOW") or "moorage",
        job=os.environ.get("GITHUB_JOB") or "git publish",
        run_id=os.environ.get("GITHUB_RUN_ID") or "0",
        run_attempt=int(os.environ.get("GITHUB_RUN_ATTEMPT") or 1),
    )
    with http_of() as http:
        done = publish(publication, lambda: StateWriter(http).lease(writer, timeout=wait))
    if done.error is not None:
        click.echo(f"WARNING: not published, going on: {done.error}", err=True)
    text = f"published {len(files)} files as {done.commit}" if done.commit else "nothing to publish"
    shown = {"commit": done.commit, "files": len(files), "error": done.error}
    show(shown, as_json, "not published" if done.error else text)

"""`moorage git`: the paths that are left to Git."""

import json
import os
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from ..connection import connection_options, show
from ..errors import ConfigurationError

if TYPE_CHECKING:
    from ..http import Http
    from ..state_writer import Writer
    from .dispatch import Dispatch

F = TypeVar("F", bound=Callable[..., Any])

_OPTIONS = (
    click.option("--remote", required=True, help="Address or folder of the repository."),
    click.option("--branch", default="state", show_default=True, help="Branch that is published to."),
    click.option(
        "--source",
        type=click.Path(exists=True, file_okay=False, path_type=Path),
        default=Path(),
        help="Folder that PATHS are below. Default: the current one.",
    ),
    click.option("--author", default="moorage", show_default=True, help="Name of author and committer."),
    click.option("--email", default="moorage@localhost", show_default=True, help="Their address."),
    click.option("--create", is_flag=True, help="Start the branch when there is none."),
    click.option(
        "--wait", type=click.FloatRange(0), default=1800.0, show_default=True, help="Seconds for the lease."
    ),
)


def _git_options(function: F) -> F:
    for option in reversed(_OPTIONS):
        function = option(function)
    return connection_options(function)


@click.group("git")
def command() -> None:
    """Publish the paths that are left to Git, under the state-writer lease."""


@command.command("publish")
@click.argument("paths", nargs=-1)
@click.option("--remove", multiple=True, help="A path to be removed; may be repeated.")
@click.option("--message", "-m", required=True, help="Message of the commit.")
@_git_options
def publish_command(
    paths: tuple[str, ...],
    remove: tuple[str, ...],
    message: str,
    remote: str,
    branch: str,
    source: Path,
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
    from ..state_writer import StateWriter
    from .publish import Publication, publish, read_files

    files = read_files(source, list(paths), list(remove))
    publication = Publication(remote, files, message, branch, author, email, create)
    with http_of() as http:
        done = publish(
            publication, lambda: StateWriter(http).lease(_writer(remote, branch, "git publish"), timeout=wait)
        )
    if done.error is not None:
        click.echo(f"WARNING: not published, going on: {done.error}", err=True)
    text = f"published {len(files)} files as {done.commit}" if done.commit else "nothing to publish"
    shown = {"commit": done.commit, "files": len(files), "error": done.error}
    show(shown, as_json, "not published" if done.error else text)


@command.command("intake")
@click.argument("paths", nargs=-1)
@click.option("--id", "claim_id", help="Id of the work. Without it, pending claims are recovered and that is all.")
@click.option("--event", default="moorage_intake", show_default=True, help="Event that is dispatched.")
@click.option("--payload", default="{}", help="JSON object for the event, or @FILE.")
@click.option("--run", "program", help="Dispatch to this program: the claim as JSON on its standard input.")
@click.option("--github", "repository", help="Dispatch to this repository (owner/name), with GITHUB_TOKEN.")
@_git_options
def intake_command(
    paths: tuple[str, ...],
    claim_id: str | None,
    event: str,
    payload: str,
    program: str | None,
    repository: str | None,
    remote: str,
    branch: str,
    source: Path,
    author: str,
    email: str,
    create: bool,
    wait: float,
    as_json: bool,
    http_of: "Callable[..., Http]",
) -> None:
    """Accept work: its PATHS (jobs/, results/) and a claim are pushed first, then it is dispatched.

    Claims that an earlier run left pending are dispatched before. A dispatch of which nobody knows whether it
    happened is repeated under the same id; the receiver should do the work of an id once.
    """
    from moorage.protocols.state_writer import WriterClass

    from ..state_writer import StateWriter
    from .intake import Intake, intake
    from .publish import read_files
    from .receipts import recorded
    from .repository import File

    if claim_id is None and paths:
        raise ConfigurationError("PATHS belong to work: give its --id")
    dispatch = recorded(_dispatch(program, repository), repository, os.environ)
    files = {path: file for path, file in read_files(source, list(paths), []).items() if isinstance(file, File)}
    more: dict[str, Any] = {"branch": branch, "author": author, "email": email, "create": create}
    if claim_id is None:
        work = Intake(remote, **more)
    else:
        work = Intake.of(remote, claim_id, event, _payload(payload), files, **more)
    writer = _writer(remote, branch, "git intake", writer_class=WriterClass.INTAKE)
    with http_of() as http:
        taken = intake(work, lambda: StateWriter(http).lease(writer, timeout=wait), dispatch)
    shown = {"id": claim_id, "dispatched": taken.dispatched, "recovered": list(taken.recovered)}
    text = [f"recovered {earlier}" for earlier in taken.recovered]
    if claim_id is not None:
        text.append(f"dispatched {claim_id}" if taken.dispatched else f"{claim_id} was dispatched before")
    show(shown, as_json, "\n".join(text) or "nothing pending")


def _dispatch(program: str | None, repository: str | None) -> "Dispatch":
    from .dispatch import GITHUB_API, CommandDispatch, GithubDispatch

    if (program is None) == (repository is None):
        raise ConfigurationError("give either --run or --github, where work is dispatched to")
    if repository is not None:
        token = os.environ.get("GITHUB_TOKEN", "").strip()
        if not token:
            raise ConfigurationError("no token: set GITHUB_TOKEN")
        if repository.count("/") != 1 or not all(repository.split("/")):
            raise ConfigurationError(f"--github must be owner/name, not {repository!r}")
        return GithubDispatch(repository, token, os.environ.get("GITHUB_API_URL") or GITHUB_API)
    arguments = shlex.split(program or "")
    if not arguments:
        raise ConfigurationError("--run must name a program")
    return CommandDispatch(arguments)


def _payload(text: str) -> dict[str, Any]:
    try:
        given = Path(text[1:]).read_bytes() if text.startswith("@") else text
        value = json.loads(given, parse_constant=_no_constant)
    except OSError as error:
        raise ConfigurationError(f"--payload: {text[1:]} cannot be read: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise ConfigurationError(f"--payload must be JSON: {error}") from None
    if not isinstance(value, dict):
        raise ConfigurationError("--payload must be a JSON object")
    return value


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON")


def _writer(remote: str, branch: str, job: str, **more: Any) -> "Writer":
    from ..state_writer import Writer

    environ = os.environ
    attempt = environ.get("GITHUB_RUN_ATTEMPT") or "1"
    if not (attempt.isascii() and attempt.isdigit() and len(attempt) < 10):
        raise ConfigurationError(f"GITHUB_RUN_ATTEMPT must be a number, not {attempt!r}")
    return Writer(
        branch=branch,
        repository=environ.get("GITHUB_REPOSITORY") or remote.rstrip("/").rpartition("/")[2] or "local",
        workflow=environ.get("GITHUB_WORKFLOW") or "moorage",
        job=environ.get("GITHUB_JOB") or job,
        run_id=environ.get("GITHUB_RUN_ID") or "0",
        run_attempt=int(attempt),
        **more,
    )

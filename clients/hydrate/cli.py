"""`moorage hydrate`: the state plane's tree in a folder."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..connection import connection_options, show
from ..records_cli import NUMBER, SLUG

if TYPE_CHECKING:
    from ..http import Http
    from . import Report

SHOWN_DIFFERENCES = 50


@click.command("hydrate")
@click.argument("target", type=click.Path(file_okay=False, path_type=Path))
@click.option(
    "--repo", "repos", multiple=True, type=SLUG, help="Only this repository: owner/name or its slug. Repeatable."
)
@click.option(
    "--item",
    "items",
    multiple=True,
    type=NUMBER,
    help="Only this item of the one --repo: four focused reads, no snapshot, no journal. Repeatable.",
)
@click.option("--records/--no-records", default=True, help="The canonical records. Default: yes.")
@click.option("--ledger/--no-ledger", default=None, help="ledger/v1. Default: yes, but not with --item.")
@click.option("--assets/--no-assets", default=None, help="assets. Default: yes, but not with --item.")
@click.option("--check", "checking", is_flag=True, help="Compare TARGET with the service, write nothing.")
@click.option("--fresh", is_flag=True, help="Do not go on from an interrupted run.")
@click.option("--allow-empty", is_flag=True, help="Accept a service that has nothing of it.")
@click.option(
    "--git-state",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Also the paths that Git retains, from this local clone. Without it no git is run and no token read.",
)
@click.option("--git-ref", default="state", show_default=True, help="Branch or commit of --git-state.")
@click.option("--progress/--no-progress", default=True, help="Show bars when a terminal is attached.")
@connection_options
def command(
    target: Path,
    repos: tuple[str, ...],
    items: tuple[int, ...],
    records: bool,
    ledger: bool | None,
    assets: bool | None,
    checking: bool,
    fresh: bool,
    allow_empty: bool,
    git_state: Path | None,
    git_ref: str,
    progress: bool,
    as_json: bool,
    http_of: "Callable[..., Http]",
) -> None:
    """Rebuild records, ledger and assets in TARGET, in one step and resumable.

    TARGET is replaced whole; it must be missing, empty, or made by an earlier run.
    """
    from . import Wanted, check, hydrate
    from .progress import progress_of

    chosen = {"ledger": ledger, "assets": assets}
    trees = tuple(name for name, given in chosen.items() if (not items if given is None else given))
    wanted = Wanted(
        records=records,
        repositories=tuple(dict.fromkeys(repos)),
        items=tuple(dict.fromkeys(items)),
        trees=trees,
        git_state=git_state,
        git_ref=git_ref,
        allow_empty=allow_empty,
    )
    shown = progress_of(progress and not as_json)
    with http_of() as http:
        if checking:
            if git_state is not None:
                raise click.UsageError("--check compares with the service; --git-state is no part of it")
            found = http.loop.run(check(http.asynchronous, target, wanted, progress=shown))
            _show_differences(found, as_json)
            return
        report = http.loop.run(hydrate(http.asynchronous, target, wanted, progress=shown, fresh=fresh))
    show(report.as_json(), as_json, _text(target, report))


def _show_differences(found: list[Any], as_json: bool) -> None:
    listed = [{"path": difference.path, "kind": difference.kind} for difference in found]
    lines = [f"{difference.kind:>9}  {difference.path}" for difference in found[:SHOWN_DIFFERENCES]]
    if len(found) > SHOWN_DIFFERENCES:
        lines.append(f"… and {len(found) - SHOWN_DIFFERENCES} more (--json lists all)")
    text = "\n".join(lines) if found else "everything is as the service has it"
    show({"ok": not found, "differences": listed}, as_json, text)
    if found:
        raise SystemExit(1)


def _text(target: Path, report: "Report") -> str:
    parts = [f"{slug} at revision {revision}" for slug, revision in report.repositories.items()]
    parts += [f"{count} blobs of {name}" for name, count in report.blobs.items()]
    if report.git_files is not None:
        parts.append(f"{report.git_files} files of Git")
    if report.missing_items:
        parts.append(f"no record of items {', '.join(map(str, report.missing_items))}")
    resumed = " (went on from an interrupted run)" if report.resumed else ""
    return f"{target}{resumed}: " + ("; ".join(parts) or "done")

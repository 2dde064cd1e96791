"""Rebuilds the state plane's tree in a folder: `records/`, `ledger/v1/`, `assets/`.

From snapshots and journals, or only the items named; into a folder beside the target, which then takes its place in
one step. `check` compares without writing. Imports of what is heavy are inside: the command line starts fast.
"""

from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import ClientError, ConfigurationError

if TYPE_CHECKING:
    from ..http import AsyncHttp
    from .progress import Progress

MARKER_FORMAT = 1
RETAINED = ("jobs", "results", "notifications", "apply-report.json", "repair-apply-report.json")
"""What the state branch of Git still owns (seed "State storage", the table of owners)."""


class NothingThere(ClientError):
    """The service has nothing of what was asked for: most likely it is another service than meant."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What to hydrate.

    `repositories`: slugs, empty for all. `items`: numbers for focused reads, which need exactly one repository, and
    leave snapshots and journals alone. `trees`: `ledger`, `assets` or both. `git_state`: a local clone, or None.
    """

    records: bool = True
    repositories: tuple[str, ...] = ()
    items: tuple[int, ...] = ()
    trees: tuple[str, ...] = ("ledger", "assets")
    git_state: Path | None = None
    git_ref: str = "state"
    allow_empty: bool = False

    def __post_init__(self) -> None:
        if self.items and (len(self.repositories) != 1 or not self.records):
            raise ConfigurationError("items are read from exactly one repository: name it")
        if not self.records and not self.trees and self.git_state is None:
            raise ConfigurationError("nothing is left to hydrate")

    def purpose(self, url: str) -> dict[str, Any]:
        """What tells this run from others, so that it does not go on from a different one."""
        return {
            "url": url,
            "records": self.records,
            "repositories": sorted(self.repositories),
            "items": sorted(self.items),
            "trees": sorted(self.trees),
            "git": None if self.git_state is None else [str(self.git_state.resolve()), self.git_ref],
        }


@dataclass(slots=True)
class Report:
    """What was hydrated: store revision by repository, blobs by tree, files of Git, items that do not exist."""

    resumed: bool = False
    repositories: dict[str, int] = field(default_factory=dict)
    blobs: dict[str, int] = field(default_factory=dict)
    git_files: int | None = None
    missing_items: list[int] = field(default_factory=list)

    def as_json(self) -> dict[str, Any]:
        """The report as the command line prints it with `--json`."""
        return {
            "ok": True,
            "resumed": self.resumed,
            "repositories": self.repositories,
            "blobs": self.blobs,
            "gitFiles": self.git_files,
            "missingItems": self.missing_items,
        }


@dataclass(frozen=True, slots=True, order=True)
class Difference:
    """A path that is not as the service has it: `missing`, `different` or `extra` here."""

    path: str
    kind: str


async def hydrate(
    http: "AsyncHttp", target: Path, wanted: Wanted, *, progress: "Progress | None" = None, fresh: bool = False
) -> Report:
    """Makes `target` hold what is wanted, all or nothing. `fresh` forgets what an interrupted run left.

    Raises ClientError and its kinds, OSError; the target is then as before, and the next run goes on from here.
    """
    from ..blobs import AsyncBlobs
    from ..records import AsyncRecords
    from ..snapshots import AsyncSnapshots
    from .blob_trees import TREES, BlobTrees
    from .progress import Silent
    from .repositories import Repositories
    from .staging import Staging

    shown = progress or Silent()
    staging = Staging(target, wanted.purpose(http.url), fresh=fresh)
    report = Report()
    with staging.opened() as report.resumed:
        if wanted.records:
            records = AsyncRecords(http)
            repositories = Repositories(records, AsyncSnapshots(http), staging, shown)
            if wanted.items:
                report.missing_items = await repositories.items(wanted.repositories[0], wanted.items)
            else:
                slugs = await _slugs(records, wanted)
                repositories.keep(slugs)
                for slug in slugs:
                    report.repositories[slug] = await repositories.hydrate(slug)
        for name in wanted.trees:
            trees = BlobTrees(AsyncBlobs(http), staging.tree, staging.target, shown, folding=staging.folds_case)
            report.blobs[name] = await trees.hydrate(TREES[name])
        if len(report.blobs) > 1 and not any(report.blobs.values()) and not wanted.allow_empty:
            raise NothingThere("both blob trees are empty: is this the right service? (--allow-empty)")
        if wanted.git_state is not None:
            from .git_state import hydrate_git_state

            report.git_files = hydrate_git_state(
                wanted.git_state, wanted.git_ref, staging.tree, folding=staging.folds_case
            )
        staging.finish(_marker(http.url, wanted, report))
    return report


async def _slugs(records: Any, wanted: Wanted) -> list[str]:
    known: dict[str, int] = await records.repositories()
    unknown = sorted(set(wanted.repositories) - set(known))
    if unknown and not wanted.allow_empty:
        raise NothingThere(f"the service has no records of {', '.join(unknown)} (--allow-empty)")
    if not known and not wanted.allow_empty:
        raise NothingThere("the service has no repositories: is this the right one? (--allow-empty)")
    return [slug for slug in sorted(known) if not wanted.repositories or slug in wanted.repositories]


def _marker(url: str, wanted: Wanted, report: Report) -> dict[str, Any]:
    return {
        "format": MARKER_FORMAT,
        "hydratedAt": datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z"),
        "url": url,
        "items": list(wanted.items),
        **report.as_json(),
    }


async def check(
    http: "AsyncHttp", target: Path, wanted: Wanted, *, progress: "Progress | None" = None
) -> list[Difference]:
    """Returns what in `target` is not as the service has it now; nothing is written. Raises ClientError, OSError."""
    from .progress import Silent

    found = [difference async for difference in _differences(http, target, wanted, progress or Silent())]
    return sorted(set(found))


async def _differences(
    http: "AsyncHttp", target: Path, wanted: Wanted, shown: "Progress"
) -> AsyncIterator[Difference]:
    from ..blobs import AsyncBlobs
    from ..records import AsyncRecords
    from .blob_trees import TREES, BlobTrees
    from .compare import compare_items, compare_repository, strangers
    from .staging import MARKER

    records = AsyncRecords(http)
    slugs: list[str] | None = None
    if wanted.records and wanted.items:
        async for path, kind in compare_items(records, target, wanted.repositories[0], wanted.items):
            yield Difference(path, kind)
    elif wanted.records:
        slugs = await _slugs(records, wanted)
        for slug in slugs:
            with shown.bar(f"{slug} compared", None) as bar:
                async for path, kind in compare_repository(records, target, slug, bar):
                    yield Difference(path, kind)
    for name in wanted.trees:
        trees = BlobTrees(AsyncBlobs(http), target, target, shown)
        async for path, kind in trees.differences(TREES[name]):
            yield Difference(path, kind)
    if not wanted.items:
        known = {"records", "ledger", "assets", MARKER, *RETAINED}
        every = None if wanted.repositories else slugs
        for path in strangers(target, known, every, "ledger" in wanted.trees):
            yield Difference(path, "extra")


__all__ = ["Difference", "NothingThere", "Report", "Wanted", "check", "hydrate"]

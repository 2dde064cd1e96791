"""Which paths of the state branch are retained in Git, and whether losing a publication of them matters.

Seed "State storage": publication is mandatory where it is the durability fence before a side effect (`jobs/`, with
the claims of the comment router) or where its failure must stay visible (`results/`); reports and notifications are
best-effort, since what they report has happened already.
"""

from collections.abc import Iterable, Mapping
from enum import Enum
from typing import Final

from ..errors import ConfigurationError


class Necessity(Enum):
    """What a failed publication means."""

    MANDATORY = "mandatory"
    BEST_EFFORT = "best-effort"


RETAINED: Final[Mapping[str, Necessity]] = {
    "jobs/": Necessity.MANDATORY,
    "results/": Necessity.MANDATORY,
    "notifications/": Necessity.BEST_EFFORT,
    "apply-report.json": Necessity.BEST_EFFORT,
    "repair-apply-report.json": Necessity.BEST_EFFORT,
}
OWNED_ELSEWHERE: Final[Mapping[str, str]] = {
    "records": "the state plane's record store (moorage records)",
    "ledger": "the action ledger in R2 (moorage ledger)",
    "assets": "blobs in R2 (moorage blobs)",
    "artifacts": "the artifact cache in R2",
}


def check_path(path: str) -> Necessity:
    """The necessity of a path. Raises ConfigurationError for one that Git does not keep, naming who does."""
    segments = path.split("/")
    if (
        not path
        or "\0" in path
        or "\n" in path
        or any(segment.lower() in {"", ".", "..", ".git"} for segment in segments)
    ):
        raise ConfigurationError(f"{path!r} must be a relative path with / between plain names")
    owner = OWNED_ELSEWHERE.get(segments[0].lower())
    if owner is not None:
        raise ConfigurationError(f"{path!r} is never written to Git: {segments[0]}/ belongs to {owner}")
    for retained, necessity in RETAINED.items():
        if path == retained or (retained.endswith("/") and path.startswith(retained)):
            return necessity
    raise ConfigurationError(f"{path!r} is not kept in Git; {', '.join(RETAINED)} are")


def necessity_of(paths: Iterable[str]) -> Necessity:
    """Mandatory when one of the paths is. Raises ConfigurationError."""
    found = {check_path(path) for path in paths}
    return Necessity.MANDATORY if Necessity.MANDATORY in found else Necessity.BEST_EFFORT

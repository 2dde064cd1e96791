"""What a replayer says of one recorded case, and what every one of them refuses: members that it does not compare."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Literal

Outcome = Literal["passed", "failed", "skipped"]


@dataclass(frozen=True, slots=True)
class CaseResult:
    """The outcome of one case.

    `family` is the folder (`wrangler`), `area` the file name without ending, `name` the case in it, unique there.
    `detail` says what differed, or why the case was skipped; it is empty for a case that passed.
    """

    family: str
    area: str
    name: str
    outcome: Outcome
    detail: str = ""


def refuse_unknown(recorded: Mapping[str, Any], known: Collection[str], where: str) -> None:
    """Raises AssertionError for a member that nothing here compares: it could say anything and still pass."""
    unknown = sorted(set(recorded) - set(known))
    if unknown:
        raise AssertionError(f"{where}: the replayer knows no {', '.join(unknown)}")

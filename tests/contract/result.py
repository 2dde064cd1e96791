"""What a replayer says of one recorded case. Every family's replayer yields these."""

from dataclasses import dataclass
from typing import Literal

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

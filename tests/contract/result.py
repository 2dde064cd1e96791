"""What a contract runner reports for one recorded case."""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class CaseResult:
    """Outcome of one case. `detail` says what differed, or why it was skipped; empty when it passed plainly."""

    family: str
    area: str
    name: str
    outcome: Literal["passed", "failed", "skipped"]
    detail: str = ""

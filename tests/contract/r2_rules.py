"""What may differ from the recorded R2 observations, by rule and never by case.

A rule is asked about one difference. A case whose every difference is allowed by a rule counts as skipped, under the
rules' names; `test_r2_rules` checks that each rule is needed by a case.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final


@dataclass(frozen=True, slots=True)
class Difference:
    """One place where expectation and result differ. `path` begins with the step's number, then `ok` or `err`."""

    path: tuple[Any, ...]
    expected: Any
    got: Any
    case: dict[str, Any]
    step: dict[str, Any]
    backend: str

    @property
    def tags(self) -> frozenset[str]:
        return frozenset(self.case.get("tags", ()))


@dataclass(frozen=True, slots=True)
class Rule:
    """A named reason why differences of a kind may stand; `of` says on which backends it is needed."""

    name: str
    why: str
    of: frozenset[str]
    allows: Callable[[Difference], bool]


def _simulated_store(difference: Difference) -> bool:
    return difference.backend == "moto" and "local" in difference.tags


RULES: Final = (
    Rule(
        "s3-beyond-local",
        "what the local runtime does and the hosted service is known or documented to do differently, where an S3 "
        "store has a behaviour of its own: an empty key, an object of no parts, storage classes",
        frozenset({"moto"}),
        _simulated_store,
    ),
)


def rule_for(difference: Difference) -> str | None:
    """The name of the rule that allows the difference; None when nothing does."""
    return next((rule.name for rule in RULES if rule.allows(difference)), None)

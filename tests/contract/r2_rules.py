"""What may differ from the recorded R2 observations, by rule and never by case.

A rule is asked about one difference only, so what passes is never excused. A case whose every difference is allowed
by a rule counts as skipped, under the rules' names; `test_r2` checks which backends need which rule.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from .do_rules import is_javascript_text
from .r2_values import ABSENT


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


def _javascript(difference: Difference) -> bool:
    return (
        "js" in difference.tags
        and difference.path[-2:] == ("err", "message")
        and isinstance(difference.got, str)
        and is_javascript_text(difference.expected)
    )


def _stream_of_unknown_length(difference: Difference) -> bool:
    streams = any(isinstance(value, dict) and value.get("$") == "stream" for value in difference.step.get("args", ()))
    return streams and "known length" in str(difference.case["observed"][difference.path[0]])


def _refused_by_s3(step: dict[str, Any]) -> bool:
    """An empty key, or an object of no parts."""
    arguments = step.get("args", ())
    return ("r2" in step and arguments[:1] == [""]) or (step.get("mp") == "complete" and arguments == [[]])


def _s3_store(difference: Difference) -> bool:
    if difference.backend not in {"moto", "s3"} or "local" not in difference.tags:
        return False
    number, side, *below = difference.path
    steps = difference.case["steps"]
    if below == ["storageClass"]:
        given = {"storageClass": difference.got}
        return difference.expected == "" and any(given in step.get("args", ()) for step in steps)
    if below or not any(_refused_by_s3(step) for step in steps[: number + 1]):
        return False
    # the refusal in the place of the object, and the object's absence from then on
    return difference.got in (None, ABSENT) or (side == "err" and difference.expected is ABSENT)


RULES: Final = (
    Rule(
        "s3-beyond-local",
        "what the local runtime does and the hosted service is known or documented to do differently, where an S3 "
        "store has a behaviour of its own: an empty key, an object of no parts, storage classes",
        frozenset({"moto"}),
        _s3_store,
    ),
    Rule(
        "js",
        "texts of JavaScript's own argument errors; no recorded case needs it",
        frozenset(),
        _javascript,
    ),
    Rule(
        "stream-length",
        "the platform refuses a stream whose length it does not know; here it is stored; no recorded case needs it",
        frozenset(),
        _stream_of_unknown_length,
    ),
)


def rule_for(difference: Difference) -> str | None:
    """The name of the rule that allows the difference; None when nothing does."""
    return next((rule.name for rule in RULES if rule.allows(difference)), None)

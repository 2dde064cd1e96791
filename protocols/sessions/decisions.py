"""The decision before a stage, shared by planning and execution; and the prefix rule (spec session-manifest 7)."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final

from .errors import PrefixRefused
from .pipeline import Pipeline
from .states import COMPLETE, Status


class Evidence(Enum):
    """How the recorded fingerprint stands to the present one. `NONE`: the stage gives none."""

    NONE = "none"
    MATCH = "match"
    MISMATCH = "mismatch"


class Validation(Enum):
    """What the resume validator said. `NONE`: the stage has none, or it was not asked."""

    NONE = "none"
    ACCEPT = "accept"
    REJECT = "reject"


class Action(Enum):
    RUN = "run"
    REUSE = "reuse"


class Stales(Enum):
    """Whose `succeeded` becomes `stale`, and is saved, before anything else happens."""

    NOTHING = "nothing"
    SELF = "the stage"
    SELF_AND_DEPENDENTS = "the stage and its dependents"


@dataclass(frozen=True, slots=True)
class Decision:
    """What is done with a stage, what is invalidated first, and why.

    `dependents_on_success`: whether a success of this attempt makes the succeeded dependents stale.
    """

    action: Action
    reason: str
    stales: Stales = Stales.NOTHING
    dependents_on_success: bool = True


_REUSE: Final = Decision(
    Action.REUSE, "it succeeded and nothing that it depends on changed", dependents_on_success=False
)
_FORCED: Final = Decision(Action.RUN, "it was forced")
_MISMATCH: Final = Decision(Action.RUN, "its semantic fingerprint is missing or differs", Stales.SELF_AND_DEPENDENTS)
_REJECTED: Final = Decision(Action.RUN, "its resume validator rejected what it left", Stales.SELF)

# A stage that did not succeed runs whatever else is known. The seed says of forced reruns that their success makes
# succeeded dependents stale; the same holds for these, else a forced rerun that fails first and succeeds later would
# leave dependents that were made from the former result.
_UNCONDITIONAL: Final[dict[Status | None, Decision]] = {
    None: Decision(Action.RUN, "it has not run"),
    Status.PENDING: Decision(Action.RUN, "it has not run"),
    Status.RUNNING: Decision(Action.RUN, "an earlier attempt did not end"),
    Status.FAILED: Decision(Action.RUN, "it failed"),
    Status.INTERRUPTED: Decision(Action.RUN, "it was interrupted"),
    Status.STALE: Decision(Action.RUN, "it is stale"),
    Status.SKIPPED: Decision(Action.RUN, "a self-skip is reconsidered every time"),
}
_SUCCEEDED: Final[dict[tuple[Evidence, Validation], Decision]] = {
    (Evidence.MISMATCH, Validation.NONE): _MISMATCH,
    (Evidence.MATCH, Validation.REJECT): _REJECTED,
    (Evidence.NONE, Validation.REJECT): _REJECTED,
    (Evidence.MATCH, Validation.ACCEPT): _REUSE,
    (Evidence.NONE, Validation.ACCEPT): _REUSE,
    (Evidence.MATCH, Validation.NONE): _REUSE,
    (Evidence.NONE, Validation.NONE): _REUSE,
}


def asks_validator(status: Status | None, *, force: bool, evidence: Evidence) -> bool:
    """Whether a resume validator is asked at all: only where the evidence allows reuse."""
    return status is Status.SUCCEEDED and not force and evidence is not Evidence.MISMATCH


def decide(
    status: Status | None, *, force: bool = False, evidence: Evidence, validation: Validation = Validation.NONE
) -> Decision:
    """What to do with a stage. `validation` counts only where `asks_validator`."""
    if status is not Status.SUCCEEDED:
        return _UNCONDITIONAL[status]
    if force:
        return _FORCED
    if not asks_validator(status, force=force, evidence=evidence):
        validation = Validation.NONE
    return _SUCCEEDED[evidence, validation]


def check_prefix(pipeline: Pipeline, first: str, statuses: Mapping[str, Status]) -> None:
    """Raises PrefixRefused for the first stage before `first` that is neither succeeded nor skipped."""
    for name in pipeline.prefix(first):
        status = statuses.get(name)
        if status not in COMPLETE:
            raise PrefixRefused(name, None if status is None else status.value)

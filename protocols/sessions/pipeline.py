"""The stages: order, dependencies and what decides on reuse. One table, and the only place where it is.

`NARRATIO` is the default. Its order and the two facts about render and extract are the seed's; the other direct
predecessors are inferences (spec session-manifest 3), so a user may hand in another `Pipeline`.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from .errors import SessionError


@dataclass(frozen=True, slots=True)
class StageSpec:
    """One stage: its direct predecessors, what decides on its reuse and who owns that, and whether what it left is
    checked on disk before it is reused (a resume validator) unless the user says otherwise.
    """

    name: str
    depends_on: tuple[str, ...] = ()
    reuse: str = "aggregate semantic fingerprint"
    owners: tuple[str, ...] = ()
    validates: bool = False


class Pipeline:
    """Stages in canonical order.

    `inputs_stage` records the inputs, `artifact_stage` owns per-artifact state, `publish_stage` may publish and
    clean up; each may be None. SessionError when a name is there twice, a predecessor is not earlier in the order, or
    a role names no stage.
    """

    def __init__(
        self,
        stages: Iterable[StageSpec],
        *,
        inputs_stage: str | None = None,
        artifact_stage: str | None = None,
        publish_stage: str | None = None,
    ) -> None:
        self.stages = tuple(stages)
        self.order = tuple(stage.name for stage in self.stages)
        self.inputs_stage = inputs_stage
        self.artifact_stage = artifact_stage
        self.publish_stage = publish_stage
        seen: set[str] = set()
        for stage in self.stages:
            unknown = [name for name in stage.depends_on if name not in seen]
            if unknown or stage.name in seen or not stage.name:
                raise SessionError(
                    f"stage {stage.name!r}: "
                    + (f"it depends on {unknown[0]!r}, which is not earlier" if unknown else "it is there twice")
                )
            seen.add(stage.name)
        if not seen:
            raise SessionError("a pipeline has at least one stage")
        for role, name in (("inputs", inputs_stage), ("artifact", artifact_stage), ("publish", publish_stage)):
            if name is not None and name not in seen:
                raise SessionError(f"the {role} stage {name!r} is no stage; there are {', '.join(self.order)}")
        self._dependents = {name: self._reached(name) for name in self.order}

    def _reached(self, start: str) -> tuple[str, ...]:
        reached = {start}
        for stage in self.stages:
            if not reached.isdisjoint(stage.depends_on):
                reached.add(stage.name)
        return tuple(name for name in self.order if name in reached and name != start)

    def check(self, name: str) -> str:
        """`name` when it is a stage. SessionError that names them all."""
        if name not in self._dependents:
            raise SessionError(f"there is no stage {name!r}; there are {', '.join(self.order)}")
        return name

    def dependents(self, name: str) -> tuple[str, ...]:
        """Every stage that depends on `name`, directly or not, in canonical order."""
        return self._dependents[self.check(name)]

    def prefix(self, name: str) -> tuple[str, ...]:
        """The stages before `name` in canonical order."""
        return self.order[: self.order.index(self.check(name))]

    def between(self, first: str | None = None, last: str | None = None) -> tuple[str, ...]:
        """The stages from `first` to `last`, both included. SessionError when `last` is before `first`."""
        start = 0 if first is None else self.order.index(self.check(first))
        end = len(self.order) if last is None else self.order.index(self.check(last)) + 1
        if start >= end:
            raise SessionError(f"stage {last} is before {first}")
        return self.order[start:end]


_AGGREGATE: Final = "aggregate semantic fingerprint"


def _stages(rows: Sequence[tuple[str, str, str, str]]) -> Iterable[StageSpec]:
    for name, depends_on, reuse, owners in rows:
        yield StageSpec(name, tuple(depends_on.split()), reuse, tuple(owners.split()), "validator" in reuse)


NARRATIO: Final = Pipeline(
    _stages(
        [
            ("prepare", "", _AGGREGATE, "prepare"),
            ("transcribe", "prepare", _AGGREGATE, "transcribe WhisperX"),
            ("merge", "transcribe", _AGGREGATE, "merge Seriatim"),
            ("polish", "merge", _AGGREGATE, "polish Audita"),
            ("normalize", "polish", _AGGREGATE, "normalize Seriatim"),
            ("trim", "normalize", _AGGREGATE, "trim Scriptorium Seriatim"),
            ("render", "trim", _AGGREGATE, "render Seriatim"),
            ("extract", "trim", f"{_AGGREGATE} plus reference/output validator", "extract Notarius"),
            (
                "analyze",
                "render extract",
                "per-artifact fingerprint, reconciliation, and output validator",
                "analyze Scriptorium",
            ),
            ("publish", "analyze", f"{_AGGREGATE} plus immediate lock/commit checks", "publish storage"),
            ("notify", "publish", "aggregate delivery-mode fingerprint", "notify configuration"),
        ]
    ),
    inputs_stage="prepare",
    artifact_stage="analyze",
    publish_stage="publish",
)
"""The default pipeline."""

"""Extensions and targets as values, and the rules that pick them (spec job-lifecycle 7, 20, 23)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from .errors import Refused

Kind = Literal["action", "analyzer"]
Mode = Literal["probabilistic", "deterministic"]
KINDS: tuple[Kind, ...] = ("action", "analyzer")
SKILL_PREFIX = "skill:"


@dataclass(frozen=True, slots=True)
class Precondition:
    """Which targets a fan-out reaches. Empty lists filter nothing; `analyzer_ids` is no filter but makes a fixer."""

    provider: tuple[str, ...] = ()
    kind: tuple[str, ...] = ()
    frontmatter_missing: tuple[str, ...] = ()
    analyzer_ids: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Extension:
    """One installed extension. `prompt` and `report_schema_text` are None when they cannot be read.

    `problem` says why a manifest was refused; such an extension is found, and its submit is refused with that text.
    """

    id: str
    version: str
    kind: Kind
    mode: Mode = "probabilistic"
    prompt: str | None = None
    report_schema_text: str | None = None
    precondition: Precondition = field(default_factory=Precondition)
    nodeless: bool = False
    estimate_seconds: int | None = None
    default_priority: int | None = None
    enabled: bool = True
    problem: str | None = None
    skill_body: str | None = None

    @property
    def probabilistic(self) -> bool:
        """Whether it runs through the queue at all."""
        return self.mode == "probabilistic"


@dataclass(frozen=True, slots=True)
class Target:
    """What a job is about, as it was when it was last looked at. `tags` is the raw annotation, checked on use."""

    path: str
    kind: str
    provider: str
    body_hash: str
    frontmatter_hash: str
    frontmatter: Mapping[str, Any] = field(default_factory=dict)
    tags: object = None
    virtual: bool = False


@dataclass(frozen=True, slots=True)
class Body:
    """A target's body as it is now: `text`, or None with the `cause` where it is known."""

    text: str | None
    cause: str | None = None


def matches_id(name: str, qualified: str) -> bool:
    """Whether `name` is the qualified id, or the part of it after the slash (spec 6)."""
    return bool(name) and name in (qualified, qualified.partition("/")[2])


def resolve_extension(name: str, extensions: Iterable[Extension]) -> Extension:
    """The extension that a submit means, by qualified id, else by bare id, in either kind (spec 7).

    `action:<id>` and `analyzer:<id>` look in that kind only. Raises `Refused` with `not-found`, `deterministic` or
    `ambiguous`; the last names both candidates in `detail["candidates"]`.
    """
    prefix, _, rest = name.partition(":")
    kinds: tuple[Kind, ...] = KINDS
    chosen = tuple(kind for kind in KINDS if kind == prefix)
    if chosen:
        kinds, name = chosen, rest
    every = [extension for extension in extensions if extension.kind in kinds]
    found: list[Extension] = []
    for kind in kinds:
        ours = [extension for extension in every if extension.kind == kind and extension.probabilistic]
        hit = next((e for e in ours if e.id == name), None) or next((e for e in ours if matches_id(name, e.id)), None)
        if hit is not None:
            found.append(hit)
    if len(found) == 1:
        return found[0]
    if found:
        candidates = [f"{extension.kind}:{extension.id}" for extension in found]
        raise Refused(
            "ambiguous", f"{name} names two extensions; give {' or '.join(candidates)}", {"candidates": candidates}
        )
    if any(matches_id(name, extension.id) for extension in every):
        raise Refused("deterministic", f"{name} is deterministic; only probabilistic extensions enter the queue")
    raise Refused("not-found", f"no extension {name!r} is installed")


def precondition_applies(precondition: Precondition, target: Target) -> bool:
    """Whether a fan-out reaches the target (spec 7, precondition)."""
    if precondition.provider and target.provider not in precondition.provider:
        return False
    if precondition.kind and not any(
        kind == target.kind or kind.rpartition("/")[2] == target.kind for kind in precondition.kind
    ):
        return False
    missing = precondition.frontmatter_missing
    return not missing or any(target.frontmatter.get(name) in (None, "") for name in missing)


def disable_matches(disabled: Iterable[str], extension_id: str) -> bool:
    """Whether disabling these keys reaches the extension: its qualified id, or its plugin (spec 20)."""
    plugin, slash, _ = extension_id.partition("/")
    return any(key == extension_id or (bool(slash) and key == plugin) for key in disabled)


def chained_fixers(finder: str, extensions: Sequence[Extension]) -> list[Extension]:
    """The probabilistic actions that name `finder` among their analyzers, in catalogue order (spec 20)."""
    return [
        extension
        for extension in extensions
        if extension.kind == "action"
        and extension.probabilistic
        and any(matches_id(name, finder) for name in extension.precondition.analyzer_ids)
    ]


def auto_fix_flag(kind: str, requested: bool | None) -> bool:
    """The flag that is frozen on the row: only a finder chains its fixers."""
    return kind == "analyzer" and bool(requested)


def nodeless_path(extension_id: str) -> str:
    """The node id of a job without a target."""
    return f"sm://{extension_id}"

"""Rows of judgment: selection for fixers, supersede, resolutions, staleness, suppression and the view
(spec job-lifecycle 12, 17, 22)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from .catalogue import matches_id
from .schemas import RESERVED_TYPES
from .states import Status

SAFETY_WORDS = {
    "injection-detected": "The report flags instructions hidden in the content.",
    "content-suspicious": "The report calls the content suspicious.",
    "content-malformed": "The report calls the content malformed.",
}


def select_for_fixer(
    findings: Iterable[Mapping[str, Any]], analyzer_ids: Sequence[str], finding_ids: Sequence[int] | None
) -> list[dict[str, Any]]:
    """The findings of one target that a fixer resolves, by id ascending.

    Open rows of the named finders, never the safety lane; stale ones included. `finding_ids` narrows, None does not.
    """
    wanted = None if finding_ids is None else set(finding_ids)
    selected = [
        dict(finding)
        for finding in findings
        if finding["origin"] == "extension"
        and finding["resolution"] is None
        and any(matches_id(name, finding["extensionId"]) for name in analyzer_ids)
        and (wanted is None or finding["id"] in wanted)
    ]
    return sorted(selected, key=lambda finding: int(finding["id"]))


def overlap(left: Sequence[int] | None, right: Sequence[int] | None) -> bool:
    """Whether two fixer jobs work on a common finding. None means the whole target."""
    return left is None or right is None or not set(left).isdisjoint(right)


@dataclass(frozen=True, slots=True)
class Sibling:
    """An active job of the same fixer and target."""

    id: str
    status: Status
    finding_ids: tuple[int, ...] | None
    same_content: bool


@dataclass(frozen=True, slots=True)
class SupersedeDecision:
    """What a fixer submit does to its siblings: `superseded` are cancelled, unless `conflict` refuses the submit."""

    outcome: Literal["created", "duplicate", "running-conflict"]
    conflict: str | None = None
    superseded: tuple[str, ...] = ()


def decide_supersede(siblings: Sequence[Sibling], finding_ids: Sequence[int] | None) -> SupersedeDecision:
    """Spec 12, supersede: a running overlap refuses, then an identical queued one; other queued overlaps give way."""
    overlapping = [sibling for sibling in siblings if overlap(sibling.finding_ids, finding_ids)]
    for sibling in overlapping:
        if sibling.status == Status.RUNNING:
            return SupersedeDecision("running-conflict", sibling.id)
    queued = [sibling for sibling in overlapping if sibling.status == Status.QUEUED]
    for sibling in queued:
        if sibling.same_content:
            return SupersedeDecision("duplicate", sibling.id)
    return SupersedeDecision("created", superseded=tuple(sibling.id for sibling in queued))


@dataclass(frozen=True, slots=True)
class ResolvedEntry:
    """One usable entry of a fixer's `resolved[]`. `by` is None for a human decision."""

    id: int
    state: Literal["fixed", "human-decision"]
    by: Literal["fixer", "human"] | None
    note: str


def resolved_entries(resolved: object) -> list[ResolvedEntry]:
    """The entries that can be stamped; the others are skipped silently (spec 12, report)."""
    entries: list[ResolvedEntry] = []
    for item in resolved if isinstance(resolved, list) else ():
        if not isinstance(item, Mapping):
            continue
        number, state, by, note = item.get("id"), item.get("state"), item.get("by"), item.get("note")
        if isinstance(number, float) and number.is_integer():
            number = int(number)
        if not isinstance(number, int) or isinstance(number, bool):
            continue
        text = note if isinstance(note, str) else ""
        if state == "fixed" and (by == "fixer" or by == "human"):
            entries.append(ResolvedEntry(number, "fixed", by, text))
        elif state == "human-decision":
            entries.append(ResolvedEntry(number, "human-decision", None, text))
    return entries


def reserved_types(types: Iterable[str]) -> list[str]:
    """The reserved types among those of a finder's report, each once. Any of them makes the report invalid."""
    return [name for name in dict.fromkeys(types) if name in RESERVED_TYPES]


@dataclass(frozen=True, slots=True)
class FindingRow:
    """A finding that a report gives, before it is bound to a target and a job."""

    origin: Literal["extension", "kernel"]
    type: str
    severity: str
    message: str
    detail: str | None
    confidence: float


def safety_rows(report: Mapping[str, Any]) -> list[FindingRow]:
    """The rows of the safety lane that a valid report asks for (spec 17, safety)."""
    safety, confidence = report["safety"], report["confidence"]
    found: list[tuple[str, str | None]] = []
    if safety["injectionDetected"]:
        found.append(("injection-detected", safety.get("injectionDetails")))
    if safety["contentQuality"] != "clean":
        found.append((f"content-{safety['contentQuality']}", None))
    return [FindingRow("kernel", name, "warn", SAFETY_WORDS[name], detail, confidence) for name, detail in found]


def finder_rows(report: Mapping[str, Any]) -> list[FindingRow]:
    """One row for each entry of a finder's valid report; the confidence falls back to the report's."""
    return [
        FindingRow(
            "extension",
            item["type"],
            item["severity"],
            item["message"],
            item.get("detail"),
            item.get("confidence", report["confidence"]),
        )
        for item in report["findings"]
    ]


def report_rows(kind: str, report: Mapping[str, Any]) -> list[FindingRow]:
    """Every row of a valid report. An action's `findings` are not routed: the kind frozen on the job decides."""
    return (finder_rows(report) if kind == "analyzer" else []) + safety_rows(report)


def suppressed(extension_id: str, finding_type: str, suppressions: object) -> bool:
    """Whether a sidecar's suppressions hide findings of that class. An entry without a type hides every type."""
    for entry in suppressions if isinstance(suppressions, list) else ():
        if not isinstance(entry, Mapping) or not isinstance(entry.get("extension"), str):
            continue
        if matches_id(entry["extension"], extension_id) and entry.get("type") in (None, finding_type):
            return True
    return False


def suppressions_of(extension_id: str, suppressions: object) -> list[dict[str, Any]]:
    """The entries that suppress a finder, of any type."""
    return [
        dict(entry)
        for entry in (suppressions if isinstance(suppressions, list) else ())
        if isinstance(entry, Mapping)
        and isinstance(entry.get("extension"), str)
        and matches_id(entry["extension"], extension_id)
    ]


Bucket = Literal["default", "stale", "fixed", "dismissed"]


@dataclass(frozen=True, slots=True)
class FindingsView:
    """What the findings verb shows, and how many rows the default view keeps back."""

    findings: tuple[dict[str, Any], ...]
    dismissed_excluded: int
    fixed_excluded: int


def view(findings: Iterable[dict[str, Any]], hidden: Iterable[int], bucket: Bucket) -> FindingsView:
    """Sorts findings into buckets: dismissed first (by row, or hidden by a suppression: `hidden`), then fixed.

    The default view shows the rest; `stale` only the stale ones of the rest (spec 22).
    """
    hidden_ids = set(hidden)
    dismissed, fixed, rest = [], [], []
    for finding in findings:
        if finding["resolution"] == "dismissed" or finding["id"] in hidden_ids:
            dismissed.append(finding)
        elif finding["resolution"] == "fixed":
            fixed.append(finding)
        else:
            rest.append(finding)
    if bucket == "dismissed":
        return FindingsView(tuple(dismissed), 0, 0)
    if bucket == "fixed":
        return FindingsView(tuple(fixed), 0, 0)
    shown = [finding for finding in rest if finding["stale"]] if bucket == "stale" else rest
    return FindingsView(tuple(shown), len(dismissed), len(fixed))

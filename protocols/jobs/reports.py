"""Reading a report: text to a valid value, or one reason why not (spec job-lifecycle 16, step 5)."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

from .findings import reserved_types
from .schemas import Validator, roles


@dataclass(frozen=True, slots=True)
class ReportVerdict:
    """A report that was read: its value, or None with what is wrong with it."""

    report: Any
    problem: str | None

    @property
    def valid(self) -> bool:
        """Whether the report may be recorded."""
        return self.problem is None


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON number")


def _finite(text: str) -> float:
    value = float(text)
    if math.isinf(value):
        # it could be stored, and nobody could read it again
        raise ValueError(f"{text[:40]} is larger than any number that JSON readers keep")
    return value


def parse_report(text: str) -> Any:
    """The value of a report's text. Raises ValueError: not JSON, too deep, a number too large, no Unicode text."""
    try:
        value = json.loads(text, parse_constant=_no_constant, parse_float=_finite)
        json.dumps(value, ensure_ascii=False).encode()
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    except UnicodeEncodeError:
        raise ValueError("it holds half of a surrogate pair") from None
    return value


def read_report(text: str, kind: str, schema: Mapping[str, Any], validate: Validator) -> ReportVerdict:
    """Judges a report: JSON, valid against the extension's schema, and without reserved types if it is a finder's."""
    try:
        report = parse_report(text)
    except ValueError as error:
        return ReportVerdict(None, f"the report is not JSON: {error}")
    try:
        problem = validate(schema, report)
    except RecursionError:
        problem = "it is nested too deeply"
    if problem is not None:
        return ReportVerdict(None, f"the report breaks its schema: {problem}")
    if kind == "analyzer":
        reserved = reserved_types(finding["type"] for finding in report["findings"])
        if reserved:
            return ReportVerdict(None, f"the report uses reserved finding types: {', '.join(reserved)}")
    return ReportVerdict(report, None)


def proposed_tags(report: Mapping[str, Any], schema: Mapping[str, Any], kind: str) -> list[str] | None:
    """The tags that a tagger's report proposes, an empty list included; None for every other job (spec 13)."""
    if kind != "action" or not roles(schema).tagger:
        return None
    return list(report["tags"])

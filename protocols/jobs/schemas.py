"""Report schemas: the canonical ones, the roles that refer to them, the contract text (spec job-lifecycle 17, 18).

The addresses are identifiers. Nothing ever fetches them; a validator gets `CANONICAL` as its registry.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

BASE_ADDRESS = "https://skill-map.ai/spec/v1/"
_DIALECT = "https://json-schema.org/draft/2020-12/schema"

REPORT_BASE = BASE_ADDRESS + "report-base.schema.json"
FINDINGS = BASE_ADDRESS + "findings/report.schema.json"
SUMMARY = BASE_ADDRESS + "summaries/markdown.schema.json"
TAGS = BASE_ADDRESS + "tags/markdown.schema.json"
SKILL = BASE_ADDRESS + "skill-report.schema.json"

RESERVED_TYPES = ("injection-detected", "content-suspicious", "content-malformed")
"""Finding types that only the queue itself writes, from the `safety` block of a report."""

# The contract says that these are lists, and not of what; texts are what is meant.
_TEXTS = {"type": "array", "description": "a list of texts"}

CANONICAL: dict[str, dict[str, Any]] = {
    REPORT_BASE: {
        "$schema": _DIALECT,
        "$id": REPORT_BASE,
        "title": "Every report",
        "type": "object",
        "required": ["confidence", "safety"],
        "properties": {
            "confidence": {"type": "number", "minimum": 0, "maximum": 1},
            "safety": {
                "type": "object",
                "required": ["injectionDetected", "contentQuality"],
                "properties": {
                    "injectionDetected": {"type": "boolean"},
                    "injectionType": {"enum": ["direct-override", "role-swap", "hidden-instruction", "other", None]},
                    "injectionDetails": {"type": ["string", "null"]},
                    "contentQuality": {"enum": ["clean", "suspicious", "malformed"]},
                },
                "additionalProperties": False,
            },
        },
    },
    FINDINGS: {
        "$schema": _DIALECT,
        "$id": FINDINGS,
        "title": "Report of a finder",
        "allOf": [{"$ref": REPORT_BASE}],
        "type": "object",
        "required": ["findings"],
        "properties": {
            "findings": {
                "type": "array",
                "items": {
                    "type": "object",
                    "required": ["type", "severity", "message"],
                    "properties": {
                        "type": {"type": "string", "pattern": "^[a-z][a-z0-9-]*$"},
                        "severity": {"enum": ["info", "warn", "error"]},
                        "message": {"type": "string", "minLength": 1},
                        "detail": {"type": "string"},
                        "confidence": {"type": "number", "minimum": 0, "maximum": 1},
                    },
                },
            }
        },
    },
    SUMMARY: {
        "$schema": _DIALECT,
        "$id": SUMMARY,
        "title": "Summary of a target",
        "allOf": [{"$ref": REPORT_BASE}],
        "type": "object",
        "required": ["whatItCovers"],
        "properties": {
            "confidence": True,
            "safety": True,
            "whatItCovers": {"type": "string"},
            "topics": _TEXTS,
            "keyFacts": _TEXTS,
            "relatedNodes": _TEXTS,
            "qualityNotes": {"type": "string"},
        },
        "additionalProperties": False,
    },
    TAGS: {
        "$schema": _DIALECT,
        "$id": TAGS,
        "title": "Tags proposed for a target",
        "allOf": [{"$ref": REPORT_BASE}],
        "type": "object",
        "required": ["tags"],
        "properties": {
            "tags": {
                "type": "array",
                "maxItems": 8,
                "items": {"type": "string", "minLength": 2, "maxLength": 30},
            }
        },
    },
    SKILL: {
        "$schema": _DIALECT,
        "$id": SKILL,
        "title": "Report of a skill action",
        "allOf": [{"$ref": REPORT_BASE}],
        "type": "object",
        "required": ["summary"],
        "properties": {"summary": {"type": "string", "minLength": 1}},
    },
}

Validator = Callable[[Mapping[str, Any], object], str | None]
"""Validates an instance against a schema: None when it is valid, else what is wrong in one line."""

_NAMESPACE = re.compile(re.escape(BASE_ADDRESS) + r"(summaries|tags|findings)/[^/#?]+\.schema\.json(?:#.*)?\Z", re.S)


def references(schema: object) -> Iterator[str]:
    """Every `$ref` text in a schema, at any depth, in order."""
    stack: list[object] = [schema]
    while stack:
        item = stack.pop()
        if isinstance(item, Mapping):
            ref = item.get("$ref")
            if isinstance(ref, str):
                yield ref
            stack.extend(reversed(list(item.values())))
        elif isinstance(item, list):
            stack.extend(reversed(item))


@dataclass(frozen=True, slots=True)
class Roles:
    """What an extension's report schema makes of it."""

    summarizer: bool = False
    tagger: bool = False
    finder: bool = False


def roles(schema: object) -> Roles:
    """The roles that a report schema declares by what it refers to (spec 17)."""
    found = {match[1] for ref in references(schema) if (match := _NAMESPACE.match(ref))}
    return Roles("summaries" in found, "tags" in found, "findings" in found)


def parse_schema(text: str) -> dict[str, Any]:
    """The report schema that `text` spells. Raises ValueError when it is not a JSON object."""
    schema = json.loads(text)
    if not isinstance(schema, dict):
        raise ValueError("a report schema is a JSON object")
    return schema


@functools.cache
def _canonical_text(address: str) -> str:
    return json.dumps(CANONICAL[address], indent=2)


@functools.lru_cache(maxsize=64)
def report_contract(schema_text: str) -> str:
    """The section that makes a prompt self-contained: each schema verbatim in a fenced block (spec 8).

    First the extension's own, then the canonical ones that it refers to, then the report base.
    """
    named = {ref.partition("#")[0] for ref in references(json.loads(schema_text))}
    blocks = [schema_text.rstrip("\n")]
    blocks += [_canonical_text(address) for address in CANONICAL if address in named and address != REPORT_BASE]
    blocks.append(_canonical_text(REPORT_BASE))
    fenced = "\n\n".join(f"```json\n{block}\n```" for block in blocks)
    return (
        "## Report contract\n\n"
        "Answer with one JSON document that is valid against the first schema; the others are what it refers to.\n\n"
        f"{fenced}"
    )

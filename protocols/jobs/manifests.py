"""Extension manifests: a JSON object to an `Extension`, or to what is wrong with it (spec job-lifecycle 23)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from .catalogue import KINDS, SKILL_PREFIX, Extension, Kind, Mode, Precondition
from .schemas import parse_schema, roles
from .settings import is_integer

QUALIFIED = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*/[A-Za-z0-9][A-Za-z0-9._-]*\Z")
MEMBERS = (
    "id", "kind", "version", "mode", "probExpectedDurationSeconds", "probNodeless", "precondition", "defaultPriority",
    "description",
)  # fmt: skip
_LISTS = {
    "provider": "provider",
    "kind": "kind",
    "frontmatterMissing": "frontmatter_missing",
    "analyzerIds": "analyzer_ids",
}


class ManifestError(ValueError):
    """A manifest that cannot be used; the text names the member and what would be right."""


def identity(manifest: object) -> tuple[str, Kind]:
    """The qualified id and kind of a manifest. Raises `ManifestError`: nothing else can be said without them."""
    if not isinstance(manifest, Mapping):
        raise ManifestError("a manifest is a JSON object")
    name, kind = manifest.get("id"), manifest.get("kind")
    if not isinstance(name, str) or not QUALIFIED.match(name) or name.startswith(SKILL_PREFIX):
        raise ManifestError(f"id must be <plugin>/<id>, not {name!r}")
    if kind not in KINDS:
        raise ManifestError(f"kind must be action or analyzer, not {kind!r}")
    return name, kind


def precondition(value: object) -> Precondition:
    """The precondition of a manifest. Raises `ManifestError`."""
    if value is None:
        return Precondition()
    if not isinstance(value, Mapping):
        raise ManifestError("precondition must be an object")
    lists: dict[str, tuple[str, ...]] = {}
    for key, items in value.items():
        if key not in _LISTS:
            raise ManifestError(f"precondition.{key} is unknown; it has {', '.join(_LISTS)}")
        if not isinstance(items, list) or not all(isinstance(item, str) for item in items):
            raise ManifestError(f"precondition.{key} must be a list of texts")
        lists[_LISTS[key]] = tuple(items)
    return Precondition(**lists)


def parse_manifest(manifest: Mapping[str, Any], prompt: str | None, schema_text: str | None) -> Extension:
    """The extension that a manifest, its prompt and its report schema describe.

    A probabilistic one needs a positive estimate; a finder's schema must refer to the findings schema (spec 17).
    What is wrong becomes `problem`, so that the listing and a submit can say it. Raises `ManifestError` when the
    manifest does not even say which extension it is.
    """
    name, kind = identity(manifest)
    try:
        return _checked(name, kind, manifest, prompt, schema_text)
    except ManifestError as error:
        return Extension(id=name, version=str(manifest.get("version", "")), kind=kind, problem=str(error))


def _checked(name: str, kind: Kind, manifest: Mapping[str, Any], prompt: str | None, text: str | None) -> Extension:
    unknown = sorted(set(manifest) - set(MEMBERS))
    if unknown:
        raise ManifestError(f"{unknown[0]} is unknown; a manifest has {', '.join(MEMBERS)}")
    version, mode = manifest.get("version"), manifest.get("mode", "probabilistic")
    if not isinstance(version, str) or not version:
        raise ManifestError("version must be a text, such as 1.0.0")
    if mode != "probabilistic" and mode != "deterministic":
        raise ManifestError(f"mode must be probabilistic or deterministic, not {mode!r}")
    chosen: Mode = mode
    if chosen == "deterministic":
        return Extension(id=name, version=version, kind=kind, mode="deterministic")
    estimate = manifest.get("probExpectedDurationSeconds")
    if not is_integer(estimate) or estimate < 1:
        raise ManifestError(f"probExpectedDurationSeconds must be a positive integer of seconds, not {estimate!r}")
    nodeless = manifest.get("probNodeless", False)
    if not isinstance(nodeless, bool):
        raise ManifestError("probNodeless must be true or false")
    if nodeless and kind != "action":
        raise ManifestError("probNodeless is for actions")
    priority = manifest.get("defaultPriority")
    if priority is not None and not is_integer(priority):
        raise ManifestError(f"defaultPriority must be an integer, not {priority!r}")
    if text is not None:
        _check_schema(kind, text)
    return Extension(
        id=name,
        version=version,
        kind=kind,
        prompt=prompt,
        report_schema_text=text,
        precondition=precondition(manifest.get("precondition")),
        nodeless=nodeless,
        estimate_seconds=estimate,
        default_priority=priority,
    )


def _check_schema(kind: Kind, text: str) -> None:
    try:
        schema = parse_schema(text)
    except (ValueError, RecursionError) as error:
        raise ManifestError(f"report.schema.json: {error}") from error
    if kind == "analyzer" and not roles(schema).finder:
        raise ManifestError("the report schema of a finder must refer to the findings schema")

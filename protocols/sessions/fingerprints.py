"""Semantic fingerprints: SHA-256 over deterministic JSON of what a stage says that its result depends on."""

import hashlib
from typing import Any

import msgspec
from msgspec import UNSET

from .decisions import Evidence
from .documents import Fingerprint
from .strict_json import canonical


def fingerprint(version: int, semantics: Any) -> Fingerprint:
    """The fingerprint of `semantics`, a JSON value that the stage owns.

    It must hold no secret, no dump of the whole configuration and nothing that cannot change a canonical result; this
    cannot be checked here. ValueError for a version below 1 and for what JSON cannot say.
    """
    if version < 1:
        raise ValueError(f"a fingerprint's version is at least 1, not {version}")
    return Fingerprint(version=version, sha256=hashlib.sha256(canonical(semantics)).hexdigest())


def stored(value: Fingerprint) -> dict[str, Any]:
    """The form in which a stage record keeps it."""
    return {"version": value.version, "sha256": value.sha256}


def compare(recorded: Any, present: Fingerprint | None) -> Evidence:
    """How the recorded evidence stands to the present one; `present` None: the stage gives none.

    Evidence that is missing or malformed is a mismatch (seed, execution semantics).
    """
    if present is None:
        return Evidence.NONE
    if recorded is UNSET:
        return Evidence.MISMATCH
    try:
        known = msgspec.convert(recorded, Fingerprint)
    except msgspec.ValidationError:
        return Evidence.MISMATCH
    return Evidence.MATCH if known == present else Evidence.MISMATCH

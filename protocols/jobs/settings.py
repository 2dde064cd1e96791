"""Values that a submit freezes, and the settings they come from (spec job-lifecycle 9, 10, 14, 20)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, TypeGuard

from .errors import Refused

INTEGER = re.compile(r"(?:0|-?[1-9][0-9]*)\Z")
LIMIT = 2**53 - 1
"""Largest integer that every JSON reader keeps exactly."""

DEFAULT_RETENTION: dict[str, int | None] = {"completed": 2_592_000, "failed": None, "cancelled": 2_592_000}
DEFAULT_CLAIM_WAIT_SECONDS = 2


def parse_integer(name: str, text: str) -> int:
    """The integer that a flag spells, plain decimal only: `007`, `+5`, `1.5` and `1e3` are refused (spec 6)."""
    if not INTEGER.match(text) or abs(int(text[:20])) > LIMIT or len(text) > 20:
        raise Refused("usage", f"{name} must be a plain decimal integer, not {text!r}")
    return int(text)


def parse_positive(name: str, text: str) -> int:
    """As `parse_integer`, and at least 1."""
    value = parse_integer(name, text)
    if value < 1:
        raise Refused("usage", f"{name} must be a positive integer, not {text!r}")
    return value


def parse_count(name: str, text: str) -> int:
    """As `parse_integer`, and at least 0."""
    value = parse_integer(name, text)
    if value < 0:
        raise Refused("usage", f"{name} must not be negative, it is {text!r}")
    return value


def is_integer(value: object) -> TypeGuard[int]:
    """Whether a JSON value is an integer; booleans are not."""
    return isinstance(value, int) and not isinstance(value, bool) and abs(value) <= LIMIT


def jobs_settings(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """The `jobs` member of a configuration, empty when absent. Refuses one that is not an object."""
    section = config.get("jobs")
    if section is None:
        return {}
    if not isinstance(section, Mapping):
        raise Refused("invalid-setting", "jobs must be an object")
    return section


def _per_extension(config: Mapping[str, Any], name: str, extension_id: str) -> tuple[str, object] | None:
    """The setting for one extension, by its qualified id, else by the part after the slash."""
    table = jobs_settings(config).get(name)
    if table is None:
        return None
    if not isinstance(table, Mapping):
        raise Refused("invalid-setting", f"jobs.{name} must be an object of extension ids")
    for key in (extension_id, extension_id.partition("/")[2]):
        if key and table.get(key) is not None:
            return f"jobs.{name}.{key}", table[key]
    return None


def resolve_ttl(extension_id: str, config: Mapping[str, Any], flag: object = None) -> int | None:
    """Seconds that a claim of the job is good for, or None: it never expires (spec 9).

    The first source that is there wins, and later ones are not looked at: the flag (0 disarms), the setting of the
    extension, `jobs.ttlSeconds`. Raises `Refused("invalid-ttl")`.
    """
    if flag is not None:
        if not is_integer(flag) or flag < 0:
            raise Refused("invalid-ttl", f"--ttl must be 0 or a positive integer of seconds, not {flag!r}")
        return flag or None
    found = _per_extension(config, "perExtensionTtl", extension_id)
    if found is None:
        value = jobs_settings(config).get("ttlSeconds")
        if value is None:
            return None
        found = ("jobs.ttlSeconds", value)
    name, seconds = found
    if not is_integer(seconds) or seconds < 1:
        raise Refused("invalid-ttl", f"{name} must be a positive integer of seconds, not {seconds!r}")
    return seconds


def resolve_priority(
    extension_id: str, config: Mapping[str, Any], flag: object = None, manifest_default: object = None
) -> int:
    """The job's priority; higher runs first (spec 10). Raises `Refused("invalid-priority")`."""
    found = _per_extension(config, "perExtensionPriority", extension_id) if flag is None else ("--priority", flag)
    if found is None:
        found = ("defaultPriority of the manifest", 0 if manifest_default is None else manifest_default)
    name, value = found
    if not is_integer(value):
        raise Refused("invalid-priority", f"{name} must be an integer, not {value!r}")
    return value


def resolve_claim_wait(config: Mapping[str, Any], flag: int | None = None) -> int:
    """Seconds between two looks of a blocked claim: the flag, `jobs.claimWaitSeconds`, or 2 (spec 14)."""
    if flag is not None:
        return flag
    value = jobs_settings(config).get("claimWaitSeconds")
    if value is None:
        return DEFAULT_CLAIM_WAIT_SECONDS
    if not is_integer(value) or value < 1:
        raise Refused("invalid-setting", f"jobs.claimWaitSeconds must be a positive integer, not {value!r}")
    return value


def resolve_retention(config: Mapping[str, Any]) -> dict[str, int | None]:
    """Seconds that jobs of each terminal state are kept; None keeps them for ever (spec 20, prune)."""
    table = jobs_settings(config).get("retention")
    if table is None:
        return dict(DEFAULT_RETENTION)
    if not isinstance(table, Mapping):
        raise Refused("invalid-setting", "jobs.retention must be an object")
    unknown = sorted(set(table) - set(DEFAULT_RETENTION))
    if unknown:
        raise Refused("invalid-setting", f"jobs.retention.{unknown[0]}: only completed, failed and cancelled")
    policy = dict(DEFAULT_RETENTION)
    for state, value in table.items():
        if value is not None and (not is_integer(value) or value < 0):
            raise Refused("invalid-setting", f"jobs.retention.{state} must be null or seconds, not {value!r}")
        policy[state] = value
    return policy

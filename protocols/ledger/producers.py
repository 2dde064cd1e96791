"""The producer that an environment describes, and the day its events belong to (spec action-ledger 7, 8)."""

import math
import re
from collections.abc import Mapping
from typing import Any

from .canonical import MAX_SAFE_INTEGER, sha256_text
from .numbers import es_number
from .paths import NAME_DIGITS
from .refusals import LedgerRefusal
from .text import repository_text
from .timestamps import calendar_date, timestamp_text, utc_date
from .whitespace import trim

_UNSAFE_RUN = re.compile(r"[^A-Za-z0-9_.:/@+\-]+")

PREFIX = "CLAWSWEEPER_ACTION_LEDGER_"
INVOCATION = f"{PREFIX}INVOCATION"
PARTITION_DATE = f"{PREFIX}PARTITION_DATE"
OUTPUT_ROOT = f"{PREFIX}OUTPUT_ROOT"


def ident(value: str, limit: int) -> str:
    """Machine-safe form of a name, with a digest of the source whenever something was lost (spec 7)."""
    source = trim(value)
    safe = _UNSAFE_RUN.sub("-", source).strip("-")
    if not safe:
        raise LedgerRefusal("required", "must hold a letter, digit or one of _ . : / @ +", value[:32])
    if safe == source and len(safe) <= limit:
        return safe
    kept = safe[: limit - 13].rstrip("-") or "id"
    return f"{kept}-{sha256_text(source)[:NAME_DIGITS]}"


def _need(environment: Mapping[str, str], name: str) -> str:
    value = trim(environment.get(name, ""))
    if not value:
        raise LedgerRefusal("missing-env", "must be set", name)
    return value


def is_enabled(environment: Mapping[str, str]) -> bool:
    """Whether recording is on: FORCE is exactly `1` and DISABLED is not."""
    return environment.get(f"{PREFIX}FORCE") == "1" and environment.get(f"{PREFIX}DISABLED") != "1"


def without_ledger_settings(environment: Mapping[str, str]) -> dict[str, str]:
    """The environment for a child program that is not trusted: without any of the ledger's variables (spec 16)."""
    return {name: value for name, value in environment.items() if not name.startswith(PREFIX)}


def component_name(environment: Mapping[str, str], component: str) -> str:
    """Component with step and invocation, each made safe. Raises LedgerRefusal: type, required."""
    if not isinstance(component, str):
        raise LedgerRefusal("type", f"expected text, not {type(component).__name__}", "component")
    action = environment.get("GITHUB_ACTION", "process")
    invocation = environment.get(INVOCATION, "default")
    return f"{ident(component, 120)}.{ident(action, 64)}.{ident(invocation, 64)}"


def workflow_producer(environment: Mapping[str, str], component: str) -> dict[str, Any]:
    """camelCase producer of this workflow run. `sha`, `job` and `runId` are judged when an event is built.

    Raises LedgerRefusal: missing-env, repository, positive-integer, required.
    """
    repository = repository_text(_need(environment, "GITHUB_REPOSITORY"), "GITHUB_REPOSITORY")
    sha = _need(environment, "GITHUB_SHA")
    reference = trim(environment.get("GITHUB_WORKFLOW_REF", ""))
    if reference:
        cut = reference.rfind("@refs/")
        path = reference if cut < 0 else reference[:cut]
        workflow = ident(path.rstrip("/").rpartition("/")[2], 128)
    else:
        workflow = ident(_need(environment, "GITHUB_WORKFLOW"), 128)
    job = _need(environment, "GITHUB_JOB")
    run_id = _need(environment, "GITHUB_RUN_ID")
    attempt = es_number(_need(environment, "GITHUB_RUN_ATTEMPT"))
    if not (math.isfinite(attempt) and attempt.is_integer() and 1 <= attempt <= MAX_SAFE_INTEGER):
        raise LedgerRefusal("positive-integer", "must be an integer from 1", "GITHUB_RUN_ATTEMPT")
    return {
        "repository": repository,
        "sha": sha,
        "workflow": workflow,
        "job": job,
        "runId": run_id,
        "runAttempt": int(attempt),
        "component": component_name(environment, component),
    }


def partition_date(environment: Mapping[str, str]) -> str:
    """The day that this run's events are filed under; never the wall clock's.

    Raises LedgerRefusal: calendar-date, timestamp, missing-partition.
    """
    given = trim(environment.get(PARTITION_DATE, ""))
    if given:
        return calendar_date(given, PARTITION_DATE)
    started = trim(environment.get("GITHUB_RUN_STARTED_AT", ""))
    if started:
        return utc_date(timestamp_text(started, "GITHUB_RUN_STARTED_AT"), "GITHUB_RUN_STARTED_AT")
    raise LedgerRefusal("missing-partition", f"{PARTITION_DATE} or GITHUB_RUN_STARTED_AT must be set")

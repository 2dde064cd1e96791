"""Shapes of identifiers (spec job-lifecycle 3). Randomness is handed in."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime

RUN_MODES = ("ext", "queue", "scan", "check")
SUFFIX = re.compile(r"[0-9a-f]{4}\Z")
NONCE = re.compile(r"[0-9a-f]{32}\Z")

# How often a clash is answered by another suffix of the same second before the id moves on to the next one. A second
# holds 65,536 ids only, and a fan-out over more targets than that has one creation time.
REDRAWS = 64

Draw = Callable[[int], str]
"""Draws that many random bytes as lower-case hex digits."""


def stamp(now: int, suffix: str) -> str:
    """`YYYYMMDD-HHMMSS-xxxx` in UTC for `now` in Unix milliseconds. Raises ValueError for another suffix."""
    if not SUFFIX.match(suffix):
        raise ValueError(f"suffix must be four lower-case hex digits, not {suffix!r}")
    return f"{datetime.fromtimestamp(now // 1000, UTC):%Y%m%d-%H%M%S}-{suffix}"


def job_id(now: int, suffix: str) -> str:
    """Id of a job: `d-…`."""
    return f"d-{stamp(now, suffix)}"


def execution_id(now: int, suffix: str) -> str:
    """Id of an execution: `e-…`."""
    return f"e-{stamp(now, suffix)}"


def run_id(mode: str, now: int, suffix: str) -> str:
    """Id of a run: `r-<mode>-…`. Raises ValueError for an unknown mode."""
    if mode not in RUN_MODES:
        raise ValueError(f"mode must be one of {', '.join(RUN_MODES)}, not {mode!r}")
    return f"r-{mode}-{stamp(now, suffix)}"


def new_nonce(draw: Draw) -> str:
    """A nonce: 128 random bits as 32 hex digits."""
    nonce = draw(16)
    if not NONCE.match(nonce):
        raise ValueError("a nonce is 32 lower-case hex digits")
    return nonce

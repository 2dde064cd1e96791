"""A run's environment, recorders with a hand-set clock, and trees for the ledger's file tests."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from moorage.clients.ledger.files import TrustedRoot
from moorage.clients.ledger.recorder import Recorder
from moorage.protocols.ledger.events import Event
from moorage.protocols.ledger.refusals import LedgerConflict, LedgerRefusal
from moorage.protocols.ledger.vocabulary import Phase, Status

ENVIRONMENT = {
    "CLAWSWEEPER_ACTION_LEDGER_FORCE": "1",
    "GITHUB_REPOSITORY": "openclaw/clawsweeper",
    "GITHUB_SHA": "0123456789abcdef0123456789abcdef01234567",
    "GITHUB_WORKFLOW_REF": "openclaw/clawsweeper/.github/workflows/sweep.yml@refs/heads/main",
    "GITHUB_JOB": "review",
    "GITHUB_RUN_ID": "100",
    "GITHUB_RUN_ATTEMPT": "1",
    "GITHUB_ACTION": "run_review",
    "GITHUB_RUN_STARTED_AT": "2026-07-12T09:59:00Z",
}
NOW_MS = 1_783_850_400_000
ISSUE = {"repository": "openclaw/openclaw", "kind": "issue", "number": 42}


class Crash(BaseException):
    """A process that stops here and now: no `except Exception` cleans up after it."""


def crash_at(step: int) -> tuple[Callable[[str], None], list[str]]:
    """A probe that stops at the `step`-th durable step, counted from 0, and the steps that it has seen."""
    seen: list[str] = []

    def probe(name: str) -> None:
        seen.append(name)
        if len(seen) - 1 == step:
            raise Crash(name)

    return probe, seen


def real(path: Path) -> str:
    """The path's real spelling, as roots demand."""
    return os.path.realpath(path)


def recorder_in(root: Path | TrustedRoot, *, clock: Iterator[int] | None = None, **changes: Any) -> Recorder:
    """A recorder below `root`; `changes` are environment variables, None removes one."""
    environment = {name: value for name, value in {**ENVIRONMENT, **changes}.items() if value is not None}
    now = (lambda: NOW_MS) if clock is None else clock.__next__
    return Recorder(root if isinstance(root, TrustedRoot) else real(root), environment=environment, now_ms=now)


def record_item(recorder: Recorder, index: int, **options: Any) -> Event:
    """Records the `index`-th item transition."""
    event = recorder.record_phase_event(
        **{
            "phase": Phase.review_item,
            "status": Status.completed,
            "identity": {"index": index},
            "component": "review_lane",
            "subject": ISSUE,
            "retryable": False,
            "mutation": False,
            "phase_seq": index,
            **options,
        }
    )
    assert event is not None
    return event


def tree(root: Path) -> dict[str, bytes]:
    """Every regular file below `root`, staging files left out."""
    return {
        str(path.relative_to(root)): path.read_bytes()
        for path in sorted(root.rglob("*"))
        if path.is_file() and not path.name.endswith(".tmp")
    }


class MemoryBlobs:
    """Create-only blobs, with a probe before every put."""

    def __init__(self) -> None:
        self.blobs: dict[str, bytes] = {}
        self.probe: Callable[[str], None] = lambda path: None

    def put(self, path: str, data: bytes) -> bool:
        self.probe(path)
        found = self.blobs.setdefault(path, data)
        if found != data:
            raise LedgerConflict("blob-conflict", "is taken", path)
        return found is data

    def get(self, path: str, limit: int) -> bytes | None:
        data = self.blobs.get(path)
        if data is not None and len(data) > limit:
            raise LedgerRefusal("byte-limit", "is too long", path)
        return data

    def get_range(self, path: str, offset: int, size: int) -> bytes | None:
        data = self.blobs.get(path)
        return None if data is None else data[offset : offset + size]

    def walk(self, prefix: str) -> Iterator[str]:
        return iter(sorted(path for path in self.blobs if path.startswith(f"{prefix.rstrip('/')}/")))

"""Refusals: one exception, with the exit code of the command line and the status of the HTTP answer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .states import Exit

# The wire code of a refusal -> (exit code, HTTP status). One table for both surfaces (spec 5).
REFUSALS: dict[str, tuple[Exit, int]] = {
    "usage": (Exit.REFUSED, 400),
    "invalid-ttl": (Exit.REFUSED, 400),
    "invalid-priority": (Exit.REFUSED, 400),
    "invalid-setting": (Exit.REFUSED, 400),
    "deterministic": (Exit.REFUSED, 400),
    "ambiguous": (Exit.REFUSED, 400),
    "extension-invalid": (Exit.REFUSED, 400),
    "template-invalid": (Exit.REFUSED, 400),
    "no-agent": (Exit.REFUSED, 409),
    "virtual-target": (Exit.REFUSED, 400),
    "no-findings": (Exit.REFUSED, 409),
    "drift": (Exit.REFUSED, 409),
    "unreadable": (Exit.REFUSED, 409),
    "already-terminal": (Exit.REFUSED, 409),
    "not-running": (Exit.REFUSED, 409),
    "report-unreadable": (Exit.REFUSED, 400),
    "report-invalid": (Exit.REFUSED, 422),
    "job-file-missing": (Exit.REFUSED, 409),
    "already-resolved": (Exit.REFUSED, 409),
    "not-dismissible": (Exit.REFUSED, 400),
    "duplicate": (Exit.DUPLICATE, 409),
    "running-conflict": (Exit.DUPLICATE, 409),
    "nonce-mismatch": (Exit.NONCE, 403),
    "not-found": (Exit.NOT_FOUND, 404),
    "no-database": (Exit.NOT_FOUND, 404),
}


class Refused(Exception):
    """An operation that changed nothing, or (`report-invalid`, `job-file-missing`) closed a job as failed.

    `code` is a key of `REFUSALS`, `message` one sentence for a person, `detail` the members that an answer adds.
    Neither ever holds a nonce.
    """

    def __init__(self, code: str, message: str, detail: Mapping[str, Any] | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.detail: dict[str, Any] = dict(detail or {})
        self.exit, self.status = REFUSALS[code]

"""The paths of the queue over HTTP and who may ask what: one table for the routes and for the client.

`record` wants no signature: the job's id and nonce are its credential, so the shared secret never has to enter a job
that works on untrusted content. What an operator decides is signed with the operator's secret.
"""

from __future__ import annotations

from typing import Literal

PREFIX = "/internal/jobs/"
EVENTS_PATH = PREFIX + "{queue}/stream"
DEFAULT_QUEUE = "default"
QUEUE_GRAMMAR = r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}"

WAIT_LIMIT_SECONDS = 55
"""Longest wait of one claim over HTTP, below the idle limit of common proxies; a client simply asks again."""

Who = Literal["webhook", "operator", "nobody"]

VERB_AUTH: dict[str, Who] = {
    "submit": "webhook",
    "claim": "webhook",
    "record": "nobody",
    "list": "webhook",
    "show": "webhook",
    "preview": "webhook",
    "status": "webhook",
    "history": "webhook",
    "findings": "webhook",
    "extensions": "webhook",
    "doctor": "webhook",
    "events": "webhook",
    "agent": "webhook",
    "cancel": "operator",
    "fail": "operator",
    "prune": "operator",
    "disable": "operator",
    "enable": "operator",
    "resolve": "operator",
    "dismiss": "operator",
    "reopen": "operator",
    "findings-prune": "operator",
    "findings-clear": "operator",
    "install": "operator",
    "targets": "operator",
}
"""`agent`, `install` and `targets` exist over HTTP only: they bring what a local queue reads from files."""


def path_of(verb: str, queue: str) -> str:
    """The path of a verb: `POST /internal/jobs/<queue>/<verb>`."""
    return f"{PREFIX}{queue}/{verb}"

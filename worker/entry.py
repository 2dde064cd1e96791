"""The state plane's classes, as `bundle/entry.py` exports them to whoever hosts the Worker."""

from typing import Any

from moorage.durable_objects.objects.etag_cache import GithubEtagCache
from moorage.durable_objects.objects.exact_review_queue import ExactReviewQueue
from moorage.durable_objects.objects.jobs import JobQueue
from moorage.durable_objects.objects.ledger_index import LedgerIndex
from moorage.durable_objects.objects.sessions import SessionCommits
from moorage.durable_objects.objects.sweep_state import SweepState
from moorage.wrangler_compat.workers import WorkerEntrypoint, asgi

from .app import StatePlane
from .test_store import test_store

app = StatePlane()


class Default(WorkerEntrypoint):
    """Hands every request to the ASGI application, with this Worker's bindings as `scope["env"]`."""

    async def fetch(self, request: Any) -> Any:
        return await asgi.fetch(app, request, self.env)


def moorage_started(env: Any) -> None:
    """Called by the host once, before the first request: warns of what an operator should know about the settings."""
    app.settings(env)


__all__ = [
    "Default",
    "ExactReviewQueue",
    "GithubEtagCache",
    "JobQueue",
    "LedgerIndex",
    "SessionCommits",
    "SweepState",
    "app",
    "moorage_started",
    "test_store",
]

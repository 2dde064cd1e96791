"""The queue object over plain sqlite3, driven without an event loop: for tests that take many thousand steps.

Nothing in it ever waits: storage is synchronous and the code host is in memory. `crash` forgets the instance
and makes a
new one over what was committed.
"""

from collections.abc import Callable, Coroutine
from types import SimpleNamespace
from typing import Any

from moorage.durable_objects.objects.codehost.local import RecordingCodeHost
from moorage.durable_objects.objects.exact_review_queue import ExactReviewQueue
from tests.objects.sqlite_storage import Storage
from tests.support.local_queue import queue_over

START = 1_796_048_000_000


def finished(work: Any) -> Any:
    """The result of a coroutine that does not wait, or `work` itself when it is none."""
    if not isinstance(work, Coroutine):
        return work
    try:
        work.send(None)
    except StopIteration as done:
        return done.value
    work.close()
    raise AssertionError("it waited for something")


class AlarmStorage(Storage):
    """`ctx.storage` with an alarm."""

    def __init__(self) -> None:
        super().__init__()
        self.alarm: int | None = None

    async def getAlarm(self) -> int | None:
        return self.alarm

    async def setAlarm(self, at: int) -> None:
        self.alarm = at


class QueueHarness:
    """One queue object, its clock and its code host."""

    def __init__(self, on_call: Callable[[str, tuple[Any, ...]], Any] | None = None, **variables: Any) -> None:
        self.storage = AlarmStorage()
        self.clock_ms = START
        self.host = RecordingCodeHost(on_call)
        self.random: Callable[[], float] = lambda: 0.5
        self.env = SimpleNamespace(
            EXACT_REVIEW_DISPATCH_DEBOUNCE_MS="0", EXACT_REVIEW_DISPATCH_DEBOUNCE_MAX_MS="0", **variables
        )
        self._leases = 0
        self.queue = self._open()

    def _open(self) -> ExactReviewQueue:
        context = SimpleNamespace(storage=self.storage, clock=SimpleNamespace(now=lambda: self.clock_ms))
        queue = queue_over(self.host)(context, self.env)
        queue.random = lambda: self.random()
        queue.new_lease_id = self._lease_id
        return queue

    def _lease_id(self) -> str:
        self._leases += 1
        return f"lease-{self._leases}"

    def crash(self) -> None:
        """The process dies: what was not committed is gone, and so is everything in memory."""
        if self.storage.sql.connection.in_transaction:
            self.storage.sql.connection.execute("ROLLBACK")
        self.queue = self._open()

    def call(self, method: str, *arguments: Any) -> dict[str, Any]:
        """What the method answers: `{status, value}`."""
        answer: dict[str, Any] = finished(getattr(self.queue, method)(*arguments))
        return answer

    def ok(self, method: str, *arguments: Any) -> dict[str, Any]:
        """The value of an answer that must be a success."""
        answer = self.call(method, *arguments)
        assert answer["status"] < 300, answer
        return answer["value"]  # type: ignore[no-any-return]

    def advance(self, milliseconds: int) -> None:
        """Moves the clock on and runs the alarm where it is due."""
        self.clock_ms += milliseconds
        for _ in range(1000):
            due = self.storage.alarm
            if due is None or due > self.clock_ms:
                return
            self.storage.alarm = None
            finished(self.queue.alarm())
        raise AssertionError("the alarm never comes to rest")

    def close(self) -> None:
        self.storage.close()


def decision(number: int, action: str = "opened", supersedes: bool = False, **more: Any) -> dict[str, Any]:
    """An issue's decision as it comes over the wire."""
    return {
        "targetRepo": "acme/widgets",
        "targetBranch": "main",
        "itemNumber": number,
        "itemKind": "issue",
        "sourceEvent": "issues",
        "sourceAction": action,
        "supersedesInProgress": supersedes,
        **more,
    }


def publication(number: int, run: int, lease_revision: int = 1) -> dict[str, Any]:
    """A publication's decision as it comes over the wire."""
    return decision(
        number,
        "exact_review_artifact_publish",
        publication={
            "artifactName": f"exact-review-{run}-1",
            "producerRunId": str(run),
            "producerRunAttempt": 1,
            "sourceSha": "a" * 40,
            "itemKey": f"acme/widgets#{number}",
            "protocolVersion": 2,
            "leaseRevision": lease_revision,
            "claimGeneration": 1,
            "liveProceeded": True,
            "liveTerminalNoop": False,
            "liveTerminalMissing": False,
            "liveGuardedOpen": False,
            "producerDecision": decision(number),
        },
    )


def plan(number: int, fence: str, revision: int, generation: int, text: str = "# Report\n") -> dict[str, Any]:
    """A direct publication plan that writes one report."""
    import base64

    content = text.encode()
    target = f"acme/widgets#{number}"
    return {
        "canonicalTargetKey": target,
        "fenceKey": fence,
        "revision": revision,
        "sourceSha": "e" * 40,
        "identity": {
            "canonicalTargetKey": target,
            "fenceKey": fence,
            "revision": revision,
            "claimGeneration": generation,
        },
        "operations": [
            {
                "path": f"records/acme-widgets/items/{number}.md",
                "deleted": False,
                "mode": "100644",
                "bytes": len(content),
                "contentBase64": base64.b64encode(content).decode(),
            }
        ],
        "totalBytes": len(content),
        "lifecycle": {"kind": "router"},
    }

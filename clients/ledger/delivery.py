"""The live copy of events: threads, deadlines and the record of what failed (spec action-ledger 15).

Who may send is decided by `moorage.protocols.ledger.admission`; here are the clock, the sockets, the failure events.
A delivery never blocks or fails the recording of its event: submitting returns at once, and whatever goes wrong
becomes a retryable `projection.failed` event without any detail of the answer or the token.
"""

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from moorage.protocols.ledger.admission import Admission, Step
from moorage.protocols.ledger.events import Event
from moorage.protocols.ledger.projections import (
    ProjectionRequest,
    failure_event,
    is_delivered,
    projection_request,
    projection_settings,
)
from moorage.protocols.ledger.refusals import LedgerRefusal
from moorage.protocols.ledger.validate import validate_record

from .recorder import Recorder
from .spool import require_marker

if TYPE_CHECKING:
    import ssl

log = logging.getLogger(__name__)

DIRECT: Final = "(direct)"
Send = Callable[[ProjectionRequest], int]


def https_sender(verify: "ssl.SSLContext | bool" = True) -> Send:
    """Sends a request with httpx and returns the status. Redirects are not followed; the answer's body is dropped."""

    def send(request: ProjectionRequest) -> int:
        import httpx

        with (
            httpx.Client(verify=verify, timeout=request.timeout_ms / 1000) as client,
            client.stream(
                "POST", request.url, content=request.body.encode(), headers=dict(request.headers)
            ) as answer,
        ):
            return answer.status_code

    return send


@dataclass(eq=False, slots=True)
class _Job:
    root: str
    event: Event
    request: ProjectionRequest | None
    recorder: Recorder | None
    result: "Future[None]"
    deadline: float = 0.0
    sending: bool = False
    over: bool = False
    code: str = field(default="")


class ProjectionQueue:
    """The process's queue of live deliveries. Safe to use from any thread.

    `send` does one request and returns its status; `monotonic` is the clock of the deadlines.
    """

    def __init__(self, send: Send | None = None, *, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._send = send or https_sender()
        self._monotonic = monotonic
        self._changed = threading.Condition()
        self._admission: Admission[str, _Job] = Admission()
        # Every job whose outcome is not yet settled and, when it failed, recorded.
        self._open: set[_Job] = set()
        self._failed: deque[_Job] = deque()
        self._keeper: threading.Thread | None = None

    def submit(self, recorder: Recorder, event: Event) -> None:
        """Queues a durable event, with the settings that the environment has now. Never raises."""
        request: ProjectionRequest | None = None
        code = ""
        try:
            settings = projection_settings(recorder.environment)
            if settings is None:
                return
            request = projection_request(event, settings)
        except LedgerRefusal as refusal:
            code = refusal.code
        self._enqueue(_Job(recorder.root.path, event, request, recorder, Future(), code=code))

    def post(self, record: Any, environment: Mapping[str, str]) -> "Future[None]":
        """Delivers one event without a spool. The future raises LedgerRefusal when it was not delivered.

        Raises at once what validation and the settings raise; done at once when projection is off.
        """
        event = validate_record(record)
        result: Future[None] = Future()
        settings = projection_settings(environment)
        if settings is None:
            result.set_result(None)
            return result
        self._enqueue(_Job(DIRECT, event, projection_request(event, settings), None, result))
        return result

    def drain(self, root: str, timeout_ms: int) -> None:
        """Waits for `root`'s deliveries, at most `timeout_ms`; those left then fail. Other roots are untouched."""
        deadline = self._monotonic() + timeout_ms / 1000
        with self._changed:
            while self._pending(root) and (left := deadline - self._monotonic()) > 0:
                self._changed.wait(left)
            self._apply(self._admission.drained(root))
            for job in [job for job in self._open if job.root == root and job.sending and not job.over]:
                self._time_out(job)
            # What is left is local: writing the failure events.
            while self._pending(root):
                self._changed.wait()

    def _pending(self, root: str) -> bool:
        return any(job.root == root for job in self._open)

    def _enqueue(self, job: _Job) -> None:
        with self._changed:
            self._open.add(job)
            if job.request is None:
                self._fail(job, job.code)
            else:
                job.deadline = self._monotonic() + job.request.timeout_ms / 1000
                self._apply(self._admission.enqueue(job.root, job))
            if self._keeper is None:
                # Not a daemon: an exiting process waits for the deadlines, so that no failure goes unrecorded.
                self._keeper = threading.Thread(target=self._keep, name="ledger-projections", daemon=False)
                self._keeper.start()
            self._changed.notify_all()

    def _apply(self, step: Step[_Job]) -> None:
        for job in step.started:
            assert job.request is not None
            job.sending = True
            job.deadline = self._monotonic() + job.request.timeout_ms / 1000
            # A daemon: a request that never settles must not keep the process.
            threading.Thread(target=self._deliver, args=(job,), name="ledger-delivery", daemon=True).start()
        for job, reason in step.rejected:
            self._fail(job, f"projection-{reason.replace('_', '-')}")

    def _deliver(self, job: _Job) -> None:
        code = ""
        try:
            assert job.request is not None
            if not is_delivered(self._send(job.request)):
                code = "projection-http"
        except Exception:
            # The error may quote the address, the answer or the token; none of it may reach the ledger or the log.
            code = "projection-http"
        with self._changed:
            if not job.over:
                if code:
                    self._fail(job, code)
                else:
                    self._finish(job)
            self._apply(self._admission.settled(job))
            self._changed.notify_all()

    def _time_out(self, job: _Job) -> None:
        self._fail(job, "projection-timeout")
        self._apply(self._admission.timed_out(job))

    def _finish(self, job: _Job) -> None:
        job.over = True
        self._open.discard(job)
        job.result.set_result(None)

    def _fail(self, job: _Job, code: str) -> None:
        job.over, job.code = True, code
        self._failed.append(job)
        self._changed.notify_all()

    def _keep(self) -> None:
        """Watches deadlines and writes failure events until nothing is open."""
        while True:
            with self._changed:
                while not self._failed:
                    if not self._open:
                        self._keeper = None
                        return
                    now = self._monotonic()
                    due = [job for job in self._open if not job.over and job.deadline <= now]
                    for job in due:
                        if job.sending:
                            self._time_out(job)
                        else:
                            self._apply(self._admission.expired(job))
                    if due:
                        continue
                    self._changed.wait(min((job.deadline for job in self._open if not job.over), default=now) - now)
                job = self._failed.popleft()
            self._record_failure(job)
            with self._changed:
                self._open.discard(job)
                job.result.set_exception(
                    LedgerRefusal(job.code, "the live copy was not delivered", job.event.event_id)
                )
                self._changed.notify_all()

    def _record_failure(self, job: _Job) -> None:
        if job.recorder is None:
            return
        recorder = job.recorder
        quiet = Recorder(
            recorder.root, environment=recorder.environment, now_ms=recorder.now_ms, waiting=recorder.waiting
        )
        try:
            date = require_marker(quiet.root, job.event.producer)
            quiet.store(failure_event(job.event, quiet.now_ms()), date)
        except Exception as error:
            # The event itself is durable; its failed copy is only a hint to try again.
            log.warning("could not record a failed live copy of %s: %s", job.event.event_id, type(error).__name__)


_process_queue: ProjectionQueue | None = None
_process_lock = threading.Lock()


def process_queue() -> ProjectionQueue:
    """The queue that all recorders of this process share, so that its bounds hold for the process."""
    global _process_queue
    with _process_lock:
        if _process_queue is None:
            _process_queue = ProjectionQueue()
        return _process_queue

"""Live delivery: failures are recorded, deadlines hold, a drain touches its own root only."""

import threading
from pathlib import Path

import pytest

from moorage.clients.ledger.delivery import ProjectionQueue
from moorage.clients.ledger.finalise import finalise
from moorage.clients.ledger.recorder import Recorder
from moorage.clients.ledger.spool import read_spool
from moorage.protocols.ledger.projections import ProjectionRequest
from moorage.protocols.ledger.refusals import LedgerRefusal

from .support import ENVIRONMENT, NOW_MS, real, record_item

LIVE = {
    **ENVIRONMENT,
    "CLAWSWEEPER_CRABFLEET_SESSION_ID": "s1",
    "CLAWSWEEPER_CRABFLEET_AGENT_TOKEN": "the-token",
    "CLAWSWEEPER_CRABFLEET_WORK_STATE_URL": "https://crabfleet.openclaw.ai/api/agent/interactive-sessions/s1/work-state",
}


class Endpoint:
    """A stand-in that answers when it is told to."""

    def __init__(self, status: int = 200) -> None:
        self.status = status
        self.requests: list[ProjectionRequest] = []
        self.gate = threading.Event()
        self.gate.set()
        self.arrived = threading.Condition()

    def __call__(self, request: ProjectionRequest) -> int:
        with self.arrived:
            self.requests.append(request)
            self.arrived.notify_all()
        assert self.gate.wait(60)
        return self.status

    def wait_for(self, count: int) -> None:
        with self.arrived:
            assert self.arrived.wait_for(lambda: len(self.requests) >= count, 30)


def _recorder(path: Path, queue: ProjectionQueue, **changes: str) -> Recorder:
    path.mkdir(exist_ok=True)
    return Recorder(real(path), environment={**LIVE, **changes}, now_ms=lambda: NOW_MS, projections=queue)


def _failures(recorder: Recorder) -> list[str]:
    return [
        str(event.parent) for event in read_spool(recorder.root) if event.record["event_type"] == "projection.failed"
    ]


def test_a_delivered_event_leaves_no_trace(tmp_path: Path) -> None:
    endpoint = Endpoint(204)
    queue = ProjectionQueue(endpoint)
    recorder = _recorder(tmp_path / "a", queue)
    event = record_item(recorder, 1)
    queue.drain(recorder.root.path, 30_000)
    assert [request.body.count(event.line) for request in endpoint.requests] == [1]
    assert "the-token" not in repr(endpoint.requests[0])
    assert _failures(recorder) == []


@pytest.mark.parametrize("status", [301, 404, 503])
def test_a_refused_event_is_recorded_without_any_detail(tmp_path: Path, status: int) -> None:
    queue = ProjectionQueue(Endpoint(status))
    recorder = _recorder(tmp_path / "a", queue)
    event = record_item(recorder, 1)
    queue.drain(recorder.root.path, 30_000)
    assert _failures(recorder) == [event.event_id]
    failure = next(event for event in read_spool(recorder.root) if event.parent)
    assert failure.record["action"]["retryable"] is True
    assert "the-token" not in failure.line
    assert str(status) not in failure.line.replace(failure.event_id, "")


def test_an_error_of_the_transport_is_a_failure(tmp_path: Path) -> None:
    def broken(request: ProjectionRequest) -> int:
        raise OSError(f"no route, {request.headers}")

    queue = ProjectionQueue(broken)
    recorder = _recorder(tmp_path / "a", queue)
    event = record_item(recorder, 1)
    queue.drain(recorder.root.path, 30_000)
    assert _failures(recorder) == [event.event_id]


def test_the_drains_deadline_fails_what_is_left_of_its_root_only(tmp_path: Path) -> None:
    endpoint = Endpoint()
    endpoint.gate.clear()
    queue = ProjectionQueue(endpoint)
    one, two = _recorder(tmp_path / "a", queue), _recorder(tmp_path / "b", queue)
    first = [record_item(one, index).event_id for index in range(1, 4)]
    other = [record_item(two, index).event_id for index in range(1, 4)]
    endpoint.wait_for(4)
    queue.drain(one.root.path, 1)
    assert sorted(_failures(one)) == sorted(first)
    assert _failures(two) == []
    endpoint.gate.set()
    queue.drain(two.root.path, 30_000)
    assert _failures(two) == []
    assert len(endpoint.requests) == 6
    assert other


def test_a_request_has_its_own_deadline_and_a_waiting_one_too(tmp_path: Path) -> None:
    endpoint = Endpoint()
    endpoint.gate.clear()
    queue = ProjectionQueue(endpoint)
    recorder = _recorder(tmp_path / "a", queue, CLAWSWEEPER_CRABFLEET_TIMEOUT_MS="1")
    events = [record_item(recorder, index).event_id for index in range(1, 7)]
    queue.drain(recorder.root.path, 30_000)
    assert sorted(_failures(recorder)) == sorted(events)
    assert len(endpoint.requests) <= 4
    # All four slots are unresolved: what comes now fails at once.
    late = record_item(recorder, 7)
    queue.drain(recorder.root.path, 30_000)
    assert late.event_id in _failures(recorder)
    endpoint.gate.set()


def test_settings_are_taken_when_an_event_is_queued(tmp_path: Path) -> None:
    endpoint = Endpoint()
    endpoint.gate.clear()
    queue = ProjectionQueue(endpoint)
    environment = dict(LIVE)
    recorder = Recorder(real(tmp_path), environment=environment, now_ms=lambda: NOW_MS, projections=queue)
    for index in range(1, 7):
        record_item(recorder, index)
    environment["CLAWSWEEPER_CRABFLEET_AGENT_TOKEN"] = "another"
    endpoint.gate.set()
    queue.drain(recorder.root.path, 30_000)
    assert {request.headers["authorization"] for request in endpoint.requests} == {"Bearer the-token"}
    assert len(endpoint.requests) == 6


def test_bad_settings_become_a_failure_event_and_never_an_error(tmp_path: Path) -> None:
    queue = ProjectionQueue(Endpoint())
    recorder = _recorder(tmp_path / "a", queue, CLAWSWEEPER_CRABFLEET_URL="https://other.example")
    event = record_item(recorder, 1)
    (tmp_path / "out").mkdir()
    paths = finalise(recorder, real(tmp_path / "out"), projections=queue)
    assert _failures(recorder) == [event.event_id]
    assert len(paths) == 2
    assert finalise(recorder, real(tmp_path / "out"), projections=queue) == paths


def test_a_direct_post_tells_its_caller(tmp_path: Path) -> None:
    recorder = _recorder(tmp_path / "a", ProjectionQueue(Endpoint()))
    record = record_item(recorder, 1).record
    assert ProjectionQueue(Endpoint()).post(record, LIVE).result(30) is None
    assert ProjectionQueue(Endpoint()).post(record, {}).result(30) is None
    with pytest.raises(LedgerRefusal, match="projection-http"):
        ProjectionQueue(Endpoint(500)).post(record, LIVE).result(30)
    with pytest.raises(LedgerRefusal, match="unknown-field"):
        ProjectionQueue(Endpoint()).post({**record, "extra": 1}, LIVE)

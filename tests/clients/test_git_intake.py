"""Intake through Git: the claim before the side effect, recovery before new work, killed after each step."""

import json
import sys
from collections import Counter
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from moorage.clients.errors import ConfigurationError
from moorage.clients.git.claims import Claim, ClaimConflict, InvalidClaim
from moorage.clients.git.dispatch import CommandDispatch, DispatchFailed, DispatchRefused, GithubDispatch
from moorage.clients.git.intake import MAX_RECOVERED, Intake, Taken, intake
from moorage.clients.git.receipts import recorded
from moorage.clients.git.repository import File, GitFailed, PushRejected
from moorage.clients.ledger.files import TrustedRoot
from moorage.clients.ledger.spool import read_spool
from moorage.clients.state_writer import LeaseLost
from tests.support.command_line import served_plane
from tests.support.git_remote import Leases, Remote

PENDING = "jobs/claims/pending"
DISPATCHED = "jobs/claims/dispatched"
STEPS = ("lease", "fetch", "push", "dispatch", "push")


class Receiver:
    """Counts what is dispatched, and checks that the claim was in the branch by then."""

    def __init__(self, remote: Remote) -> None:
        self.remote = remote
        self.seen = Counter[str]()
        self.failing: set[str] = set()

    def __call__(self, claim_id: str, event: str, payload: dict[str, Any]) -> None:
        held = json.loads(self.remote.files()[f"{PENDING}/{claim_id}.json"])
        assert (held["event"], held["payload"]) == (event, payload)
        if claim_id in self.failing:
            raise DispatchFailed("not today")
        self.seen[claim_id] += 1


@pytest.fixture
def remote(tmp_path: Path) -> Remote:
    made = Remote(tmp_path)
    made.rival_pushes({"README.md": "about"})
    return made


def work(remote: Remote, name: str = "w1", text: str = "job") -> Intake:
    files = {f"jobs/{name}.json": File(text.encode()), f"results/{name}.json": File(b"{}")}
    return Intake.of(str(remote.path), name, "go", {"n": 1}, files)


def test_the_claim_and_its_files_are_there_before_the_dispatch(remote: Remote) -> None:
    receiver, steps = Receiver(remote), list[str]()
    assert intake(work(remote), Leases().lease, receiver, after=steps.append) == Taken((), True)
    assert tuple(steps) == STEPS
    assert receiver.seen == {"w1": 1}
    files = remote.files()
    assert set(files) == {"README.md", "jobs/w1.json", "results/w1.json", f"{DISPATCHED}/w1.json"}
    assert remote.commits() == ["Dispatched w1", "Accept w1", "rival"]


def test_the_same_work_is_dispatched_once_and_other_work_is_refused(remote: Remote) -> None:
    receiver = Receiver(remote)
    intake(work(remote), Leases().lease, receiver)
    assert intake(work(remote), Leases().lease, receiver) == Taken((), False)
    with pytest.raises(ClaimConflict, match="w1"):
        intake(work(remote, text="other"), Leases().lease, receiver)
    assert receiver.seen == {"w1": 1}
    assert len(remote.commits()) == 3


@pytest.mark.parametrize("last", range(1, len(STEPS) + 1))
@pytest.mark.parametrize("next_work", ["w1", "w2", None])
def test_killed_after_any_step_the_next_run_goes_on(remote: Remote, last: int, next_work: str | None) -> None:
    class Killed(BaseException):
        pass

    receiver, steps = Receiver(remote), list[str]()

    def kill(step: str) -> None:
        steps.append(step)
        if len(steps) == last:
            raise Killed

    with pytest.raises(Killed):
        intake(work(remote), Leases().lease, receiver, after=kill)
    following = Intake(str(remote.path)) if next_work is None else work(remote, next_work)
    intake(following, Leases().lease, receiver)
    accepted = last >= 3 or next_work == "w1"
    # nobody can know whether a dispatch that was not written down happened: it is repeated, under the same id
    assert receiver.seen["w1"] == (2 if last == 4 else 1 if accepted else 0)
    assert receiver.seen["w2"] == (next_work == "w2")
    files = remote.files()
    assert not [name for name in files if name.startswith(PENDING)]
    assert (f"{DISPATCHED}/w1.json" in files) == ("jobs/w1.json" in files) == accepted


def test_new_work_waits_for_what_is_pending(remote: Remote) -> None:
    receiver = Receiver(remote)
    receiver.failing = {"w1"}
    with pytest.raises(DispatchFailed):
        intake(work(remote), Leases().lease, receiver)
    with pytest.raises(DispatchFailed):
        intake(work(remote, "w2"), Leases().lease, receiver)
    assert receiver.seen == {}
    assert f"{PENDING}/w2.json" not in remote.files()
    receiver.failing = set()
    assert intake(work(remote, "w2"), Leases().lease, receiver) == Taken(("w1",), True)
    assert receiver.seen == {"w1": 1, "w2": 1}


def test_a_rival_before_the_claim_is_pushed_prevents_the_dispatch(remote: Remote) -> None:
    receiver = Receiver(remote)

    def rival(step: str) -> None:
        if step == "fetch":
            remote.rival_pushes({"jobs/theirs.json": "1"})

    with pytest.raises(PushRejected):
        intake(work(remote), Leases().lease, receiver, after=rival)
    assert receiver.seen == {}
    assert intake(work(remote), Leases().lease, receiver) == Taken((), True)


def test_a_rival_after_the_dispatch_leaves_the_claim_pending(remote: Remote) -> None:
    receiver = Receiver(remote)

    def rival(step: str) -> None:
        if step == "dispatch":
            remote.rival_pushes({"jobs/theirs.json": "1"})

    with pytest.raises(PushRejected):
        intake(work(remote), Leases().lease, receiver, after=rival)
    assert f"{PENDING}/w1.json" in remote.files()
    assert intake(Intake(str(remote.path)), Leases().lease, receiver) == Taken(("w1",), False)
    assert f"{DISPATCHED}/w1.json" in remote.files()


def test_a_lost_lease_dispatches_nothing(remote: Remote) -> None:
    receiver, leases = Receiver(remote), Leases()

    def lose(step: str) -> None:
        leases.lost = step == "push"

    with pytest.raises(LeaseLost):
        intake(work(remote), leases.lease, receiver, after=lose)
    assert receiver.seen == {}
    assert f"{PENDING}/w1.json" in remote.files()


def test_a_broken_claim_and_too_many_claims_stop_the_intake(remote: Remote) -> None:
    remote.rival_pushes({f"{PENDING}/bad.json": "{"})
    with pytest.raises(InvalidClaim, match=r"bad\.json"):
        intake(work(remote), Leases().lease, Receiver(remote))
    remote.rival_pushes({f"{PENDING}/c{n}.json": "{}" for n in range(MAX_RECOVERED)})
    with pytest.raises(GitFailed, match="more than"):
        intake(work(remote), Leases().lease, Receiver(remote))


@pytest.mark.parametrize(
    ("name", "event", "path"),
    [
        ("", "go", "jobs/a"),
        ("../x", "go", "jobs/a"),
        (".x", "go", "jobs/a"),
        ("x" * 101, "go", "jobs/a"),
        ("w", "", "jobs/a"),
        ("w", "a b", "jobs/a"),
        ("w", "go", "records/a"),
        ("w", "go", "jobs/claims/pending/w.json"),
        ("w", "go", "jobs/Claims/x"),
    ],
)
def test_what_is_no_work(name: str, event: str, path: str) -> None:
    with pytest.raises(ConfigurationError):
        Intake.of("remote", name, event, {}, {path: File(b"")})


def test_a_payload_is_bounded() -> None:
    with pytest.raises(ConfigurationError, match="bytes"):
        Intake.of("remote", "w", "go", {"text": "x" * 300_000}, {})


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8), lambda inner: st.lists(inner, max_size=3)
)


@given(
    st.from_regex(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,20}", fullmatch=True),
    st.dictionaries(st.text(max_size=5), JSON, max_size=4),
)
def test_a_claim_is_read_as_it_was_written(name: str, payload: dict[str, Any]) -> None:
    claim = Claim.of(name, "go", payload, {"jobs/a": File(b"a")})
    assert Claim.decode(f"{name}.json", claim.encode()) == claim
    with pytest.raises(InvalidClaim):
        Claim.decode("another name.json", claim.encode())


@given(st.binary(max_size=60) | JSON.map(lambda value: json.dumps(value).encode()))
def test_anything_else_is_no_claim(content: bytes) -> None:
    with pytest.raises(InvalidClaim):
        Claim.decode("w.json", content)


def test_a_program_gets_the_claim(tmp_path: Path) -> None:
    script = "import sys, os; open(sys.argv[1], 'w').write(sys.stdin.read() + os.environ['MOORAGE_CLAIM_ID'])"
    CommandDispatch([sys.executable, "-c", script, str(tmp_path / "out")])("w1", "go", {"n": 1})
    assert (tmp_path / "out").read_text() == '{"claim_id": "w1", "event": "go", "payload": {"n": 1}}w1'
    with pytest.raises(DispatchFailed, match=r"status 3: no"):
        CommandDispatch([sys.executable, "-c", "import sys; print('no', file=sys.stderr); sys.exit(3)"])(
            "w1", "go", {}
        )
    with pytest.raises(DispatchFailed, match="cannot be run"):
        CommandDispatch([str(tmp_path / "missing")])("w1", "go", {})


def test_a_repository_dispatch() -> None:
    asked: list[httpx.Request] = []
    status = 204

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(request)
        if status == 0:
            raise httpx.ConnectError("refused")
        return httpx.Response(status)

    dispatch = GithubDispatch("acme/work", "t0ken", "http://127.0.0.1:9/api/", httpx.MockTransport(answer))
    dispatch("w1", "go", {"text": "\ud800"})
    assert str(asked[0].url) == "http://127.0.0.1:9/api/repos/acme/work/dispatches"
    assert asked[0].headers["authorization"] == "Bearer t0ken"
    assert json.loads(asked[0].content) == {
        "event_type": "go",
        "client_payload": {"claim_id": "w1", "payload": {"text": "\ud800"}},
    }
    for status in (0, 200, 404, 502):  # noqa: B007 - read by `answer`
        with pytest.raises(DispatchFailed) as failed:
            dispatch("w1", "go", {})
        assert "t0ken" not in str(failed.value)


@pytest.mark.parametrize(
    ("api", "token"), [("ftp://x", "t0ken"), ("http://x:99999", "t0ken"), ("http://127.0.0.1:9", "t0ken\nx")]
)
def test_a_dispatch_that_never_left_is_refused(api: str, token: str) -> None:
    with pytest.raises(DispatchRefused) as refused:
        GithubDispatch("acme/work", token, api)("w1", "go", {})
    assert "t0ken" not in str(refused.value)


def test_the_command(remote: Remote, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "source/jobs").mkdir(parents=True)
    (tmp_path / "source/jobs/a.json").write_text("1")
    out = tmp_path / "out"
    program = f"{sys.executable} -c \"import sys; open('{out}', 'a').write(sys.stdin.read())\""
    common = ("git", "intake", "--remote", str(remote.path), "--source", str(tmp_path / "source"))
    with served_plane(monkeypatch) as served:
        done = served.run(*common, "jobs/", "--id", "w1", "--payload", '{"n": 1}', "--run", program, "--json")
        assert done.exit_code == 0, done.output
        assert json.loads(done.output) == {"id": "w1", "dispatched": True, "recovered": []}
        assert json.loads(out.read_text())["payload"] == {"n": 1}
        again = served.run(*common, "jobs/", "--id", "w1", "--payload", '{"n": 1}', "--run", program)
        assert again.output.strip() == "w1 was dispatched before"
        assert served.run(*common, "--run", program).output.strip() == "nothing pending"
        for wrong in (
            ("--id", "w2"),
            ("--id", "w2", "--run", "x", "--github", "a/b"),
            ("--id", "w2", "--run", ""),
            ("--id", "w2", "--run", program, "--payload", "[]"),
            ("--id", "w2", "--run", program, "--payload", "NaN"),
            ("--id", "w2", "--run", program, "--payload", "@nowhere"),
            ("--id", "w2", "--github", "a/b"),
            ("jobs/", "--run", program),
        ):
            refused = served.run(*common, *wrong)
            assert refused.exit_code == 1, wrong
            assert refused.output.startswith("Error: "), refused.output
    assert len(remote.commits()) == 3


RECORDING = {
    "CLAWSWEEPER_ACTION_LEDGER_FORCE": "1",
    "CLAWSWEEPER_ACTION_LEDGER_PARTITION_DATE": "2026-11-30",
    "GITHUB_REPOSITORY": "acme/ops",
    "GITHUB_SHA": "a" * 40,
    "GITHUB_WORKFLOW": "intake.yml",
    "GITHUB_JOB": "intake",
    "GITHUB_RUN_ID": "501",
    "GITHUB_RUN_ATTEMPT": "1",
}


@pytest.mark.parametrize(
    ("error", "reason", "mutation"),
    [
        (None, "accepted", True),
        (DispatchRefused("status 422"), "rejected", False),
        (DispatchFailed("silence"), "outcome_unknown", True),
        (KeyboardInterrupt(), "outcome_unknown", True),
    ],
)
def test_a_dispatch_stands_between_its_receipts(
    error: BaseException | None, reason: str, mutation: bool, tmp_path: Path
) -> None:
    root = TrustedRoot(str(tmp_path))

    def inner(claim_id: str, event: str, payload: dict[str, Any]) -> None:
        [attempt] = read_spool(root)
        assert attempt.record["attributes"]["completion_reason"] == "dispatch_attempted"
        if error is not None:
            raise error

    dispatch = recorded(inner, "acme/work", {**RECORDING, "CLAWSWEEPER_ACTION_LEDGER_ROOT": str(tmp_path)})
    with nullcontext() if error is None else pytest.raises(type(error)):
        dispatch("w1", "go", {})
    [outcome] = [event.record for event in read_spool(root) if event.parent is not None]
    assert (outcome["attributes"]["completion_reason"], outcome["action"]["mutation"]) == (
        f"dispatch_{reason}",
        mutation,
    )


def test_what_cannot_be_recorded_is_not_dispatched(tmp_path: Path) -> None:
    called: list[str] = []
    environment = {"CLAWSWEEPER_ACTION_LEDGER_FORCE": "1", "CLAWSWEEPER_ACTION_LEDGER_ROOT": str(tmp_path)}
    dispatch = recorded(lambda claim_id, event, payload: called.append(claim_id), None, environment)
    with pytest.raises(ConfigurationError, match="cannot be recorded"):
        dispatch("w1", "go", {})
    assert called == []
    assert recorded(dispatch, None, {}) is dispatch

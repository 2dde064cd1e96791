"""`moorage ledger`: the way from an event to R2 and back, and what each refusal says."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from moorage.clients import cli
from moorage.clients.ledger.publisher import BlobSource, publish_tree
from moorage.clients.ledger.readers import iter_events
from moorage.clients.ledger.verify import verify_tree
from moorage.clients.ledger.worker_blobs import WorkerBlobs
from moorage.protocols.ledger.refusals import LedgerConflict, LedgerRefusal
from tests.support import command_line
from tests.support.command_line import Served, served_plane

from .support import ENVIRONMENT, real, tree
from .test_publisher import shards_of

PHASE = {
    "phase": "review.item",
    "status": "completed",
    "identity": {"index": 1},
    "component": "review_lane",
    "subject": {"repository": "openclaw/openclaw", "kind": "issue", "number": 42},
    "retryable": False,
    "mutation": False,
    "occurredAt": "2026-07-12T10:00:00Z",
}


def run(*arguments: str, text: str = "", env: dict[str, str | None] | None = None) -> Result:
    """Runs `moorage ledger …`."""
    given = {**ENVIRONMENT, **(env or {})}
    return CliRunner().invoke(cli.main, ["ledger", *arguments], input=text, env=given)


def lines(result: Result) -> list[Any]:
    """Standard output as JSON lines, of a call that succeeded."""
    assert result.exit_code == 0, result.output
    return [json.loads(line) for line in result.stdout.splitlines()]


@pytest.fixture
def root(tmp_path: Path) -> str:
    (tmp_path / "root").mkdir()
    (tmp_path / "out").mkdir()
    return real(tmp_path / "root")


def test_an_event_goes_from_record_to_history(root: str, tmp_path: Path) -> None:
    out = real(tmp_path / "out")
    recorded = lines(run("record", "--root", root, "--json", text=json.dumps(PHASE)))[0]
    assert run("record", "--root", root, text=json.dumps(PHASE)).stdout.strip() == recorded["eventId"]
    start = {**PHASE, "status": "started", "identity": {"index": 2}, "phaseSeq": 2}
    run("record", "--root", root, text=json.dumps(start))
    finalized = lines(
        run(
            "finalize",
            "--root",
            root,
            "--output",
            out,
            "--interrupt-open-attempts",
            "--reason",
            "cancelled",
            "--json",
        )
    )[0]
    assert len(finalized["paths"]) == 1
    assert len(finalized["interrupted"]) == 1
    assert run("finalize", "--root", root, "--output", out).stdout.split() == finalized["paths"]

    assert lines(run("verify", out, "--json"))[0]["events"] == 3
    (listed,) = lines(run("ls", out, "--json"))
    assert (listed["path"], listed["events"]) == (finalized["paths"][0], 3)
    history = run("history", out, "--subject", "openclaw/openclaw#42", "--type", "review")
    assert history.stdout.count("\n") == 3
    assert "2026-07-12T10:00:00Z  review.item completed  openclaw/openclaw#42" in history.stdout
    assert [
        event["event_id"] for event in lines(run("show", recorded["eventId"][:10], "--source", out, "--json"))
    ] == [recorded["eventId"]]
    assert len(lines(run("show", listed["path"], "--source", out, "--json"))) == 3
    assert lines(run("history", root, "--json")) == sorted(
        lines(run("history", root, "--json")), key=lambda event: event["occurred_at_source"] != "source"
    )


def test_views_are_rebuilt_and_compared(root: str, tmp_path: Path) -> None:
    run("record", "--root", root, text=json.dumps(PHASE))
    view = tmp_path / "view.json"
    assert run("rebuild", "reviews", root, "--out", str(view)).exit_code == 0
    assert run("rebuild", "reviews", root).stdout == view.read_text()
    assert run("rebuild", "reviews", root, "--compare", str(view)).exit_code == 0
    changed = json.loads(view.read_text())
    changed["openclaw/openclaw#42"]["omitted"] = 7
    view.write_text(json.dumps(changed))
    compared = run("rebuild", "reviews", root, "--compare", str(view), "--json")
    assert compared.exit_code == 1
    assert json.loads(compared.stdout) == {"pointer": "/openclaw~1openclaw#42/omitted", "legacy": "7", "events": "0"}


def test_a_tree_is_imported_compacted_and_pruned(tmp_path: Path) -> None:
    source = shards_of(tmp_path, "a", 3)
    (tmp_path / "state").mkdir()
    state = real(tmp_path / "state")
    imported = lines(run("import", "--source", source, "--dest", state, "--json"))[0]
    assert imported["created"] == 1
    assert lines(run("import", "--source", source, "--dest", state, "--json"))[0]["unchanged"] == 1
    other = run("import", "--source", source, "--dest", state, "--expected-producer-job", "other")
    assert other.exit_code == 1
    assert "producer-provenance" in other.stderr
    compacted = lines(run("compact", state, "--retention-months", "1", "--today", "2027-01-01", "--json"))
    assert [entry["shards"] for entry in compacted] == [1]
    assert lines(run("prune", state, "--json"))[0]["removed"] == imported["eventPaths"]
    assert lines(run("verify", state, "--event-bindings", "--json"))[0]["fault"] is None
    assert run("history", state).stdout.count("\n") == 3


def test_a_fault_is_named_with_its_place(tmp_path: Path) -> None:
    source = shards_of(tmp_path, "a", 3)
    (path,) = tree(Path(source))
    (Path(source) / path).chmod(0o600)
    (Path(source) / path).write_text((Path(source) / path).read_text().replace("completed", "cancelled", 1))
    found = run("verify", source)
    assert found.exit_code == 1
    assert "semantic-digest" in found.stdout
    assert f"{path}: line 1" in found.stdout


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("", "json-syntax"),
        ("[]", "not-object"),
        ('{"scope":"a.b","color":1}', "unknown-field"),
        ('{"phase":"review.item"}', "required"),
        (json.dumps({**PHASE, "phase": "review.started"}), "phase-type"),
        (json.dumps({**PHASE, "subject": {"repository": "x", "kind": "issue"}}), "repository"),
        (json.dumps({**PHASE, "identity": {"token": 1}}), "credential-field"),
    ],
)
def test_bad_input_is_one_clear_line_and_writes_nothing(root: str, text: str, code: str) -> None:
    plain = run("record", "--root", root, text=text)
    assert plain.exit_code == 1
    assert plain.stderr.startswith("Error: ")
    assert plain.stderr.count("\n") == 1
    given = run("record", "--root", root, "--json", text=text)
    assert given.exit_code == 1
    assert json.loads(given.stderr)["error"] == code
    assert tree(Path(root)) == {}


def test_bad_files_and_options_are_one_clear_line(root: str, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.write_bytes(b"\xff{")
    for arguments, text in (
        (("record", str(other), "--root", root), "not UTF-8 at byte 0"),
        (("rebuild", "reviews", root, "--out", "/nonexistent/view.json"), "No such file or directory"),
        (("rebuild", "reviews", root, "--compare", str(other)), "not UTF-8 at byte 0"),
        (("ls", root, "--month", "2026-07"), "--month is YYYY/MM"),
        (("prune",), "give ROOT or --remote"),
        (("prune", root, "--remote"), "give ROOT or --remote"),
    ):
        result = run(*arguments)
        assert result.exit_code in (1, 2)
        assert text in result.stderr
        assert result.exception is None or isinstance(result.exception, SystemExit)


def test_recording_that_is_off_says_so(root: str) -> None:
    result = run("record", "--root", root, "--json", text="{}", env={"CLAWSWEEPER_ACTION_LEDGER_FORCE": None})
    assert result.exit_code == 1
    off = run(
        "record", "--root", root, "--json", text=json.dumps(PHASE), env={"CLAWSWEEPER_ACTION_LEDGER_FORCE": None}
    )
    assert json.loads(off.stdout) == {"disabled": True}
    assert "CLAWSWEEPER_ACTION_LEDGER_FORCE" in off.stderr


@pytest.mark.parametrize(
    ("change", "where"),
    [({"component": 5}, "component"), ({"subject": [1]}, "subject"), ({"subject": None}, "subject")],
)
def test_members_of_other_types_are_named(root: str, change: dict[str, object], where: str) -> None:
    refused = run("record", "--root", root, "--json", text=json.dumps({**PHASE, **change}))
    assert refused.exit_code == 1
    assert json.loads(refused.stderr) | {"detail": ""} == {"error": "type", "detail": "", "where": where}
    action = {
        "scope": "a.b",
        "type": "a.b",
        "identity": 1,
        "component": "c",
        "subject": PHASE["subject"],
        "action": [1],
    }
    assert json.loads(run("record", "--root", root, "--json", text=json.dumps(action)).stderr)["where"] == "action"


def test_an_operator_reconciles_a_dispatch(root: str) -> None:
    dispatch = {
        **PHASE,
        "phase": "review.retry",
        "status": "started",
        "mutation": True,
        "idempotencyIdentity": {"number": 42},
        "attributes": {"completion_reason": "dispatch_attempted"},
    }
    receipt = lines(run("record", "--root", root, "--json", text=json.dumps(dispatch)))[0]["eventId"]
    (first,) = lines(run("reconcile", receipt, "--root", root, "--absent", "--json"))
    assert first["event"]["attributes"] == {"completion_reason": "dispatch_reconciled_absent"}
    assert run("reconcile", receipt, "--root", root, "--absent").stdout.strip() == first["eventId"]
    other = run("reconcile", receipt, "--root", root, "--present", "--json")
    assert json.loads(other.stderr)["error"] == "event-conflict"
    assert run("reconcile", receipt, "--root", root).exit_code == 2
    absent = run("reconcile", "0" * 64, "--root", root, "--present", "--json")
    assert json.loads(absent.stderr)["error"] == "missing"
    outcome = {
        **dispatch,
        "status": "completed",
        "parentEventId": receipt,
        "phaseSeq": 2,
        "attributes": {"completion_reason": "dispatch_accepted"},
    }
    accepted = lines(run("record", "--root", root, "--json", text=json.dumps(outcome)))[0]["eventId"]
    settled = run("reconcile", receipt, "--root", root, "--absent", "--json")
    assert json.loads(settled.stderr)["error"] == "settled"
    assert accepted in settled.stderr


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> Iterator[Served]:
    with served_plane(monkeypatch) as plane:
        yield plane


def test_publication_goes_through_the_workers_blobs(served: Served, tmp_path: Path) -> None:
    source = shards_of(tmp_path, "a", 4)
    env: dict[str, str | None] = dict(command_line.ENVIRONMENT)
    published = lines(run("publish", "--source", source, "--json", env=env))[0]
    assert (published["created"], published["unchanged"]) == (1, 0)
    assert lines(run("publish", "--source", source, "--json", env=env))[0]["unchanged"] == 1
    assert lines(run("verify", "--remote", "--event-bindings", "--json", env=env))[0] == {
        "shards": 1,
        "events": 4,
        "bytes": sum(map(len, tree(Path(source)).values())),
        "bindings": 7,
        "fault": None,
    }
    assert run("history", "--remote", env=env).stdout == run("history", source).stdout
    with served.client() as http:
        store = WorkerBlobs(http)
        assert sorted(store.walk("ledger/v1")) == published["paths"]
        assert [event.line for event in iter_events(BlobSource(store))] == [
            event.line for event in iter_events(source)
        ]
        assert store.get("ledger/v1/none", 10) is None
        assert store.get_range(published["eventPaths"][0], 10**9, 5) == b""
        with pytest.raises(LedgerRefusal, match="byte-limit"):
            store.get(published["eventPaths"][0], 10)
        with pytest.raises(LedgerConflict, match="blob-conflict"):
            store.put(published["eventPaths"][0], b"other")
        with pytest.raises(LedgerConflict, match="binding-conflict"):
            publish_tree(store, shards_of(tmp_path, "b", 5))
        assert verify_tree(BlobSource(store)).fault is None


def test_manifests_and_path_lists_publish_what_they_name(served: Served, root: str, tmp_path: Path) -> None:
    out, env = real(tmp_path / "out"), dict[str, str | None](command_line.ENVIRONMENT)
    command = {**PHASE, "phase": "command.received", "status": "received", "component": "router"}
    run("record", "--root", root, text=json.dumps(PHASE))
    run("record", "--root", root, text=json.dumps(command))
    finalized = lines(run("finalize", "--root", root, "--output", out, "--lane", "router", "--json"))[0]
    assert finalized["manifest"] == f"{out}/router.manifest.json"
    published = lines(
        run("publish", "--source", out, "--lane", "router", "--manifest", "router.manifest.json", "--json", env=env)
    )[0]
    assert len(published["eventPaths"]) == 1
    assert "/router." in published["eventPaths"][0]
    (tmp_path / "state").mkdir()
    imported = lines(run("import", "--source", out, "--dest", real(tmp_path / "state"), "--json"))[0]
    listed = tmp_path / "paths.txt"
    listed.write_text("\n".join(imported["paths"]))
    stored = lines(
        run("publish", "--source", real(tmp_path / "state"), "--paths-file", str(listed), "--json", env=env)
    )[0]
    assert stored["created"] + stored["unchanged"] == len(imported["paths"])
    assert stored["unchanged"] == len(published["paths"])
    wrong = run("publish", "--source", out, "--lane", "router", env=env)
    assert wrong.exit_code == 2

"""`moorage jobs`: usage, confirmations, pretty output, events, agent, records as targets, the remote."""

import json
from pathlib import Path
from typing import Any

import httpx
import pytest
from click.testing import CliRunner

from moorage.clients.cli import main
from moorage.clients.errors import ConfigurationError, InvalidAnswer, NotFound
from moorage.clients.jobs.cli import command
from moorage.clients.jobs.local import LocalQueue
from moorage.clients.jobs.remote import RemoteQueue, parse_stream
from moorage.clients.jobs.resolvers import RecordTargets
from moorage.clients.jobs.transport import Keys, Transport, refusal
from moorage.protocols.jobs.errors import REFUSALS, Refused
from moorage.protocols.jobs.routes import VERB_AUTH
from moorage.protocols.jobs.wire import VERBS

from ..contract.jobs_world import World
from ..contract.test_jobs import FIXTURE

CLEAN = '{"confidence": 0.5, "safety": {"injectionDetected": false, "contentQuality": "clean"}}'
START = 1_782_993_600_000


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path, FIXTURE, now=START)


def submit(world: World, *more: str, extension: str = "fx/brief") -> str:
    done = world.run(["submit", extension, "-n", "notes/a.md", *more])
    assert done.exit == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (["submit", "fx/brief", "-n", "notes/a.md", "--ttl", "007"], "--ttl"),
        (["submit", "fx/brief", "-n", "notes/a.md", "--priority", "-3"], "--priority=-3"),
        (["submit", "fx/brief", "-n", "notes/a.md", "--priority", "1e3"], "--priority"),
        (["submit", "fx/brief", "-n", "notes/a.md", "--all"], "not both"),
        (["submit"], "EXTENSION"),
        (["jobs"], "verb"),
        (["unheard-of"], "unheard-of"),
        (["record", "--id", "x", "--nonce", "n"], "--status"),
        (["findings", "resolve", "x"], "finding"),
        (["findings", "--since", "yesterday"], "--since"),
        (["findings", "--since", "9" * 5000], "--since"),
        (["findings", "--threshold", "2"], "--threshold"),
        (["findings", "prune"], "--yes"),
        (["findings", "clear", "--all"], "--yes"),
        (["plugins", "disable", "fx"], "--yes"),
        (["history", "--limit", "0"], "--limit"),
        (["push"], "--remote"),
        (["cancel"], "cancel"),
    ],
)
def test_usage_is_2_and_names_the_flag(world: World, argv: list[str], words: str) -> None:
    before = world.tables()
    done = world.run(argv)
    assert (done.exit, done.stdout) == (2, "")
    assert words in done.stderr
    assert world.tables() == before


def test_a_negative_priority_with_an_equals_sign(world: World) -> None:
    identifier = submit(world, "--priority=-3")
    assert json.loads(world.run(["jobs", "show", identifier, "--json"]).stdout)["priority"] == -3


def test_unknown_plugins_and_toggles(world: World) -> None:
    assert world.run(["plugins", "disable", "zz/none"]).exit == 5
    assert world.run(["plugins", "disable", "fx/brief"]).exit == 0
    assert world.run(["submit", "fx/brief", "-n", "notes/a.md"]).exit == 5
    shown = json.loads(world.run(["extensions", "--json"]).stdout)
    assert {entry["id"]: entry["enabled"] for entry in shown}["fx/brief"] is False
    assert world.run(["plugins", "enable", "fx/brief"]).exit == 0
    submit(world)


def test_people_get_tables(world: World) -> None:
    identifier = submit(world)
    assert world.run(["list"]).stdout.splitlines()[1].split()[:3] == [identifier, "queued", "fx/brief"]
    assert "status: queued" in world.run(["show", identifier]).stdout
    assert world.run(["status"]).stdout.splitlines()[0].split() == ["queued", "1"]
    assert world.run(["status", identifier]).stdout == "queued\n"
    assert '<user-content id="notes/a.md">' in world.run(["preview", "--last"]).stdout
    assert world.run(["cancel", identifier]).stdout == f"{identifier} cancelled\n"
    assert "completed" in world.run(["prune"]).stdout
    assert world.run(["history"]).stdout.startswith("ID")
    assert world.run(["doctor"]).stdout.splitlines()[0] == "ok    job-contents"
    assert "fx/probe" in world.run(["extensions"]).stdout
    assert world.run(["findings"]).stdout.startswith("ID")


def test_advisories_are_for_people_only(world: World) -> None:
    world.folder.agent_file.write_text("old")
    done = world.run(["submit", "fx/brief", "-n", "notes/a.md"])
    assert "agent install" in done.stderr
    done = world.run(["submit", "fx/digest", "-n", "notes/a.md", "--json"])
    assert (done.exit, done.stderr) == (0, "")


def test_events_in_order_without_the_nonce(world: World) -> None:
    identifier = submit(world)
    nonce = json.loads(world.run(["claim", "--json"]).stdout)["nonce"]
    world.run(["record", "--id", identifier, "--nonce", nonce, "--status", "completed", "--report", "-"], CLEAN)
    lines = [json.loads(line) for line in world.run(["events", "--json"]).stdout.splitlines()]
    assert [line["type"] for line in lines] == [
        "job.submitted", "job.claimed", "job.callback.received", "job.completed",
    ]  # fmt: skip
    assert all(set(line) == {"seq", "type", "timestamp", "runId", "jobId", "data"} for line in lines)
    later = world.run(["events", "--after", str(lines[-2]["seq"])]).stdout.splitlines()
    assert len(later) == 1
    text = world.run(["events", "--json"]).stdout + world.run(["list", "--json"]).stdout
    assert nonce not in text + world.run(["history", "--json", "--report"]).stdout


def test_a_reaped_job_has_a_short_run(world: World) -> None:
    submit(world, "--ttl", "1")
    world.run(["claim"])
    world.now += 1_001
    assert world.run(["claim"]).exit == 1
    lines = [json.loads(line) for line in world.run(["events", "--json"]).stdout.splitlines()][2:]
    assert [line["type"] for line in lines] == ["run.started", "job.failed", "run.summary"]
    assert lines[1]["data"]["reason"] == "abandoned"
    assert len({line["runId"] for line in lines}) == 1


def test_reports_that_are_no_text(world: World) -> None:
    identifier = submit(world)
    nonce = json.loads(world.run(["claim", "--json"]).stdout)["nonce"]
    (world.root / "r.json").write_bytes(b'{"confidence": 1, "x": "\xff"}')
    done = world.run(["record", "--id", identifier, "--nonce", nonce, "--status", "completed", "--report", "r.json"])
    assert done.exit == 2
    assert world.tables()["jobs"][(identifier,)]["failureReason"] == "report-invalid"


def test_the_findings_view_and_its_filters(world: World) -> None:
    identifier = submit(world, extension="fx/probe")
    nonce = json.loads(world.run(["claim", "--json"]).stdout)["nonce"]
    findings = [
        {"type": "vague", "severity": "warn", "message": "m1", "confidence": 0.9},
        {"type": "dull", "severity": "info", "message": "m2", "confidence": 0.1},
        {"type": "vague", "severity": "error", "message": "m3"},
    ]
    report = json.dumps({**json.loads(CLEAN), "findings": findings})
    world.run(["record", "--id", identifier, "--nonce", nonce, "--status", "completed", "--report", "-"], report)

    def messages(*argv: str) -> list[str]:
        answer = json.loads(world.run(["findings", "--json", *argv]).stdout)
        assert answer["total"] == len(answer["findings"])
        return [finding["message"] for finding in answer["findings"]]

    assert messages() == ["m1", "m2", "m3"]
    assert messages("--type", "vague") == ["m1", "m3"]
    assert messages("--severity", "info") == ["m2"]
    assert messages("--threshold", "0.5") == ["m1", "m3"]
    assert messages("--extension", "probe", "-n", "notes/a.md") == ["m1", "m2", "m3"]
    assert messages("--since", str(START + 1)) == []
    assert messages("--since", "2026-07-02") == ["m1", "m2", "m3"]
    ids = {f["message"]: f["id"] for f in json.loads(world.run(["findings", "--json"]).stdout)["findings"]}
    world.run(["findings", "resolve", str(ids["m1"]), "--note", "done"])
    world.run(["findings", "dismiss", str(ids["m2"])])
    answer = json.loads(world.run(["findings", "--json"]).stdout)
    assert (answer["dismissedExcluded"], answer["fixedExcluded"]) == (1, 1)
    assert messages("--fixed") == ["m1"]
    assert messages("--dismissed") == ["m2"]
    assert "1 dismissed and 1 fixed" in world.run(["findings"]).stderr
    # numbers of findings are never used again
    world.run(["findings", "clear", "--all", "--yes"])
    again = submit(world, "--force", extension="fx/probe")
    nonce = json.loads(world.run(["claim", "--json"]).stdout)["nonce"]
    world.run(["record", "--id", again, "--nonce", nonce, "--status", "completed", "--report", "-"], report)
    new = {f["id"] for f in json.loads(world.run(["findings", "--json"]).stdout)["findings"]}
    assert min(new) > max(ids.values())


def test_agent_and_init(tmp_path: Path) -> None:
    runner = CliRunner()
    base = ["jobs", "--dir", str(tmp_path)]
    (tmp_path / "a.md").write_text("hello")
    assert runner.invoke(main, [*base, "list"]).exit_code == 5
    assert runner.invoke(main, [*base, "init"]).output == "1 targets\n"
    status = runner.invoke(main, [*base, "agent", "status"])
    assert (status.exit_code, status.output) == (1, "absent\n")
    assert runner.invoke(main, [*base, "agent", "install"]).exit_code == 0
    assert runner.invoke(main, ["jobs", "agent", "status", "--dir", str(tmp_path)]).output == "present\n"
    assert json.loads(runner.invoke(main, [*base, "scan", "--json"]).output) == {"targets": 1, "problems": []}


def test_a_file_that_is_no_database(tmp_path: Path) -> None:
    home = tmp_path / ".moorage" / "jobs"
    home.mkdir(parents=True)
    (home / "queue.sqlite").write_bytes(b"no database at all, only text" * 100)
    result = CliRunner().invoke(command, ["--dir", str(tmp_path), "list"])
    assert result.exit_code == 2
    assert "cannot be used" in result.output


# -- records as targets, and the remote ---------------------------------------------------------------------------


def transport(handler: Any) -> Transport:
    return Transport("http://127.0.0.1:1", Keys("w", "o"), transport=httpx.MockTransport(handler))


def test_a_canonical_record_is_a_target_of_a_local_job(world: World) -> None:
    seen: list[httpx.Request] = []
    content = ["# Item 7\n"]

    def handler(request: httpx.Request) -> httpx.Response:
        seen.append(request)
        if request.url.path.endswith("/7"):
            return httpx.Response(200, json={"content": content[0], "digest": "d", "revision": 1})
        return httpx.Response(404, json={"error": "record_not_found"})

    client = transport(handler)
    node = "record:example-widgets/items/7"
    with LocalQueue.open(
        world.root, ambient=world.ambient(), more_targets={"record:": RecordTargets(client)}
    ) as queue:
        job = queue.call("submit", {"extension": "fx/brief", "node": node})["job"]
        assert job["nodeId"] == node
        assert f'<user-content id="{node}">\n# Item 7\n\n</user-content>' in queue.call("preview", {})["content"]
        assert seen[0].url.path == "/internal/state/records/example-widgets/items/7"
        assert 'keyid="webhook"' in seen[0].headers["signature-input"]
        for missing in ("record:example-widgets/items/8", "record:no", "record:a/b/1"):
            with pytest.raises(Refused) as caught:
                queue.call("submit", {"extension": "fx/brief", "node": missing})
            assert caught.value.code == "not-found"
        content[0] = "# Item 7, edited\n"
        assert (
            queue.call("submit", {"extension": "fx/brief", "node": node})["job"]["contentHash"] != job["contentHash"]
        )
    client.close()


def test_the_remote_signs_by_the_table_and_passes_refusals_on() -> None:
    seen: dict[str, Any] = {}

    def handler(request: httpx.Request) -> httpx.Response:
        seen["path"], seen["body"] = request.url.path, json.loads(request.content)
        seen["input"] = request.headers.get("signature-input", "")
        if seen["path"].endswith("/show"):
            return httpx.Response(404, json={"error": "job_not_found", "message": "no job x"})
        if seen["path"].endswith("/list"):
            return httpx.Response(400, json={"error": "something_else"})
        return httpx.Response(200, json={"job": None, "events": [], "executionId": "e"})

    client = transport(handler)
    queue = RemoteQueue(client, "q-1")
    for verb, who in VERB_AUTH.items():
        if verb not in ("show", "list"):
            queue.call(verb, {"id": None})
            assert seen["path"] == f"/internal/jobs/q-1/{verb}"
            assert seen["body"] == {}
            assert (f'keyid="{who}"' in seen["input"]) == (who != "nobody"), verb
    with pytest.raises(Refused, match="no job x") as caught:
        queue.call("show", {"id": "x"})
    assert int(caught.value.exit) == 5
    with pytest.raises(Exception, match="something_else"):
        queue.call("list", {})

    def unreadable() -> str:
        raise Refused("report-unreadable", "--report r.json: No such file")

    queue.record({"id": "j", "nonce": "n", "status": "completed"}, unreadable)
    assert seen["body"]["reportUnreadable"] == "--report r.json: No such file"
    client.close()
    with pytest.raises(Refused, match="no name of a queue"):
        RemoteQueue(client, "a/b")


def test_claims_are_never_sent_twice_and_waits_are_repeated() -> None:
    bodies: list[dict[str, Any]] = []
    answers = [
        httpx.Response(200, json={"job": None}),
        httpx.Response(503, json={"error": "internal_error"}),
        httpx.Response(200, json={"job": {"id": "d"}}),
    ]

    def handler(request: httpx.Request) -> httpx.Response:
        bodies.append(json.loads(request.content))
        return answers[len(bodies) - 1]

    client = transport(handler)
    waited: list[float] = []
    queue = RemoteQueue(client, monotonic=lambda: sum(waited), sleep=waited.append)
    assert queue.claim_wait("fx", interval=3)["job"] == {"id": "d"}
    assert bodies == [{"filter": "fx", "waitSeconds": 55.0, "interval": 3}] * 3
    assert waited == [3]
    client.close()


def test_a_wait_ends_in_time_though_the_server_has_gone() -> None:
    answers = [httpx.Response(200, json={"job": None})]

    def handler(request: httpx.Request) -> httpx.Response:
        if answers:
            return answers.pop()
        raise httpx.ConnectError("refused")

    client = transport(handler)
    waited: list[float] = []
    queue = RemoteQueue(client, monotonic=lambda: sum(waited), sleep=waited.append)
    assert queue.claim_wait(interval=4, timeout=70) == {"job": None}
    assert sum(waited) == 70
    client.close()


def test_a_first_failure_of_a_wait_is_told() -> None:
    client = transport(lambda request: httpx.Response(503, json={"error": "internal_error"}))
    with pytest.raises(Exception, match="internal_error"):
        RemoteQueue(client).claim_wait()
    client.close()


def test_a_missing_secret_is_named() -> None:
    client = Transport("http://127.0.0.1:1", Keys())
    with pytest.raises(ConfigurationError, match="EXACT_REVIEW_OPERATOR_SECRET"):
        RemoteQueue(client).call("cancel", {"all": True})
    assert "secret" not in repr(Keys("secret", "secret"))


def test_every_refusal_survives_the_wire() -> None:
    for code in REFUSALS:
        body = {"error": f"job_{code.replace('-', '_')}", "message": "m", "existingId": "d"}
        found = refusal(body)
        assert found is not None
        assert (found.code, found.message, found.detail) == (code, "m", {"existingId": "d"})
    assert refusal({"error": "job_unheard_of", "message": "m"}) is None
    assert refusal({"error": "invalid_signature"}) is None


def test_every_verb_has_its_route() -> None:
    assert set(VERBS) | {"agent", "install", "targets"} == set(VERB_AUTH)


def test_server_sent_events_are_read() -> None:
    lines = [
        "retry: 2000",
        "id: 4",
        "",
        ": still here",
        "",
        "id: 5",
        "event: x",
        'data: {"a":',
        "data: 1}",
        "",
        "id: 6",
    ]
    assert list(parse_stream(iter(lines))) == [(4, None), (4, None), (5, {"a": 1})]


def test_events_are_resumed_where_they_were_lost() -> None:
    first = b'id: 4\n\nid: 5\ndata: {"type":"job.submitted","text":"a\xe2\x80\xa8b"}\n\nid: 6\ndata: {"ty'
    answers = [
        httpx.Response(200, content=first),
        httpx.Response(503, json={"error": "internal_error"}),
        httpx.Response(200, content=b'id: x\ndata: {"type":"job.claimed"}\n\ndata: no JSON\n\n'),
    ]
    asked: list[tuple[str, str]] = []

    def handler(request: httpx.Request) -> httpx.Response:
        asked.append((request.url.raw_path.decode(), request.headers["last-event-id"]))
        return answers[len(asked) - 1]

    client = transport(handler)
    waited: list[float] = []
    events = RemoteQueue(client, "q", sleep=waited.append).events()
    assert next(events) == (5, {"type": "job.submitted", "text": "a\u2028b"})
    # what cannot be read moves no number
    assert next(events) == (5, {"type": "job.claimed"})
    with pytest.raises(InvalidAnswer, match="not JSON"):
        next(events)
    path = "/internal/jobs/q/stream"
    assert asked == [(path + "?from=now", "0"), (path, "5"), (path, "5")]
    assert waited == [2, 2]
    client.close()


def test_a_refused_stream_is_not_asked_for_again() -> None:
    answers = [httpx.Response(200, content=b"id: 1\n\n"), httpx.Response(404, json={"error": "not_found"})]
    client = transport(lambda request: answers.pop(0))
    with pytest.raises(NotFound):
        list(RemoteQueue(client, sleep=lambda seconds: None).events(1))
    answers = [httpx.Response(404, json={"error": "job_no_database", "message": "there is no queue q"})]
    with pytest.raises(Refused, match="there is no queue q") as caught:
        list(RemoteQueue(client).events())
    assert int(caught.value.exit) == 5
    client.close()


def test_a_push_brings_a_folder(world: World) -> None:
    world.folder.skills.joinpath("tidy").mkdir(parents=True)
    world.folder.skills.joinpath("tidy/SKILL.md").write_text("---\nversion: 3.1.0\n---\nTidy up.\n")
    world.write("notes/bad.md", "---\n[\n---\nx")
    bodies: dict[str, list[Any]] = {}

    def handler(request: httpx.Request) -> httpx.Response:
        bodies.setdefault(request.url.path.rpartition("/")[2], []).append(json.loads(request.content))
        return httpx.Response(200, json={})

    client = transport(handler)
    seen: list[tuple[int, int]] = []
    answer = RemoteQueue(client).push(world.folder, lambda done, every: seen.append((done, every)))
    client.close()
    assert {key: answer[key] for key in ("extensions", "skills", "targets")} == {
        "extensions": len(FIXTURE["extensions"]), "skills": 1, "targets": 4,
    }  # fmt: skip
    assert answer["problems"][0].startswith("notes/bad.md")
    assert seen == [(4, 4)]
    assert bodies["install"][0]["skills"] == {"tidy": {"version": "3.1.0", "body": "Tidy up.\n"}}
    assert bodies["agent"] == [{"version": 1}]
    first = bodies["targets"][0]["targets"][0]
    assert (first["path"], first["body"]) == ("notes/a.md", "Body of note a.\n")
    assert bodies["targets"][0]["replace"] is True

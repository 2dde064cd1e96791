"""The local queue on real files: scan and drift, sidecars, manifests, issues, presence, waiting, crashes."""

import contextlib
import json
import os
import sqlite3
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from moorage.clients.jobs.database import QueueDatabase
from moorage.clients.jobs.extensions import FileExtensions
from moorage.clients.jobs.folder import JobsFolder
from moorage.clients.jobs.local import Ambient, LocalQueue
from moorage.clients.jobs.presence import FilePresence
from moorage.clients.jobs.remote import RemoteQueue
from moorage.clients.jobs.sidecars import sidecar_of
from moorage.clients.jobs.targets import split_frontmatter
from moorage.protocols.jobs import sql
from moorage.protocols.jobs.errors import Refused
from moorage.protocols.jobs.schemas import FINDINGS, REPORT_BASE
from moorage.protocols.jobs.steps import Statement, Steps

CLEAN = {"confidence": 0.5, "safety": {"injectionDetected": False, "contentQuality": "clean"}}


class Project:
    """A folder with one extension of each kind that a test asks for."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.folder = JobsFolder(root)
        self.write("notes/a.md", "---\nname: a\n---\nBody of a.\n")
        FilePresence(self.folder).install()
        self.extension("fx/brief")
        self.extension("fx/probe", "analyzer", FINDINGS)

    def write(self, path: str, text: str) -> None:
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def extension(self, name: str, kind: str = "action", schema: str = REPORT_BASE, **more: Any) -> Path:
        plugin, _, short = name.partition("/")
        home = self.folder.extensions / plugin / f"{kind}s" / short
        home.mkdir(parents=True, exist_ok=True)
        manifest = {"id": name, "kind": kind, "version": "1.0.0", "probExpectedDurationSeconds": 60, **more}
        (home / "manifest.json").write_text(json.dumps(manifest))
        (home / "prompt.md").write_text("Do it.\n\n{{userContent}}\n")
        (home / "report.schema.json").write_text(json.dumps({"allOf": [{"$ref": schema}]}))
        return home

    def config(self, **jobs: Any) -> None:
        self.folder.home.mkdir(parents=True, exist_ok=True)
        self.folder.config_file.write_text(json.dumps({"jobs": jobs}))

    def open(self, **more: Any) -> LocalQueue:
        return LocalQueue.open(self.root, create=True, **more)


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path)


def refusal(queue: LocalQueue, verb: str, body: dict[str, Any]) -> Refused:
    with pytest.raises(Refused) as caught:
        queue.call(verb, body)
    return caught.value


@pytest.mark.parametrize(
    ("text", "block", "body"),
    [
        ("---\na: 1\n---\nB\n", "a: 1\n", "B\n"),
        ("---\r\na: 1\r\n---\r\nB\r\n", "a: 1\r\n", "B\r\n"),
        ("---\n---\n", "", ""),
        ("---\na: 1\nB\n", None, "---\na: 1\nB\n"),
        ("B\n---\na\n---\n", None, "B\n---\na\n---\n"),
        ("", None, ""),
    ],
)
def test_frontmatter(text: str, block: str | None, body: str) -> None:
    assert split_frontmatter(text) == (block, body)


def test_a_scan_finds_files_and_forgets_them(project: Project) -> None:
    project.write(".hidden/x.md", "no")
    project.write("notes/bad.md", "---\n: [\n---\nBody\n")
    project.write("agents/z.md", "Agent")
    project.config(
        targets={"rules": [{"match": "agents/*", "kind": "agent", "provider": "claude"}], "virtual": ["server"]}
    )
    with project.open() as queue:
        found = queue.scan()
        assert found.targets == 4
        assert found.problems[0].startswith("notes/bad.md: the frontmatter is not YAML")
        assert {(t.path, t.kind, t.virtual) for t in queue.files.list()} == {
            ("agents/z.md", "agent", False),
            ("notes/a.md", "markdown", False),
            ("notes/bad.md", "markdown", False),
            ("server", "markdown", True),
        }
        assert refusal(queue, "submit", {"extension": "fx/brief", "node": "server"}).code == "virtual-target"
        (project.root / "agents/z.md").unlink()
        queue.scan()
        assert refusal(queue, "submit", {"extension": "fx/brief", "node": "agents/z.md"}).code == "not-found"


def test_why_a_body_cannot_be_read(project: Project, tmp_path_factory: pytest.TempPathFactory) -> None:
    outside = tmp_path_factory.mktemp("outside") / "far.md"
    outside.write_text("far away")
    project.write("notes/b.md", "b")
    project.write("notes/c.md", "c")
    project.write("notes/d.md", "d")
    (project.root / "notes/far.md").symlink_to(outside)
    project.config(targets={"followExternalSymlinks": True})
    with project.open() as queue:
        queue.scan()
        project.config()
        for path, cause in (("notes/b.md", "file deleted"), ("notes/c.md", "broken symbolic link")):
            (project.root / path).unlink()
            if cause == "broken symbolic link":
                (project.root / path).symlink_to("nowhere")
            assert cause in refusal(queue, "submit", {"extension": "fx/brief", "node": path}).message
        (project.root / "notes/d.md").write_bytes(b"\xff")
        assert "UTF-8" in refusal(queue, "submit", {"extension": "fx/brief", "node": "notes/d.md"}).message
        far = refusal(queue, "submit", {"extension": "fx/brief", "node": "notes/far.md"})
        assert "followExternalSymlinks" in far.message
        project.config(targets={"followExternalSymlinks": True})
        followed = queue.call("submit", {"extension": "fx/brief", "node": "notes/far.md"})
        assert followed["job"]["nodeId"] == "notes/far.md"


def test_a_refused_manifest_says_what_would_be_right(project: Project) -> None:
    project.extension("fx/slow", probExpectedDurationSeconds=0)
    project.extension("fx/blind", "analyzer")
    home = project.extension("fx/lost")
    (home / "prompt.md").unlink()
    (project.extension("fx/broken") / "manifest.json").write_text("{")
    project.extension("fx/moved").rename(project.folder.extensions / "fx/actions/elsewhere")
    project.extension("fx/closed", precondition={"colour": []})
    problems = {found.id: found.problem for found in FileExtensions(project.folder).all()}
    assert "positive integer" in str(problems["fx/slow"])
    assert "findings schema" in str(problems["fx/blind"])
    assert "JSON" in str(problems["fx/broken"])
    assert "fx/moved" in str(problems["fx/elsewhere"])
    assert "colour" in str(problems["fx/closed"])
    assert problems["fx/brief"] is None
    with project.open() as queue:
        queue.scan()
        for name in ("fx/slow", "fx/lost", "fx/broken"):
            error = refusal(queue, "submit", {"extension": name, "node": "notes/a.md"})
            assert (error.code, int(error.exit)) == ("extension-invalid", 2)


def suppress(project: Project, *entries: dict[str, Any]) -> None:
    text = json.dumps({"owner": "me", "annotations": {"tags": ["t"], "suppressions": list(entries), "more": 1}})
    sidecar_of(project.root, "notes/a.md").write_text(text)


def test_a_dismissed_finder_is_lifted_with_consent(project: Project) -> None:
    suppress(project, {"extension": "probe"}, {"extension": "fx/other", "type": "x"})
    with project.open() as queue:
        queue.scan()
        kept = queue.call("submit", {"extension": "fx/probe", "node": "notes/a.md"})
        assert "recorded hidden" in kept["advisories"][0]
        assert "every type" in kept["advisories"][0]
        job = queue.call("claim", {})["job"]
        finding = {"type": "vague", "severity": "warn", "message": "m"}
        report = json.dumps({**CLEAN, "findings": [finding]})
        queue.record({"id": job["id"], "nonce": job["nonce"], "status": "completed"}, lambda: report)
        assert queue.call("findings", {})["dismissedExcluded"] == 1
        assert len(queue.call("findings", {"bucket": "dismissed"})["findings"]) == 1

        project.config(allowSidecarEdits=True)
        lifted = queue.call("submit", {"extension": "fx/probe", "node": "notes/a.md"})
        assert "no longer dismissed" in lifted["advisories"][0]
        whole = json.loads(sidecar_of(project.root, "notes/a.md").read_text())
        assert whole == {
            "owner": "me",
            "annotations": {"tags": ["t"], "suppressions": [{"extension": "fx/other", "type": "x"}], "more": 1},
        }
        # the mirror follows at once, without a scan
        assert queue.call("findings", {})["total"] == 1


def test_the_mirror_heals_when_a_sidecar_was_deleted(project: Project) -> None:
    suppress(project, {"extension": "fx/probe"})
    with project.open() as queue:
        queue.scan()
        assert queue.engine.suppressions.mirrored("notes/a.md")
        sidecar_of(project.root, "notes/a.md").unlink()
        assert queue.call("submit", {"extension": "fx/probe", "node": "notes/a.md"})["advisories"] == []
        assert queue.engine.suppressions.mirrored("notes/a.md") == []


def test_fixers_of_deterministic_analyzers(project: Project) -> None:
    links = project.folder.extensions / "core/analyzers/links"
    links.mkdir(parents=True)
    manifest = {"id": "core/links", "kind": "analyzer", "version": "1.0.0", "mode": "deterministic"}
    (links / "manifest.json").write_text(json.dumps(manifest))
    project.extension("fx/repoint", precondition={"analyzerIds": ["core/links"]})
    submit = {"extension": "fx/repoint", "node": "notes/a.md"}
    with project.open() as queue:
        queue.scan()
        assert refusal(queue, "submit", submit).code == "no-findings"
        assert refusal(queue, "submit", {**submit, "findingIds": [1]}).code == "usage"
        data = {"target": "gone.md", "kind": "link"}
        issue = {"node": "notes/a.md", "analyzerId": "links", "severity": "warn", "message": "broken", "data": data}
        project.folder.issues_file.write_text(json.dumps([issue, {**issue, "node": "notes/b.md"}]))
        first = queue.call("submit", submit)["job"]
        content = queue.call("preview", {"id": first["id"]})["content"]
        section = content.split("## Issues to resolve")[1]
        entries = json.loads(section.split("```json\n")[1].split("\n```")[0])
        assert entries == [{"target": "gone.md", "kind": "link", "severity": "warn", "message": "broken"}]
        # another set of issues is another job, and the queued one gives way
        project.folder.issues_file.write_text(json.dumps([{**issue, "message": "still broken"}]))
        second = queue.call("submit", submit)
        assert second["supersededIds"] == [first["id"]]


def test_a_blocked_claim_polls_reaps_and_gives_up(project: Project) -> None:
    waited: list[float] = []
    start = 1_782_993_600_000

    def sleep(seconds: float) -> None:
        waited.append(seconds)
        if len(waited) == 3 and submit_then:
            with project.open(ambient=Ambient(now=lambda: start)) as other:
                other.call("submit", {"extension": "fx/brief", "node": "notes/a.md"})

    submit_then = False
    ambient = Ambient(now=lambda: start + int(sum(waited) * 1000), monotonic=lambda: sum(waited), sleep=sleep)
    project.config(claimWaitSeconds=4)
    with project.open(ambient=ambient) as queue:
        queue.scan()
        queue.call("submit", {"extension": "fx/probe", "node": "notes/a.md", "ttl": 5})
        armed = queue.call("claim", {})["job"]["id"]
        assert queue.claim_wait(timeout=9).handover is None
        assert waited == [4, 4, 1]
        assert queue.call("status", {"id": armed})["failureReason"] == "abandoned"
        waited.clear()
        submit_then = True
        outcome = queue.claim_wait(interval=1)
        assert outcome.handover is not None
        assert waited == [1, 1, 1]


def test_a_crash_in_an_operation_leaves_nothing(project: Project) -> None:
    class Crash(Exception):
        pass

    def crashing(statements: int) -> Steps[None]:
        yield Statement(sql.INSERT_CONTENT, ("h", "content", 1))
        for _ in range(statements):
            yield Statement("INSERT INTO state_events (envelope_json) VALUES ('{}')")
        raise Crash

    with project.open() as queue:
        for statements in range(3):
            with pytest.raises(Crash):
                queue.database.transact(crashing(statements))
        assert queue.database.execute(Statement("SELECT * FROM state_job_contents")) == []
        assert queue.database.execute(Statement("SELECT * FROM state_events")) == []


def test_a_crash_at_any_statement_of_a_verb_leaves_the_state_before(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Crash(BaseException):
        pass

    left = 10**9
    real = QueueDatabase.execute

    def counted(database: QueueDatabase, statement: Statement) -> Any:
        nonlocal left
        left -= 1
        if left < 0:
            raise Crash
        return real(database, statement)

    def tables() -> list[Any]:
        names = ("jobs", "job_contents", "executions", "findings", "summaries", "events")
        with contextlib.closing(sqlite3.connect(project.folder.database)) as other:
            return [other.execute(f"SELECT * FROM state_{name}").fetchall() for name in names]

    with project.open() as queue:
        queue.scan()
        monkeypatch.setattr(QueueDatabase, "execute", counted)

        def crashing(verb: str, body: dict[str, Any]) -> dict[str, Any]:
            """Runs a verb with a crash at its first statement, at its second, and so on, until it goes through."""
            nonlocal left
            before, place = tables(), 0
            while True:
                left = place
                try:
                    answer = queue.call(verb, body)
                except Crash:
                    assert tables() == before, (verb, place)
                    place += 1
                else:
                    left = 10**9
                    assert place > 1, verb
                    assert tables() != before, verb
                    return answer

        finding = {"type": "vague", "severity": "warn", "message": "m"}
        report = json.dumps({**CLEAN, "findings": [finding, finding]})
        # the submit of a finder goes on after its commit, with the mirror of the sidecar
        job = queue.call("submit", {"extension": "fx/probe", "node": "notes/a.md"})["job"]
        crashing("claim", {})
        closed = {"id": job["id"], "nonce": job["nonce"], "status": "completed", "report": report}
        crashing("record", closed)
        assert queue.call("show", {"id": job["id"]})["status"] == "completed"
        crashing("submit", {"extension": "fx/brief", "node": "notes/a.md"})
        crashing("cancel", {"all": True})
        crashing("submit", {"extension": "fx/brief", "node": "notes/a.md"})
        crashing("fail", {"all": True})


def test_ids_are_drawn_again_when_they_clash(project: Project) -> None:
    project.write("notes/b.md", "b")
    drawn = iter(["0001", "0001", "0001", "0002"])

    def draw(count: int) -> str:
        return next(drawn, "ffff") if count == 2 else os.urandom(count).hex()

    ambient = Ambient(now=lambda: 1_782_993_600_000, draw=draw)
    with project.open(ambient=ambient) as queue:
        queue.scan()
        first = queue.call("submit", {"extension": "fx/brief", "node": "notes/a.md"})["job"]["id"]
        second = queue.call("submit", {"extension": "fx/brief", "node": "notes/b.md"})["job"]["id"]
        assert (first[-4:], second[-4:]) == ("0001", "0002")


def test_a_full_second_borrows_the_next(project: Project) -> None:
    project.write("notes/b.md", "b")
    ambient = Ambient(now=lambda: 1_782_993_600_000, draw=lambda count: "00" * count)
    with project.open(ambient=ambient) as queue:
        queue.scan()
        ids = [
            queue.call("submit", {"extension": "fx/brief", "node": node})["job"]["id"]
            for node in ("notes/a.md", "notes/b.md")
        ]
        assert [identifier[2:17] for identifier in ids] == ["20260702-120000", "20260702-120001"]


def test_a_database_of_a_newer_version_is_left_alone(project: Project) -> None:
    with project.open() as queue:
        queue.database.execute(Statement("PRAGMA user_version = 99"))
    with pytest.raises(Refused, match="newer version"):
        QueueDatabase(project.folder.database)


def test_refused_transitions_and_cascades_are_logged_without_the_nonce(project: Project) -> None:
    with project.open() as queue:
        queue.scan()
        job = queue.call("submit", {"extension": "fx/brief", "node": "notes/a.md"})["job"]
        refusal(queue, "record", {"id": job["id"], "nonce": job["nonce"], "status": "failed"})
        queue.call("disable", {"key": "fx"})
        refusal(queue, "cancel", {"id": job["id"]})
        text = project.folder.operations_log.read_text()
    lines = [json.loads(line) for line in text.splitlines()]
    assert [(line["op"], line.get("refused"), line.get("count")) for line in lines] == [
        ("jobs.record", "not-running", None),
        ("jobs.cancel", None, 1),
        ("jobs.cancel", "already-terminal", None),
    ]
    assert job["nonce"] not in text


def test_bad_settings_name_the_key(project: Project) -> None:
    with project.open() as queue:
        queue.scan()
        for jobs, words in (
            ({"perExtensionTtl": []}, "perExtensionTtl"),
            ({"perExtensionTtl": {"fx/brief": "60"}}, r"perExtensionTtl\.fx/brief"),
            ({"perExtensionPriority": {"brief": 1.5}}, r"perExtensionPriority\.brief"),
        ):
            project.config(**jobs)
            with pytest.raises(Refused, match=words):
                queue.call("submit", {"extension": "fx/brief", "node": "notes/a.md"})
        project.config(targets={"include": "x"})
        with pytest.raises(Refused, match="include"):
            queue.scan()
        project.folder.config_file.write_text("{")
        with pytest.raises(Refused, match=r"config\.json"):
            queue.call("submit", {"extension": "fx/brief", "node": "notes/a.md"})


def test_names_and_texts_that_nothing_can_store(project: Project) -> None:
    (project.root / os.fsdecode(b"notes/\xff.md")).write_text("x")
    project.write("notes/half.md", '---\nname: "\\ud800"\n---\nBody\n')
    sidecar_of(project.root, "notes/a.md").write_text('{"annotations": {"tags": ["\\ud800"]}}')
    with project.open() as queue:
        found = queue.scan()
        assert found.targets == 2
        assert len(found.problems) == 3
        assert queue.call("submit", {"extension": "fx/brief", "node": "notes/half.md"})["job"]
        assert refusal(queue, "submit", {"extension": "fx/brief", "node": "\ud800"}).code == "usage"


def test_the_queue_is_private(project: Project) -> None:
    with project.open():
        assert project.folder.database.stat().st_mode & 0o777 == 0o600


def test_a_commit_that_fails_leaves_the_connection_usable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    database = QueueDatabase(tmp_path / "queue.sqlite", create=True)
    connection = database._connection

    class FullDisk:
        """Refuses the first commit, as a full disk does, and has undone the transaction or not."""

        in_transaction = property(lambda _: connection.in_transaction)

        def __init__(self, undone: bool) -> None:
            self.undone = undone
            self.refused = False

        def execute(self, text: str, *bindings: Any) -> Any:
            if text == "COMMIT" and not self.refused:
                self.refused = True
                if self.undone:
                    connection.execute("ROLLBACK")
                raise sqlite3.OperationalError("database or disk is full")
            return connection.execute(text, *bindings)

    for undone in (False, True):
        monkeypatch.setattr(database, "_connection", FullDisk(undone))
        insert = Statement("INSERT INTO disabled_extensions (key) VALUES ('x')")
        with pytest.raises(sqlite3.OperationalError, match="disk is full"):
            database.transact(one(insert))
        assert database.transact(one(Statement("SELECT key FROM disabled_extensions"))) == []
    monkeypatch.undo()
    database.close()


def one(statement: Statement) -> Steps[list[dict[str, Any]]]:
    return (yield statement)


def test_no_target_is_looked_up_while_the_write_lock_is_held(tmp_path: Path) -> None:
    project = Project(tmp_path)
    with project.open() as queue:
        queue.scan()
        held = []

        class Watching:
            """Targets that may be asked for over the network."""

            def get(self, path: str) -> None:
                held.append(queue.database._connection.in_transaction)

        engine = replace(queue.engine, targets=Watching())  # type: ignore[arg-type]
        insert = Statement(
            sql.INSERT_FINDING,
            ("far/a", "fx/probe", "1", "extension", "t", "info", "m", None, 1.0, *[None] * 6, "hash", 0, None),
        )
        queue.database.transact(one(insert))
        queue.database.transact(one(insert))
        assert engine.set_resolution(1, "fixed")["stale"] is True
        assert engine.prune_findings(dry_run=True) == {"deleted": 0, "wouldDelete": 2}
        assert engine.prune_findings() == {"deleted": 2, "wouldDelete": 0}
        with pytest.raises(Refused):
            engine.set_resolution(1, "fixed")
        assert held
        assert not any(held)


def test_a_manifest_that_is_no_json_is_named_by_a_push(tmp_path: Path) -> None:
    project = Project(tmp_path)
    manifest = project.extension("fx/other") / "manifest.json"
    manifest.write_text("{")
    with pytest.raises(Refused, match=r"manifest\.json cannot be read as JSON"):
        RemoteQueue(None).push_extensions(project.folder)  # type: ignore[arg-type]


def test_the_targets_of_a_fan_out_are_read_without_their_bodies(tmp_path: Path) -> None:
    with Project(tmp_path).open() as queue:
        queue.scan()
        rows = queue.database.query(one(Statement(sql.NODES)))
        assert [row["path"] for row in rows] == ["notes/a.md"]
        assert "body" not in rows[0]

"""Eleven stages as commands: the manifest's state after each step."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from click.testing import CliRunner

from moorage.clients import cli
from moorage.clients.sessions.errors import Busy, Refused, SaveFailed, StageFailed
from moorage.clients.sessions.runner import Runner
from moorage.clients.sessions.stages import Stage, StageContext
from moorage.clients.sessions.store import LocalStore
from moorage.clients.sweep.replacing import replace as replace_file
from moorage.protocols.sessions import NARRATIO, Pipeline, Projection, Result, Skip, StageSpec
from moorage.protocols.sessions.fingerprints import fingerprint

from ...support.session_folder import CONFIG, ROSTER, STAGES, SessionFolder

DONE = {name: "skipped" if name == "polish" else "succeeded" for name in STAGES}
CALLS = [*STAGES[:8], "summary", "recap", "cast", "notify"]
ALL_CURRENT = {"summary": "current", "recap": "current", "cast": "current"}


@pytest.fixture
def done(tmp_path: Path) -> SessionFolder:
    """A session that ran through once."""
    session = SessionFolder(tmp_path)
    session.run()
    assert session.calls == CALLS
    return session


def test_first_run_then_reuse(done: SessionFolder) -> None:
    assert done.states == DONE
    assert done.dispositions == ALL_CURRENT
    assert done.run() == {name: "skipped" if name == "polish" else "reused" for name in STAGES}
    # a self-skip is reconsidered, and nothing else is called
    assert done.calls == ["polish"]
    record = done.manifest["stages"]["polish"]
    assert record["reason"] == "nothing to polish"
    assert "outputs" not in record


def test_every_stage_has_its_log_and_record(done: SessionFolder) -> None:
    manifest = done.manifest
    for name in STAGES:
        (log,) = manifest["stages"][name]["logs"]
        assert log == f"runs/{manifest['run_id']}/logs/{name}.log"
        assert (done.folder / log).is_file()
    assert manifest["stages"]["merge"]["outputs"] == [
        {"id": "text", "path": "m.txt", "sha256": manifest["stages"]["transcribe"]["outputs"][0]["sha256"], "size": 6}
    ]
    assert manifest["stages"]["transcribe"]["semantic_fingerprint"]["version"] == 1
    cast = manifest["stages"]["analyze"]["analyze_artifacts"]["cast"]
    assert (cast["family"], cast["character_id"]) == ("people", "all")
    # in configured order
    assert [output["id"] for output in manifest["stages"]["analyze"]["outputs"]] == ["summary", "recap", "cast"]


def test_raw_roster_content_never_enters_a_manifest(done: SessionFolder) -> None:
    text = (done.folder / "session-manifest.json").read_text()
    for name in ROSTER:
        assert name in (done.folder / "prepared" / "players.json").read_text()
        assert name not in text
        for word in name.split():
            assert word not in text
    party, players = done.manifest["inputs"]
    assert (party["id"], party["source"]) == ("party", "campaign/north/party")
    assert (players["id"], players["source"]) == ("players", "derived_from_party")
    # an error that shows roster content is not kept either: the log has it, and the record its last line alone
    done.write("party.json", json.dumps([*ROSTER, "Cassia"]))
    assert done.run("--to", "prepare") == {"prepare": "succeeded"}
    assert done.manifest["inputs"][0]["sha256"] != party["sha256"]


def test_changed_inputs_make_prepare_and_its_dependents_stale(done: SessionFolder) -> None:
    done.write("party.json", json.dumps(ROSTER[:1]))
    assert done.run("--to", "prepare") == {"prepare": "succeeded"}
    assert done.states == {
        **dict.fromkeys(STAGES, "stale"), "prepare": "succeeded", "polish": "skipped",
    }  # fmt: skip


def test_force_makes_succeeded_dependents_stale(done: SessionFolder) -> None:
    assert done.run("--only", "render", "--force") == {"render": "succeeded"}
    assert done.states == {**DONE, "analyze": "stale", "publish": "stale", "notify": "stale"}
    # details stay until the next attempt
    assert done.manifest["stages"]["analyze"]["outputs"]
    done.calls  # noqa: B018 - forget them
    # analyze runs and finds every artifact current: nothing is made
    assert done.run("--from", "analyze", "--to", "analyze") == {"analyze": "succeeded"}
    assert done.calls == []
    assert done.run()["notify"] == "succeeded"
    assert done.states == DONE


def test_force_of_one_stage_within_a_whole_run(done: SessionFolder) -> None:
    before = done.plan("--force-stage", "trim")
    assert [name for name, action in before.items() if action == "reuse"] == [*STAGES[:3], "normalize"]
    found = done.run("--force-stage", "trim")
    assert {name: ("reuse" if action == "reused" else "run") for name, action in found.items()} == before
    assert done.states == DONE


def test_changed_semantics_make_the_stage_and_its_dependents_stale(done: SessionFolder) -> None:
    done.edit('model = "small"', 'model = "large"')
    done.edit("cat talk.wav > t.txt", "false")
    assert done.run(status=1) == {"prepare": "reused", "transcribe": "failed"}
    states = done.states
    assert states["transcribe"] == "failed"
    assert [name for name, state in states.items() if state == "stale"] == [n for n in STAGES[2:] if n != "polish"]
    record = done.manifest["stages"]["transcribe"]
    # cleared, the reason kept
    assert set(record) == {"name", "status", "started_at", "finished_at", "reason"}
    assert "status 1" in record["reason"]
    # analyze's collection survives every clearing
    assert done.dispositions == ALL_CURRENT


def test_validator_rejects_when_an_output_of_extract_is_gone(done: SessionFolder) -> None:
    (done.folder / "e.txt").unlink()
    assert done.plan()["extract"] == "run"
    found = done.run()
    assert {name for name, action in found.items() if action == "succeeded"} == {
        "extract", "analyze", "publish", "notify",
    }  # fmt: skip
    assert done.states == DONE


def test_a_forced_rerun_that_fails_first_leaves_no_old_dependents(done: SessionFolder) -> None:
    done.edit("cp t.txt m.txt", "exit 3")
    done.run("--only", "merge", "--force", status=1)
    assert done.states == {**DONE, "merge": "failed"}
    done.edit("exit 3", "cp t.txt m.txt")
    assert done.run("--only", "merge") == {"merge": "succeeded"}
    assert done.states["normalize"] == done.states["notify"] == "stale"


def test_prefix_refusal_leaves_no_byte_behind(tmp_path: Path) -> None:
    session = SessionFolder(tmp_path)
    before = session.tree()
    for line in ("run --from trim", "plan --from trim", "run --only notify", "publish"):
        result = session.command(*line.split())
        assert result.exit_code == 1
        assert "stage prepare has no record" in result.output
        assert session.tree() == before
    session.run("--to", "merge")
    before = session.tree()
    result = session.command("run", "--from", "trim")
    assert "stage polish is pending" in result.output
    assert session.tree() == before
    # what comes after the selected end is no prerequisite
    session.run("--from", "polish", "--to", "polish")


def test_another_session_is_refused_before_anything_is_made(done: SessionFolder) -> None:
    done.edit('session_id = "s01"', 'session_id = "S01"')
    before = done.tree()
    result = done.command("run")
    assert result.exit_code == 1
    assert "stored manifest has session_id 's01'" in result.output
    assert done.tree() == before


def test_planning_twice_says_the_same_and_changes_no_byte(done: SessionFolder) -> None:
    done.edit('model = "small"', 'model = "large"')
    before = done.tree()
    assert done.plan() == done.plan()
    assert done.tree() == before
    assert done.plan("--to", "transcribe") == {"prepare": "reuse", "transcribe": "run"}


def test_profiles_change_provenance_and_nothing_else_by_themselves(done: SessionFolder) -> None:
    path = done.folder / "moorage.session.toml"
    profiles = '\n[profiles.loud]\nspool = "spool"\n[profiles.big.stages.transcribe.semantics]\nmodel = "large"\n'
    path.write_text(path.read_text() + profiles)
    assert done.run("--to", "transcribe", "--profile", "loud") == {"prepare": "reused", "transcribe": "reused"}
    assert done.manifest["configuration"]["profile"] == "loud"
    assert done.manifest["configuration"]["profile_source"] == "cli"
    assert done.run("--to", "transcribe", "--profile", "big")["transcribe"] == "succeeded"
    assert "profile" in done.command("run", "--profile", "none").output


# -- artifacts -------------------------------------------------------------------------------------------------------


def test_artifact_error_keeps_earlier_checkpoints_and_resumes(tmp_path: Path) -> None:
    session = SessionFolder(tmp_path, CONFIG.replace("(echo recap; cat out/summary.md)", "(echo recap; exit 4)"))
    assert session.run(status=1)["analyze"] == "failed"
    assert session.dispositions == {"summary": "current", "recap": "failed", "cast": "missing"}
    record = session.manifest["stages"]["analyze"]
    assert "outputs" not in record
    assert "status 4" in record["analyze_artifacts"]["recap"]["diagnostic"]
    session.calls  # noqa: B018 - forget them
    session.edit("(echo recap; exit 4)", "(echo recap; cat out/summary.md)")
    session.run()
    assert session.calls == ["polish", "recap", "cast", "notify"]
    assert session.dispositions == ALL_CURRENT


def test_failed_analyze_makes_delivery_stale_and_dependents_stale(done: SessionFolder) -> None:
    done.edit('echo summary >> calls && cat e.txt > "$MOORAGE_SESSION_OUTPUT"', "exit 5")
    (done.folder / "out" / "summary.md").unlink()
    assert done.run(status=1)["analyze"] == "failed"
    assert done.dispositions == {"summary": "failed", "recap": "stale", "cast": "current"}
    assert done.states == {**DONE, "analyze": "failed", "publish": "stale", "notify": "stale"}


def test_selected_artifacts_leave_unrelated_ones_alone(done: SessionFolder) -> None:
    done.edit('output = "out/cast.md"', 'output = "out/cast.md"\nsemantics = {people = 2}')
    # the aggregate is skipped: the selected closure is current, though an unrelated record is obsolete
    assert done.run("--only", "analyze", "--artifact", "recap") == {"analyze": "reused"}
    assert done.run("--only", "analyze", "--artifact", "recap", "--force") == {"analyze": "succeeded"}
    assert done.dispositions == {"summary": "current", "recap": "current", "cast": "stale"}
    ids = [output["id"] for output in done.manifest["stages"]["analyze"]["outputs"]]
    assert ids == ["summary", "recap"]
    assert done.run("--only", "analyze")["analyze"] == "succeeded"
    assert done.calls[-1] == "cast"
    assert done.dispositions == ALL_CURRENT


@pytest.mark.parametrize(("text", "recap"), [("hello\n", "current"), ("changed\n", "stale")])
def test_a_rebuilt_output_is_compared_by_its_bytes(done: SessionFolder, text: str, recap: str) -> None:
    done.edit('reads = ["extract/refs"]', 'reads = ["extract/refs"]\nsemantics = {prompt = 2}')
    done.write("e.txt", text)
    assert done.run("--only", "analyze", "--artifact", "summary")["analyze"] == "succeeded"
    assert done.dispositions == {"summary": "current", "recap": recap, "cast": "current"}


class Failing:
    """Writes the manifest, but not the `number`-th time that `when` holds for the text."""

    def __init__(self, when: str, number: int = 1, after: bool = False) -> None:
        self._when, self._left, self._after = when, number, after
        self.failed = 0

    def __call__(self, path: Path, data: bytes) -> None:
        if self._when in data.decode():
            self._left -= 1
            if self._left == 0:
                self.failed += 1
                if self._after:
                    replace_file(path, data)
                raise OSError(28, "No space left on device")
        replace_file(path, data)


def test_checkpoint_failure_rolls_back_to_the_last_saved_collection(tmp_path: Path) -> None:
    session = SessionFolder(tmp_path)
    session.run("--to", "extract")
    # the first save that says that recap is current
    write = Failing('"path": "out/recap.md"')
    with pytest.raises(StageFailed) as failed:
        session.runner("r-checkpoint", write=write).run()
    assert isinstance(failed.value.original, SaveFailed)
    assert failed.value.saving is None
    assert write.failed == 1
    assert (session.folder / "out" / "recap.md").is_file(), "new bytes stay, incidental"
    assert session.states == {**DONE, "analyze": "failed", "publish": "pending", "notify": "pending"}
    assert session.dispositions == {"summary": "current", "recap": "failed", "cast": "missing"}
    session.calls  # noqa: B018 - forget them
    session.run()
    assert session.calls == ["polish", "recap", "cast", "notify"]


def test_a_save_that_failed_after_it_was_made_is_read_again(tmp_path: Path) -> None:
    session = SessionFolder(tmp_path)
    write = Failing('"path": "m.txt"', after=True)
    with pytest.raises(StageFailed):
        session.runner("r1", write=write).run(last="merge")
    assert session.states["merge"] == "failed"
    assert "outputs" not in session.manifest["stages"]["merge"]


def test_a_second_failure_is_joined_with_the_first(tmp_path: Path) -> None:
    session = SessionFolder(tmp_path, CONFIG.replace("cp t.txt m.txt", "echo it broke; exit 7"))
    with pytest.raises(StageFailed) as failed:
        session.runner("r1", write=Failing('"status": "failed"')).run(last="merge")
    assert "status 7" in str(failed.value)
    assert "it broke" in str(failed.value)
    assert "No space left" in str(failed.value)
    assert failed.value.saving is not None
    # as after a process's death: the next run takes it for not successful
    assert session.states["merge"] == "running"
    session.edit("echo it broke; exit 7", "cp t.txt m.txt")
    assert session.run("--to", "merge") == {"prepare": "reused", "transcribe": "reused", "merge": "succeeded"}


def test_a_store_refuses_to_save_until_it_was_loaded_again(tmp_path: Path) -> None:
    session = SessionFolder(tmp_path)
    session.run("--to", "prepare")
    store = LocalStore(session.folder / "session-manifest.json", write=Failing("", 1))
    manifest = store.load()
    assert manifest is not None
    with pytest.raises(SaveFailed, match="No space"):
        store.save(manifest)
    with pytest.raises(SaveFailed, match="load the manifest again"):
        store.save(manifest)
    store.load()
    assert store.save(manifest).updated_at >= manifest.updated_at


# -- ends and interruptions ------------------------------------------------------------------------------------------

WAITING = CONFIG.replace("cp t.txt m.txt", "echo $$ > pid; exec sleep 60")


def until(path: Path) -> str:
    """The text of a file once it is there."""
    for _ in range(3000):
        if path.exists() and path.read_text().strip():
            return path.read_text().strip()
        time.sleep(0.01)
    raise AssertionError(f"{path} did not come")


def started(session: SessionFolder) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(
        [sys.executable, "-c", "from moorage.clients.cli import main; main()", "session", "run", "--json"],
        cwd=session.folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_cancellation_leaves_interrupted_and_ends_the_command(tmp_path: Path, number: signal.Signals) -> None:
    session = SessionFolder(tmp_path, WAITING)
    process = started(session)
    child = int(until(session.folder / "pid"))
    process.send_signal(number)
    out, _ = process.communicate(timeout=30)
    assert process.returncode == 130
    assert json.loads(out)["stages"][-1]["action"] == "interrupted"
    assert session.states == {
        **dict.fromkeys(STAGES, "pending"), "prepare": "succeeded", "transcribe": "succeeded", "merge": "interrupted",
    }  # fmt: skip
    assert set(session.manifest["stages"]["merge"]) == {"name", "status", "started_at", "finished_at", "reason"}
    with pytest.raises(ProcessLookupError):
        os.kill(child, 0)
    session.edit("echo $$ > pid; exec sleep 60", "cp t.txt m.txt")
    assert session.run()["merge"] == "succeeded"


def test_a_killed_run_leaves_running_and_the_next_one_runs_it(tmp_path: Path) -> None:
    session = SessionFolder(tmp_path, WAITING)
    process = started(session)
    child = int(until(session.folder / "pid"))
    # while it runs no other invocation gets in
    refused = session.command("run")
    assert refused.exit_code == 1
    assert f"process {process.pid}" in refused.output
    process.kill()
    process.communicate(timeout=30)
    os.kill(child, signal.SIGKILL)
    assert session.states["merge"] == "running"
    session.edit("echo $$ > pid; exec sleep 60", "cp t.txt m.txt")
    assert session.run("--to", "merge") == {"prepare": "reused", "transcribe": "reused", "merge": "succeeded"}


def test_a_command_that_takes_too_long_is_ended(tmp_path: Path) -> None:
    slow = CONFIG.replace('"echo merge >> calls && cp t.txt m.txt"', '"sleep 60"\ntimeout = 0.2')
    session = SessionFolder(tmp_path, slow)
    session.run(status=1)
    assert "longer than 0.2 s" in session.manifest["stages"]["merge"]["reason"]


PASSWD = {"outputs": [{"id": "x", "path": "/etc/passwd"}]}
BOTH = {"skipped": "x", "outputs": [{"id": "x", "path": "t.txt"}]}


def said(value: object) -> str:
    """A result inside a TOML text."""
    return json.dumps(value).replace('"', '\\"')


@pytest.mark.parametrize(
    ("command", "reason"),
    [
        ("no-such-command-here", "status 127"),
        ("true", "there is no file m.txt"),
        ("kill -9 $$", "SIGKILL"),
        ("ln -s /etc/hostname m.txt", "is a link"),
        ("echo nonsense > $MOORAGE_SESSION_RESULT", "not what a command may say"),
        (f"echo '{said(PASSWD)}' > $MOORAGE_SESSION_RESULT; cp t.txt m.txt", "absolute"),
        (f"echo '{said(BOTH)}' > $MOORAGE_SESSION_RESULT", "a skipped stage has none"),
    ],
)  # fmt: skip
def test_what_a_command_may_not_do(tmp_path: Path, command: str, reason: str) -> None:
    session = SessionFolder(tmp_path, CONFIG.replace("echo merge >> calls && cp t.txt m.txt", command))
    session.run("--to", "merge", status=1)
    assert session.states["merge"] == "failed"
    found = session.manifest["stages"]["merge"]["reason"]
    assert reason in found


# -- stages as callables ---------------------------------------------------------------------------------------------


def test_stages_as_callables(tmp_path: Path) -> None:
    pipeline = Pipeline([StageSpec("a"), StageSpec("b", ("a",)), StageSpec("c", ("b",))])
    asked: list[str] = []

    def first(context: StageContext) -> Result:
        (context.folder / "a.txt").write_text("a")
        context.log("made a")
        return Result((context.output("a", "a.txt"),), metadata={"k": 1})

    def validate(manifest: object) -> bool:
        asked.append("a")
        return "reject" not in asked

    prints = [fingerprint(1, "x")]
    stages = [
        Stage("a", first, lambda: prints[0], validate),
        Stage("b", lambda context: None),
        Stage("c", lambda context: Skip("not today")),
    ]

    def run(run_id: str, *force: str) -> list[str]:
        store = LocalStore(tmp_path / "m.json", pipeline)
        runner = Runner(tmp_path, store, stages, Projection("n", "s", run_id))
        return [report.action for report in runner.run(force=force)]

    assert run("r1") == ["succeeded", "succeeded", "skipped"]
    assert asked == []
    assert run("r2") == ["reused", "reused", "skipped"]
    assert asked == ["a"]
    prints[0] = fingerprint(1, "y")
    assert run("r3") == ["succeeded", "succeeded", "skipped"]
    # evidence comes first: a mismatch does not ask the validator
    assert asked == ["a"]
    assert run("r4", "a")[:2] == ["succeeded", "succeeded"]
    assert asked == ["a"]
    asked.append("reject")
    assert run("r5")[:2] == ["succeeded", "succeeded"]
    assert (tmp_path / "runs/r1/logs/a.log").read_text() == "made a\n"


def test_what_is_not_configured_is_refused_before_anything_is_made(tmp_path: Path) -> None:
    runner = Runner(tmp_path, LocalStore(tmp_path / "m.json"), [], Projection("n", "s", "r"))
    with pytest.raises(Exception, match="stage prepare is selected"):
        runner.run()
    with pytest.raises(Refused, match="no stage"):
        runner.run("upload")
    assert list(tmp_path.iterdir()) == []
    assert NARRATIO.order[0] == "prepare"


def test_two_invocations_exclude_each_other(tmp_path: Path) -> None:
    store = LocalStore(tmp_path / "m.json")
    with store.invocation():
        with pytest.raises(Busy, match="another invocation"):
            with LocalStore(tmp_path / "m.json").invocation():
                pass
    with store.publishing(), store.invocation():
        pass


# -- the command line ------------------------------------------------------------------------------------------------


def test_status_and_verify(done: SessionFolder) -> None:
    shown = done.command("status")
    assert shown.exit_code == 0
    assert "summary              current" in shown.output
    assert json.loads(done.command("status", "--json").output)["stages"]["merge"]["status"] == "succeeded"
    assert "7 files compared, 0 differ" in done.command("verify").output
    done.write("m.txt", "other")
    result = done.command("verify", "--json")
    assert result.exit_code == 1
    assert json.loads(result.output)["wrong"] == ["m.txt: it is missing or not what merge/text recorded"]


@pytest.mark.parametrize(
    ("old", "new", "wrong"),
    [
        ('campaign = "north"', 'campaign = "a/b"', "campaign"),
        ('campaign = "north"', "", "campaign"),
        ("[stages.trim]", "[stages.trin]", "there is no stage 'trin'"),
        ('kind = "file"', 'kind = "ftp"', "remote.kind"),
        ('cleanup = ["spool/talk.wav"]', 'cleanup = ["/etc"]', "cleanup"),
        ('cleanup = ["spool/talk.wav"]', 'cleanup = ["spool/../x"]', "cleanup"),
        ("derived_from_party = true", 'derived_from_party = true\nsource = "x"', "exclude"),
        ("[inputs.players]", "[inputs.others]", "inputs.others"),
        ('command = "echo notify >> calls"', 'command = "x"\nskip = "y"', "exclude each other"),
        ('command = "echo notify >> calls"', 'commando = "x"', "commando"),
        ("[stages.notify]", "[[stages.notify]", "Expected"),
    ],
)
def test_a_wrong_configuration_names_the_member(tmp_path: Path, old: str, new: str, wrong: str) -> None:
    assert old in CONFIG
    session = SessionFolder(tmp_path, CONFIG.replace(old, new))
    result = session.command("plan")
    assert result.exit_code == 1
    assert wrong in result.output
    assert "Traceback" not in result.output


def test_an_unsupported_manifest_is_refused_with_guidance(done: SessionFolder) -> None:
    manifest = done.manifest
    manifest["schema_version"] = "narratio.session-manifest.v0"
    done.write("session-manifest.json", json.dumps(manifest))
    before = done.tree()
    for name in ("run", "plan", "status", "verify"):
        result = done.command(name)
        assert result.exit_code == 1
        assert "Move the file aside" in result.output
    assert done.tree() == before


def test_misuse_is_a_usage_error(done: SessionFolder) -> None:
    for arguments in (
        ("run", "--only", "merge", "--from", "trim"),
        ("run", "--only", "merge", "--force-stage", "trim"),
        ("verify", "--heads"),
        ("run", "--only", "merge", "--artifact", "cast"),
    ):
        assert done.command(*arguments).exit_code == 2
    before = done.tree()
    assert "no artifact 'x'" in done.command("run", "--only", "analyze", "--artifact", "x").output
    assert done.tree() == before
    assert CliRunner().invoke(cli.main, ["session", "run", "-C", str(done.root / "none")]).exit_code == 1


OWN = """
campaign = "north"
session_id = "s02"

[pipeline]
artifact_stage = "pages"
stages = [
  {name = "fetch"},
  {name = "left", depends_on = ["fetch"], validates = true},
  {name = "right", depends_on = ["fetch"]},
  {name = "pages", depends_on = ["left"]},
]

[stages.fetch]
command = "echo fetch >> calls"
[stages.left]
command = "echo left >> calls; echo l > l.txt"
outputs = [{id = "l", path = "l.txt"}]
[stages.right]
command = "echo right >> calls"
validate = "test ! -e bad"
[stages.pages.artifacts."First Page"]
command = 'echo page >> calls; cp l.txt "$MOORAGE_SESSION_OUTPUT"'
output = "p/1.md"
"""


def test_stages_of_ones_own(tmp_path: Path) -> None:
    session = SessionFolder(tmp_path, OWN)
    session.run()
    assert session.calls == ["fetch", "left", "right", "page"]
    assert list(session.manifest["stages"]["pages"]["analyze_artifacts"]) == ["first-page"]
    session.run("--to", "right", "--force-stage", "right")
    assert session.states == dict.fromkeys(("fetch", "left", "right", "pages"), "succeeded")
    session.write("bad", "")
    (session.folder / "l.txt").unlink()
    assert session.run() == {"fetch": "reused", "left": "succeeded", "right": "succeeded", "pages": "succeeded"}
    assert session.calls == ["right", "left", "right"], "the page is current: the same bytes came again"
    assert session.command("publish").exit_code == 2


SECOND = '[stages.left.artifacts.x]\ncommand = "x"\noutput = "y"\n'


@pytest.mark.parametrize(
    ("old", "new", "wrong"),
    [
        ('output = "p/1.md"', 'output = "p/1.md"\ndepends_on = ["none"]', "which is no artifact"),
        ('output = "p/1.md"', 'output = "p/1.md"\ndepends_on = ["first page"]', "circle"),
        ('depends_on = ["left"]', 'depends_on = ["later"]', "not earlier"),
        ('artifact_stage = "pages"', 'artifact_stage = "page"', "no stage"),
        ("[stages.right]", f"{SECOND}[stages.right]", "only the artifact stage"),
    ],
)
def test_wrong_stages_of_ones_own(tmp_path: Path, old: str, new: str, wrong: str) -> None:
    session = SessionFolder(tmp_path, OWN.replace(old, new))
    before = session.tree()
    result = session.command("run")
    assert result.exit_code == 1
    assert wrong in result.output
    assert session.tree() == before

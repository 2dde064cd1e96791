"""Eleven stages as commands: the manifest's state after each step."""

import json
from pathlib import Path

from ...support.session_folder import ALL_CURRENT, DONE, ROSTER, STAGES, SessionFolder


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
    # nor what a command prints, which is the log's
    done.edit("echo prepare >> calls && mkdir", "cat party.json; exit 3; mkdir")
    done.run("--only", "prepare", "--force", status=1)
    text = (done.folder / "session-manifest.json").read_text()
    assert "status 3" in text
    for name in ROSTER:
        assert name in (done.folder / done.manifest["stages"]["prepare"]["reason"].split("log: ")[1][:-1]).read_text()
        assert name not in text


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

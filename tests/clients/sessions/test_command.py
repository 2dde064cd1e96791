"""The command line: status, verify, wrong configurations, stages of one's own."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from moorage.clients import cli

from ...support.session_folder import CONFIG, SessionFolder


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
        ('cleanup = ["spool/talk.wav"]', 'cleanup = ["workdir/session-manifest.json"]', "cleanup"),
        ('cleanup = ["spool/talk.wav"]', 'cleanup = ["workdir/moorage.session.toml"]', "cleanup"),
        ('cleanup = ["spool/talk.wav"]', 'cleanup = ["workdir/publish.lock"]', "cleanup"),
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


def test_an_input_that_cannot_be_read_is_not_taken_for_the_manifest(tmp_path: Path) -> None:
    session = SessionFolder(tmp_path, CONFIG.replace('"party.json"', '"talk.wav/party.json"'))
    result = session.command("plan")
    assert result.exit_code == 1
    assert "stage prepare" in result.output
    assert "session manifest cannot be read" not in result.output


@pytest.mark.parametrize(("name", "folder"), [("runs", False), ("session-manifest.json.lock", True)])
def test_what_stands_in_the_way_is_named_without_a_trace(tmp_path: Path, name: str, folder: bool) -> None:
    session = SessionFolder(tmp_path)
    if folder:
        (session.folder / name).mkdir()
    else:
        session.write(name, "")
    result = session.command("run")
    assert result.exit_code == 1
    assert isinstance(result.exception, SystemExit)
    assert name in result.output
    assert session.calls == []


@pytest.mark.parametrize("left", ["mkfifo t.txt", "mkdir t.txt"])
def test_an_output_that_is_no_file_is_refused_and_not_waited_for(tmp_path: Path, left: str) -> None:
    session = SessionFolder(tmp_path)
    path = session.folder / "moorage.session.toml"
    text = path.read_text()
    command = next(line for line in text.splitlines() if "echo transcribe" in line)
    path.write_text(text.replace(command, f'command = "{left}"'))
    result = session.command("run", "--to", "transcribe")
    assert result.exit_code == 1
    assert "no regular file" in result.output
    assert session.states["transcribe"] == "failed"

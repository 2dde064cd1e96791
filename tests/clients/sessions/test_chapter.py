"""What `docs/sessions.md` shows is what happens."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from moorage.clients.cli import main
from moorage.clients.sessions.cli import command
from moorage.clients.sessions.settings import Settings, StageTable

CHAPTER = (Path(__file__).resolve().parents[3] / "docs" / "sessions.md").read_text(encoding="utf-8")
STAND_IN = f'#!/bin/sh\nexec {sys.executable} -c "from moorage.clients.cli import main; main()" "$@"\n'


def blocks(language: str) -> list[str]:
    """Every code block in a language."""
    return re.findall(rf"^```{language}\n(.*?)^```", CHAPTER, re.DOTALL | re.MULTILINE)


def test_the_first_five_minutes(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    program = tmp_path / "bin" / "moorage"
    program.write_text(STAND_IN)
    program.chmod(0o755)
    environ = {**os.environ, "PATH": f"{program.parent}:{os.environ['PATH']}"}
    done = subprocess.run(
        ["sh", "-e", "-c", blocks("sh")[0]], cwd=tmp_path, env=environ, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "transcribe   reused" in done.stdout
    assert "6 artifacts, size, generation and SHA-256 as declared" in done.stdout
    assert (tmp_path / "copy" / "out" / "recap.md").read_text() == "     1\tONE\n2\n"
    assert not (tmp_path / "talk" / "work" / "scratch").exists()
    config = tmp_path / "talk" / "moorage.session.toml"
    config.write_text(config.read_text().replace('"small"', '"large"'))
    again = CliRunner().invoke(main, ["session", "run", "-C", str(config.parent)])
    assert again.exit_code == 0, again.output
    assert "prepare      reused" in again.stdout
    assert "notify       succeeded" in again.stdout
    manifest = json.loads((tmp_path / "talk" / "session-manifest.json").read_text())
    assert manifest["stages"]["notify"]["status"] == "succeeded"


def test_the_python_example(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    exec(compile(blocks("python")[0], "docs/sessions.md", "exec"), {})
    manifest = json.loads((tmp_path / "own" / "session-manifest.json").read_text())
    assert manifest["stages"]["count"]["metadata"] == {"words": 3}


def test_commands_and_members_are_all_there() -> None:
    for name in command.commands:
        assert f"| `{name}` |" in CHAPTER
    for name in StageTable.__struct_fields__:
        assert f"`{name}" in CHAPTER, name
    for name in Settings.__struct_fields__:
        assert name in CHAPTER, name

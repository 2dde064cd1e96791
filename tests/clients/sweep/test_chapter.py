"""What `docs/sweep.md` shows is what happens."""

import re
import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner

from moorage.clients.sweep import cli
from moorage.protocols.sweep import Word, parse
from moorage.protocols.sweep.shared import VERBS
from moorage.protocols.wire import sweep as errors

CHAPTER = (Path(__file__).resolve().parents[3] / "docs" / "sweep.md").read_text(encoding="utf-8")


def block(language: str) -> str:
    """The first code block in a language."""
    match = re.search(rf"^```{language}\n(.*?)^```", CHAPTER, re.DOTALL | re.MULTILINE)
    assert match is not None
    return match[1]


def test_the_first_five_minutes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    printed = []
    for line in block("sh").replace("\\\n", " ").splitlines():
        words = shlex.split(line)
        if words[:2] == ["moorage", "sweep"]:
            result = CliRunner().invoke(cli.command, words[2:])
            assert (result.exit_code, result.stdout.splitlines()[0]) == (0, "OK"), line
            printed += result.stdout.splitlines()[1:]
    assert printed == ['{"downgraded": ["slack:C42:17"]}']
    assert (tmp_path / "sweep.yaml").read_text() == block("yaml")
    assert parse(block("yaml"))["last_run"]["counts"] == {"ingested": 1}


def test_words_subcommands_and_errors_are_all_there() -> None:
    for word in Word:
        assert f"| `{word.value}` |" in CHAPTER
    for name in [*cli.command.commands, *VERBS]:
        assert re.search(rf"\b{name}\b", CHAPTER), name
    for kind in errors.SweepRefusal.__subclasses__():
        assert re.search(rf"\| {kind.status} \|.*`{kind.code}`.*\| `{kind.word}` \|", CHAPTER), kind

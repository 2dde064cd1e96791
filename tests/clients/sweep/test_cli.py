"""The command line: what the reference engine's argument parser takes, and nothing on standard output for misuse."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from moorage.clients.sweep import cli

NOW = "2026-07-02T12:00:00+00:00"


def run(*arguments: str) -> Any:
    return CliRunner().invoke(cli.command, list(arguments))


@pytest.fixture
def state(tmp_path: Path) -> str:
    """A state that w1 holds, with one item."""
    path = str(tmp_path / "sweep.yaml")
    assert run("lease-acquire", "--state", path, "--writer", "w1", "--now", NOW).stdout == "OK\n"
    assert upsert(path, "--json", '{"status": "ingested"}').stdout == "OK\n"
    return path


def upsert(path: str, *more: str) -> Any:
    return run("upsert-item", "--state", path, "--id", "1", "--source", "s", "--writer", "w1", "--now", NOW, *more)


class TestArguments:
    def test_flags_may_be_shortened_and_joined(self, state: str) -> None:
        result = run("cursor-adv", "--state", state)
        assert result.exit_code == 2
        result = run("cursor-advance", "--st", state, "--so=s", "--to=5", "--past=1", "--w", "w1", f"--n={NOW}")
        assert result.stdout == "OK\n"
        assert run("cursor-get", f"--state={state}", "--source", "s").stdout == 'OK\n{"cursor": "5"}\n'

    def test_ours_make_none_ambiguous_and_are_not_shortened(self, state: str) -> None:
        # --to, not --token; --s means two flags of the reference engine already
        result = run("cursor-advance", "--state", state, "--so", "s", "--t", "5", "--p", "1", "--w", "w1", "--n", NOW)
        assert result.stdout == "OK\n"
        assert run("cursor-get", "--s", state, "--source", "s").exit_code == 2
        assert run("read", "--rem", "http://127.0.0.1:1").exit_code == 2

    @pytest.mark.parametrize("value", ["-5", "-5.5", "-", "-a b", ""])
    def test_values_that_begin_with_a_dash(self, state: str, value: str) -> None:
        result = run(
            "cursor-advance", "--state", state, "--source", "s", "--to", value, "--past-item", "1", "--writer", "w1"
        )
        assert result.stdout == "OK\n"

    @pytest.mark.parametrize("value", ["-a", "--", "--writer", "-5x"])
    def test_what_is_no_value(self, state: str, value: str) -> None:
        before = Path(state).read_bytes()
        result = run(
            "cursor-advance", "--state", state, "--source", "s", "--past-item", "1", "--writer", "w1", "--to", value
        )
        assert (result.exit_code, result.stdout) == (2, "")
        assert "--to needs a value" in result.stderr
        assert Path(state).read_bytes() == before

    def test_a_flag_is_not_taken_for_the_value_before_it(self, state: str) -> None:
        result = run("lease-release", "--writer", "--state", state)
        assert (result.exit_code, result.stdout) == (2, "")

    def test_the_last_of_a_repeated_flag_counts(self, state: str) -> None:
        assert run("lease-release", "--state", state, "--writer", "w2", "--writer", "w1").stdout == "OK\n"

    @pytest.mark.parametrize(
        "arguments",
        [
            [],
            ["read"],
            ["read", "--state"],
            ["read", "--state", "x", "y"],
            ["read", "--state", ""],
            ["read", "--state", "x", "--now", NOW],
            ["validate", "--state", "x", "--writer", "w"],
            ["lease-acquire", "--state", "x", "--writer", "w", "--ttl-minutes", "1.5"],
            [
                "run-record",
                "--state",
                "x",
                "--writer",
                "w",
                "--outcome",
                "done",
                "--counts",
                "{}",
                "--timestamp",
                "t",
            ],
            ["read", "--state", "x", "--remote", "http://127.0.0.1:1"],
            ["read", "--state", "x", "--token", "1"],
            ["lease-acquire", "--state", "x", "--writer", "w", "--fenced"],
            ["lease-acquire", "--state", "x", "--writer", "w", "--git", "origin"],
            ["export", "--state", "x", "--to", "y"],
            ["import", "--state", "x", "--from", "y"],
        ],
    )
    def test_misuse_exits_with_2_and_prints_nothing(self, tmp_path: Path, arguments: list[str]) -> None:
        here = [word.replace("x", str(tmp_path / "x")) if word == "x" else word for word in arguments]
        result = run(*here)
        assert (result.exit_code, result.stdout) == (2, "")
        assert result.stderr
        assert list(tmp_path.iterdir()) == []

    def test_an_integer_as_python_reads_it(self, tmp_path: Path) -> None:
        path = str(tmp_path / "x")
        result = run("lease-acquire", "--state", path, "--writer", "w", "--now", NOW, "--ttl-minutes", " 1_0 ")
        assert result.stdout == "OK\n"
        assert "ttl_minutes: 10\n" in Path(path).read_text()


class TestOutput:
    def test_payloads_are_ascii_and_reasons_go_to_standard_error(self, state: str) -> None:
        upsert(state, "--json", '{"title": "é🎉"}')
        result = run("read", "--state", state)
        word, payload = result.stdout.splitlines()
        assert word == "OK"
        assert payload.isascii()
        assert json.loads(payload)["items"]["s:1"]["title"] == "é🎉"
        locked = run("lease-acquire", "--state", state, "--writer", "w2", "--now", NOW)
        assert (locked.exit_code, locked.stdout) == (0, "LOCKED\n")
        assert "another writer" in locked.stderr

    def test_corrupt_names_the_line(self, tmp_path: Path) -> None:
        path = tmp_path / "x"
        path.write_text("schema_version: 1\nlabel: plain\n")
        result = run("read", "--state", str(path))
        assert (result.exit_code, result.stdout) == (0, "CORRUPT\n")
        assert "line 2" in result.stderr

    def test_a_payload_that_cannot_be_printed_is_an_error_and_no_trace(self, tmp_path: Path) -> None:
        path = tmp_path / "x"
        path.write_text("schema_version: 1\n" + "".join(f"{'  ' * depth}a:\n" for depth in range(3000)))
        result = run("read", "--state", str(path))
        assert result.exit_code == 0
        if sys.version_info < (3, 13):
            assert (result.stdout, "RecursionError" in result.stderr) == ("ERROR\n", True)
        else:  # later versions print this depth
            assert (result.stdout[:3], result.stdout.count('"a"')) == ("OK\n", 3000)
        # a write gets along with any depth
        assert run("lease-acquire", "--state", str(path), "--writer", "w").stdout == "OK\n"
        assert path.read_text().count("a:") == 3000

    def test_a_failure_that_nobody_foresaw_is_a_word_too(self, state: str, monkeypatch: pytest.MonkeyPatch) -> None:
        from moorage.protocols.sweep import operations

        def boom(*_: object, **__: object) -> None:
            raise RuntimeError("boom")

        monkeypatch.setattr(operations, "read", boom)
        result = run("read", "--state", state)
        assert (result.exit_code, result.stdout) == (0, "ERROR\n")
        assert "boom" in result.stderr


def test_the_installed_command_is_a_drop_in(tmp_path: Path) -> None:
    """As a script calls it: a process, with bytes in its arguments that are no UTF-8."""
    path = os.fsencode(tmp_path / "sweep.yaml")
    moorage = [os.fsencode(sys.executable), b"-m", b"moorage.clients.cli", b"sweep"]

    def call(*arguments: bytes) -> bytes:
        done = subprocess.run([*moorage, *arguments], capture_output=True, check=True)
        return done.stdout

    who = (b"--state", path, b"--writer", b"w\xff")
    assert call(b"lease-acquire", *who) == b"OK\n"
    assert call(b"upsert-item", *who, b"--id", b"1", b"--source", b"s", b"--json", b"{}") == b"OK\n"
    assert b'writer: "w\\udcff"\n' in Path(os.fsdecode(path)).read_bytes()

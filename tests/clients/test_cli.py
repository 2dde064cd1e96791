"""The command line: lazy commands, quick help, clear errors, and the commands of cursors and blobs."""

import json
import subprocess
import sys
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

from moorage.clients import cli, connection, secret
from moorage.clients.errors import ConfigurationError
from moorage.clients.http import Http
from tests.support.http import PlaneTransport, Script
from tests.support.plane import START_MS, WEBHOOK_SECRET, Plane

HEAVY = {"httpx", "starlette", "sqlite3", "boto3", "tenacity", "asyncio"}
ENVIRONMENT = {"MOORAGE_URL": "http://127.0.0.1:8787", "CLAWSWEEPER_WEBHOOK_SECRET": WEBHOOK_SECRET}


@pytest.fixture
def plane(monkeypatch: pytest.MonkeyPatch) -> Iterator[Plane]:
    """A state plane on a loop of its own, to which every client of a command talks."""
    host = Http("http://127.0.0.1:1", "unused", transport=Script([]))
    made = Plane()
    host.loop.run(made.__aenter__())

    class Across(PlaneTransport):
        async def handle_async_request(self, request: Any) -> Any:
            import asyncio

            ask = super().handle_async_request(request)
            return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(ask, host.loop._loop))

    def opened(url: str | None, signature_version: int = 2, **more: Any) -> Http:
        return real(url, signature_version, transport=Across(made), now=lambda: START_MS / 1000 + 5, **more)

    real = connection.open_http
    monkeypatch.setattr(connection, "open_http", opened)
    yield made
    host.loop.run(made.__aexit__())
    host.close()


def run(*arguments: str, env: dict[str, str] | None = None) -> Any:
    return CliRunner().invoke(cli.main, list(arguments), env=ENVIRONMENT if env is None else env)


class TestGroup:
    def test_help_lists_every_command_with_a_line(self) -> None:
        result = run("--help")
        assert result.exit_code == 0
        listed = {
            line.split()[0]: line for line in result.output.partition("Commands:")[2].splitlines() if line.strip()
        }
        assert {"blobs", "cursor"} <= set(listed)
        for name, line in listed.items():
            assert len(line.split()) > 1, f"{name} has no line of help"

    def test_version(self) -> None:
        assert run("--version").output == f"moorage {metadata.version('moorage')}\n"

    def test_help_loads_no_command_and_nothing_heavy(self) -> None:
        program = (
            "import sys; from moorage.clients.cli import main\n"
            "try: main(['--help'])\n"
            "except SystemExit: pass\n"
            f"print(sorted({HEAVY | {'moorage.clients.cursor_cli'}!r} & set(sys.modules)))"
        )
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
        assert done.stdout.splitlines()[-1] == "[]"

    @pytest.mark.parametrize("module", ["cursor_cli", "blobs_cli"])
    def test_commands_import_nothing_heavy(self, module: str) -> None:
        program = f"import sys, moorage.clients.{module}; print(sorted({HEAVY!r} & set(sys.modules)))"
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
        assert done.stdout == "[]\n"

    def test_unknown_command(self) -> None:
        result = run("nonsense")
        assert result.exit_code == 2
        assert "nonsense" in result.output

    def test_a_command_that_cannot_be_loaded(self, monkeypatch: pytest.MonkeyPatch) -> None:
        point = metadata.EntryPoint("broken", "moorage.nowhere:command", cli.GROUP)
        monkeypatch.setattr(cli, "_entry_points", lambda: {"broken": point})
        result = run("broken")
        assert result.exit_code == 1
        assert "moorage[server]" in result.output
        assert cli.summary(point) == ""
        assert run("--help").exit_code == 0

    def test_an_entry_point_that_is_no_command(self, monkeypatch: pytest.MonkeyPatch) -> None:
        point = metadata.EntryPoint("odd", "moorage.clients.errors:ClientError", cli.GROUP)
        monkeypatch.setattr(cli, "_entry_points", lambda: {"odd": point})
        result = run("odd")
        assert (result.exit_code, "not a click command" in result.output) == (1, True)


class TestConnection:
    def test_secret_names_in_their_order(self) -> None:
        both = {"CLAWSWEEPER_RECORDS_SECRET": "r", "CLAWSWEEPER_WEBHOOK_SECRET": "w"}
        assert connection.secret_of(both) == "r"
        assert connection.secret_of({**both, "CLAWSWEEPER_RECORDS_SECRET": " "}) == "w"
        with pytest.raises(ConfigurationError, match="CLAWSWEEPER_RECORDS_SECRET or CLAWSWEEPER_WEBHOOK_SECRET"):
            connection.secret_of({})

    @pytest.mark.parametrize(
        ("env", "text"),
        [
            ({"CLAWSWEEPER_WEBHOOK_SECRET": "s"}, "MOORAGE_URL"),
            ({"MOORAGE_URL": "http://127.0.0.1:1"}, "CLAWSWEEPER_WEBHOOK_SECRET"),
            ({"MOORAGE_URL": "nonsense", "CLAWSWEEPER_WEBHOOK_SECRET": "s"}, "http(s)://"),
        ],
    )
    def test_what_is_missing_is_named(self, env: dict[str, str], text: str, monkeypatch: pytest.MonkeyPatch) -> None:
        for name in ("MOORAGE_URL", *secret.SECRET_VARIABLES):
            monkeypatch.delenv(name, raising=False)
        result = run("cursor", "get", "audit", env=env)
        assert result.exit_code == 1
        assert text in result.output
        assert "Traceback" not in result.output

    def test_options_go_to_the_command(self) -> None:
        seen: dict[str, Any] = {}

        @click.command()
        @connection.connection_options
        def command(as_json: bool, http_of: Any) -> None:
            seen.update(as_json=as_json, http=http_of())

        CliRunner().invoke(
            command, ["--url", "http://127.0.0.1:9", "--json", "--signature-version", "1"], env=ENVIRONMENT
        )
        assert seen["as_json"] is True
        assert "version=1" in repr(seen["http"])
        seen["http"].close()


class TestCursor:
    def test_life(self, plane: Plane) -> None:
        assert run("cursor", "get", "audit").output == "audit: 0 (revision 0, never moved)\n"
        assert run("cursor", "set", "audit", "7").exit_code == 0
        shown = json.loads(run("cursor", "get", "audit", "--json", "--signature-version", "1").output)
        assert (shown["next_cursor"], shown["revision"]) == (7, 1)

    def test_a_lost_compare(self, plane: Plane) -> None:
        run("cursor", "set", "audit", "7")
        lost = run("cursor", "set", "audit", "8", "--expected-revision", "0")
        assert (lost.exit_code, lost.output) == (1, "Error: audit is at revision 1, position 7\n")
        opened = run("cursor", "set", "audit", "8", "--expected-revision", "0", "--fail-open")
        assert opened.exit_code == 0
        assert "WARNING" in opened.output

    def test_fail_open_without_a_service(self) -> None:
        env = {**ENVIRONMENT, "MOORAGE_URL": "nonsense"}
        assert run("cursor", "get", "audit", "--fail-open", env=env).exit_code == 0
        assert run("cursor", "get", "audit", env=env).exit_code == 1

    def test_wrong_secret(self, plane: Plane) -> None:
        result = run("cursor", "get", "audit", env={**ENVIRONMENT, "CLAWSWEEPER_WEBHOOK_SECRET": "another-secret"})
        assert result.exit_code == 1
        assert "invalid_signature (401)" in result.output
        assert "another-secret" not in result.output


class TestBlobs:
    def test_life(self, plane: Plane, tmp_path: Path) -> None:
        source, target = tmp_path / "source", tmp_path / "target"
        source.write_bytes(b"content\n")
        put = run("blobs", "put", str(source), "assets/a", "--json")
        assert json.loads(put.output)["unchanged"] is False
        assert "unchanged" in run("blobs", "put", str(source), "assets/a").output
        assert "8 bytes" in run("blobs", "stat", "assets/a").output
        assert run("blobs", "get", "assets/a", str(target)).exit_code == 0
        assert target.read_bytes() == b"content\n"
        assert run("blobs", "get", "assets/a", "-").output == "content\n"
        assert [
            json.loads(line)["path"] for line in run("blobs", "list", "assets", "--json").output.splitlines()
        ] == ["assets/a"]
        assert "assets/a" in run("blobs", "list", "assets").output

    def test_missing(self, plane: Plane, tmp_path: Path) -> None:
        for arguments in (
            ("stat", "assets/none"),
            ("get", "assets/none", str(tmp_path / "x")),
            ("get", "assets/none", "-"),
        ):
            result = run("blobs", *arguments)
            assert (result.exit_code, "blob_not_found (404)" in result.output) == (1, True)
        assert list(tmp_path.iterdir()) == []

    def test_what_is_no_path(self, plane: Plane, tmp_path: Path) -> None:
        assert "no blob path" in run("blobs", "stat", "assets/../x").output
        assert run("blobs", "put", str(tmp_path / "none"), "assets/a").exit_code == 2

    def test_immutable(self, plane: Plane, tmp_path: Path) -> None:
        source = tmp_path / "source"
        source.write_bytes(b"1")
        run("blobs", "put", str(source), "ledger/v1/a")
        source.write_bytes(b"2")
        result = run("blobs", "put", str(source), "ledger/v1/a")
        assert (result.exit_code, "ledger_blob_immutable_conflict (409)" in result.output) == (1, True)

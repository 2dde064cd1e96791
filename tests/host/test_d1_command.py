"""`moorage d1`: statements and migrations without a server, and what a server then sees."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from moorage.wrangler_compat.host.d1_command import command
from tests.support.workers_in_process import ask, host_of, lay

ENTRY = """
    from workers import Response, WorkerEntrypoint

    class Default(WorkerEntrypoint):
        async def fetch(self):
            return Response.json(await self.env.DB.prepare("SELECT author FROM quotes ORDER BY author").raw())
"""
WRANGLER = """
[[d1_databases]]
binding = "DB"
database_name = "quotes"
database_id = "1"
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return lay(tmp_path / "w", ENTRY, WRANGLER)


def run(folder: Path, *arguments: str) -> Result:
    return CliRunner().invoke(command, [*arguments, "--dir", str(folder)])


async def authors(folder: Path) -> Any:
    host = host_of(folder / ".moorage/state", folder)
    await host.start()
    found = await (await ask(host, "/")).json()
    await host.close()
    return found


async def test_a_file_seeds_what_a_server_reads(folder: Path) -> None:
    (folder / "init.sql").write_text(
        "DROP TABLE IF EXISTS quotes;\nCREATE TABLE quotes (\n  author TEXT\n);\n"
        "INSERT INTO quotes VALUES ('Ada'),\n ('Grace; Hopper'); -- the end"
    )
    done = await asyncio.to_thread(run, folder, "execute", "quotes", "--file", str(folder / "init.sql"))
    assert (done.exit_code, done.output) == (0, "3 statements, 2 rows changed\n")
    assert await authors(folder) == [["Ada"], ["Grace; Hopper"]]


def test_statements_are_all_or_nothing(folder: Path) -> None:
    made = run(
        folder, "execute", "DB", "--command", "CREATE TABLE t (a, b); INSERT INTO t VALUES (1, NULL), (2, 'x')"
    )
    assert made.exit_code == 0, made.output
    failed = run(folder, "execute", "1", "--command", "DELETE FROM t; SELECT * FROM nowhere")
    assert failed.exit_code == 1
    assert "D1_ERROR: no such table: nowhere" in failed.output
    shown = run(folder, "execute", "DB", "--command", "SELECT a, b FROM t")
    assert shown.output == "a\tb\n1\t\n2\tx\n1 statements, 0 rows changed\n"
    found = json.loads(run(folder, "execute", "DB", "--command", "SELECT a FROM t", "--json").output)
    assert found[0]["results"] == [{"a": 1}, {"a": 2}]


def test_migrations(folder: Path) -> None:
    files = folder / "migrations"
    assert "there is no folder of migrations" in run(folder, "migrations", "list", "DB").output
    files.mkdir()
    (files / "0001_table.sql").write_text("CREATE TABLE quotes (author TEXT);")
    (files / "0002_row.sql").write_text("INSERT INTO quotes VALUES ('Ada');\nINSERT INTO quotes VALUES ('Grace');")
    (files / "notes.txt").write_text("not a migration")
    assert run(folder, "migrations", "list", "DB").output == "0001_table.sql\n0002_row.sql\n"
    assert json.loads(run(folder, "migrations", "apply", "DB", "--json").output) == ["0001_table.sql", "0002_row.sql"]
    assert run(folder, "migrations", "apply", "DB", "--local").output == "there was nothing to apply\n"
    (files / "0003_wrong.sql").write_text("INSERT INTO quotes VALUES ('lost');\nINSERT INTO nowhere VALUES (1);")
    failed = run(folder, "migrations", "apply", "DB")
    assert failed.exit_code == 1
    assert "0003_wrong.sql: D1_ERROR: no such table: nowhere" in failed.output
    assert run(folder, "migrations", "list", "DB").output == "0003_wrong.sql\n"
    assert "\n2\n" in run(folder, "execute", "DB", "--command", "SELECT count(*) FROM quotes").output


async def test_refusals(folder: Path) -> None:
    unknown = await asyncio.to_thread(run, folder, "execute", "other", "--command", "SELECT 1")
    assert "declares no D1 database 'other'; it declares: DB" in unknown.output
    assert "one of --command and --file" in (await asyncio.to_thread(run, folder, "execute", "DB")).output
    empty = await asyncio.to_thread(run, folder, "execute", "DB", "--command", "-- nothing")
    assert "the text holds no SQL statement" in empty.output
    host = host_of(folder / ".moorage/state", folder)
    await host.start()
    used = await asyncio.to_thread(run, folder, "execute", "DB", "--command", "SELECT 1")
    assert used.exit_code == 1
    assert "is in use by process" in used.output
    await host.close()

"""`moorage objects` on a folder that a runtime has written."""

import json
import random
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from moorage.durable_objects.runtime import DurableObject, Runtime
from moorage.wrangler_compat.host.objects import command
from moorage.wrangler_compat.host.statelock import StateLock


class Notes(DurableObject):
    async def put(self, value: str) -> None:
        await self.ctx.storage.put("note", value)
        self.ctx.storage.sql.exec("CREATE TABLE IF NOT EXISTS t (x)")
        self.ctx.storage.sql.exec("INSERT INTO t VALUES (?)", value)
        await self.ctx.storage.setAlarm(4_102_444_800_000)

    async def get(self) -> Any:
        return await self.ctx.storage.get("note"), await self.ctx.storage.getAlarm()

    async def alarm(self) -> None: ...


async def runtime(state: Path) -> Runtime:
    made = Runtime(state, rng=random.Random(0))
    made.namespace("w-Notes", Notes)
    await made.start()
    return made


def moorage(*arguments: str, ok: bool = True) -> str:
    result = CliRunner().invoke(command, list(arguments))
    assert (result.exit_code == 0) is ok, result.output
    return result.output


@pytest.fixture
async def state(tmp_path: Path) -> Path:
    made = await runtime(tmp_path / "state")
    await made.namespaces["w-Notes"].getByName("a").put("hello")
    await made.close()
    return tmp_path / "state"


def test_list_show_and_the_id_by_name(state: Path) -> None:
    [row] = json.loads(moorage("list", "--state", str(state), "--json"))
    assert (row["namespace"], row["name"], row["alarm"]) == ("w-Notes", "a", 4_102_444_800_000)
    for which in ("a", row["id"], row["id"].upper()):
        shown = json.loads(moorage("show", "w-Notes", which, "--state", str(state), "--json"))
        assert shown == {"alarm": 4_102_444_800_000, "keys": {"note": "hello"}, "tables": {"t": 1}}
    assert "note = 'hello'" in moorage("show", "w-Notes", "a", "--state", str(state))


async def test_export_beside_a_running_server_and_restore(state: Path, tmp_path: Path) -> None:
    made = await runtime(state)
    stub = made.namespaces["w-Notes"].getByName("a")
    await stub.put("exported")
    copy = tmp_path / "copy.sqlite"
    moorage("export", "w-Notes", "a", "-o", str(copy), "--state", str(state))
    await stub.put("later")
    await made.close()
    assert "never overwrites" in moorage("export", "w-Notes", "a", "-o", str(copy), "--state", str(state), ok=False)
    moorage("restore", "w-Notes", "a", str(copy), "--state", str(state))
    made = await runtime(state)
    assert await made.namespaces["w-Notes"].getByName("a").get() == ["exported", 4_102_444_800_000]
    await made.close()


def test_refusals_name_what_is_there(state: Path, tmp_path: Path) -> None:
    assert "it has: w-Notes" in moorage("list", "w-Other", "--state", str(state), ok=False)
    assert "stored nothing for 'b'" in moorage("show", "w-Notes", "b", "--state", str(state), ok=False)
    broken = tmp_path / "broken.sqlite"
    broken.write_bytes(b"no database" * 1000)
    assert "not a database" in moorage("restore", "w-Notes", "a", str(broken), "--state", str(state), ok=False)


def test_restore_is_refused_while_the_folder_is_served(state: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy.sqlite"
    moorage("export", "w-Notes", "a", "-o", str(copy), "--state", str(state))
    lock = StateLock(state)
    lock.acquire()
    try:
        assert "in use by process" in moorage("restore", "w-Notes", "a", str(copy), "--state", str(state), ok=False)
    finally:
        lock.release()


def test_a_class_that_was_renamed_is_found_by_the_names_of_its_objects(state: Path, tmp_path: Path) -> None:
    record = {
        "format": 1,
        "record": {
            "applied": [],
            "classes": {"Papers": {"storage": "sqlite", "unique_key": "w-Notes", "declared": True}},
        },
        "journal": None,
    }
    (state / "do" / "w-Notes").rename(state / "do" / "w-Papers")
    file = state / "do" / "w.migrations.json"
    file.write_text(json.dumps(record))
    [row] = json.loads(moorage("list", "--state", str(state), "--json"))
    assert "note = 'hello'" in moorage("show", "w-Papers", "a", "--state", str(state))
    copy = tmp_path / "copy.sqlite"
    moorage("export", "w-Papers", "a", "-o", str(copy), "--state", str(state))
    moorage("restore", "w-Papers", "a", str(copy), "--state", str(state))
    assert len(json.loads(moorage("list", "--state", str(state), "--json"))) == 1
    file.write_text("no record")
    assert "found by its id alone" in moorage("show", "w-Papers", "a", "--state", str(state), ok=False)
    assert "note = 'hello'" in moorage("show", "w-Papers", row["id"], "--state", str(state))

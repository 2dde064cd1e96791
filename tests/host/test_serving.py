"""A host that is really served: fetch, errors, drain, reload, crons, admin port, test hooks, state lock."""

import asyncio
import datetime
import json
import sqlite3
import textwrap
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import pytest
from click.testing import CliRunner

from moorage.durable_objects.runtime.testing import ManualClock
from moorage.wrangler_compat.config import ConfigError
from moorage.wrangler_compat.host import crons
from moorage.wrangler_compat.host.bindings import BindingError
from moorage.wrangler_compat.host.clock import AdjustableClock
from moorage.wrangler_compat.host.host import Host
from moorage.wrangler_compat.host.loader import LoadError
from moorage.wrangler_compat.host.objects import command as objects_command
from moorage.wrangler_compat.host.server import Serving
from moorage.wrangler_compat.host.settings import HostSettings
from moorage.wrangler_compat.host.statelock import StateInUse

WRANGLER = """
name = "sample"
main = "entry.py"
compatibility_date = "2026-07-01"
compatibility_flags = ["python_workers"]
[vars]
GREETING = "hello"
[triggers]
crons = ["*/5 * * * *"]
[[r2_buckets]]
binding = "FILES"
bucket_name = "files"
[[durable_objects.bindings]]
name = "COUNTERS"
class_name = "Counter"
[[migrations]]
tag = "v1"
new_sqlite_classes = ["Counter"]
"""
ENTRY = """
import asyncio, json
from workers import DurableObject, Response, WorkerEntrypoint, env, wait_until

class Counter(DurableObject):
    async def add(self):
        count = (await self.ctx.storage.get("n") or 0) + 1
        await self.ctx.storage.put("n", count)
        return count
    async def remind(self, moment):
        await self.ctx.storage.setAlarm(moment)
    async def alarm(self):
        await self.ctx.storage.put("rang", env.GREETING)
    async def rang(self):
        return await self.ctx.storage.get("rang")

class Default(WorkerEntrypoint):
    async def fetch(self, request):
        path = request.url.split("/", 3)[3].partition("?")[0]
        counter = self.env.COUNTERS.getByName("a")
        if path == "add":
            return Response(str(await counter.add()))
        if path == "slow":
            await asyncio.sleep(0.3)
            return Response(str(await counter.add()))
        if path == "raise":
            raise ValueError("a secret of the Worker")
        if path == "exit":
            raise SystemExit(3)
        if path == "cancel":
            task = asyncio.create_task(asyncio.sleep(9))
            task.cancel()
            await task
        if path == "later":
            async def later():
                raise SystemExit(4)
            self.ctx.waitUntil(later())
        if path == "echo":
            return Response(await request.bytes())
        if path == "url":
            return Response(str(await self.env.COUNTERS.getByName("http://host/").add()))
        if path == "remind":
            await counter.remind(int(await request.text()))
            return Response("ok")
        if path == "rang":
            return Response.json(await counter.rang())
        if path == "file":
            if request.method == "PUT":
                await self.env.FILES.put("f", await request.bytes())
            return Response(await (await self.env.FILES.get("f")).bytes())
        if path == "cron":
            return Response.json(await self.env.COUNTERS.getByName("cron").add())
        return Response(self.env.GREETING + " " + env.GREETING)

    async def scheduled(self, controller, env, ctx):
        await self.env.COUNTERS.getByName("cron").add()
"""

Make = Callable[..., Awaitable[Serving]]


def lay(folder: Path, entry: str = ENTRY, wrangler: str = WRANGLER) -> Path:
    (folder / "wrangler.toml").write_text(wrangler)
    (folder / "entry.py").write_text(textwrap.dedent(entry))
    return folder


@pytest.fixture
async def serve(tmp_path: Path) -> AsyncIterator[Make]:
    made: list[Serving] = []

    async def start(*, mode: str = "serve", clock: Any = None, **settings: Any) -> Serving:
        options = HostSettings(state=tmp_path / "state", port=0, access_log=False, drain_seconds=5, **settings)
        serving = Serving(Host([tmp_path], options, mode=mode, environ={}, clock=clock))
        made.append(serving)
        await serving.start()
        return serving

    yield start
    for serving in made:
        await serving.stop()


async def get(serving: Serving, path: str, method: str = "GET", **options: Any) -> httpx.Response:
    async with httpx.AsyncClient(base_url=serving.url, timeout=20) as client:
        return await client.request(method, path, **options)


async def test_a_worker_with_everything(serve: Make, tmp_path: Path) -> None:
    lay(tmp_path)
    serving = await serve()
    assert (await get(serving, "/")).text == "hello hello"
    assert [(await get(serving, "/add")).text for _ in range(3)] == ["1", "2", "3"]
    assert (await get(serving, "/file", "PUT", content=b"bytes")).content == b"bytes"
    head = await get(serving, "/", "HEAD")
    assert (head.status_code, head.content) == (200, b"")


@pytest.mark.parametrize("mode", ["serve", "dev"])
async def test_an_error_is_told_to_the_developer_alone(serve: Make, tmp_path: Path, mode: str) -> None:
    lay(tmp_path)
    answer = await get(await serve(mode=mode), "/raise")
    assert answer.status_code == 500
    assert answer.json()["error"] == "internal_error"
    assert ("a secret of the Worker" in answer.text) is (mode == "dev")


@pytest.mark.parametrize("path", ["/exit", "/cancel", "/later"])
async def test_a_worker_that_ends_itself_ends_one_request(serve: Make, tmp_path: Path, path: str) -> None:
    lay(tmp_path)
    serving = await serve()
    answer = await get(serving, path)
    if path == "/later":
        assert answer.status_code == 200
    else:
        assert (answer.status_code, answer.json()) == (500, {"error": "internal_error"})
    assert (await get(serving, "/add")).text == "1"


async def test_a_body_beyond_the_limit_ends_while_it_is_read(serve: Make, tmp_path: Path) -> None:
    lay(tmp_path)
    serving = await serve(max_body=1000)
    assert (await get(serving, "/echo", "POST", content=b"x" * 1000)).content == b"x" * 1000
    answer = await get(serving, "/echo", "POST", content=b"x" * 1001)
    assert (answer.status_code, answer.json()) == (413, {"error": "body_too_large", "limit": 1000})
    assert (await get(serving, "/add")).text == "1"


async def test_a_stop_finishes_what_is_running(serve: Make, tmp_path: Path) -> None:
    lay(tmp_path)
    serving = await serve()
    running = asyncio.ensure_future(get(serving, "/slow"))
    await asyncio.sleep(0.1)
    await serving.stop()
    assert (await running).text == "1"
    with pytest.raises(httpx.ConnectError):
        await get(serving, "/add")
    assert (await get(await serve(), "/add")).text == "2"


async def test_a_reload_keeps_storage_and_alarms(serve: Make, tmp_path: Path) -> None:
    lay(tmp_path)
    serving = await serve(mode="dev")
    await get(serving, "/add")
    await get(serving, "/remind", "POST", content=str(int(datetime.datetime.now().timestamp() * 1000) + 700))
    lay(tmp_path, ENTRY.replace("return Response(str(await counter.add()))", "return Response('new')", 1))
    await serving.host.reload()
    assert (await get(serving, "/add")).text == "new"
    for _ in range(100):
        if (await get(serving, "/rang")).json() == "hello":
            break
        await asyncio.sleep(0.05)
    assert (await get(serving, "/rang")).json() == "hello", "the alarm did not fire, or without its Worker's env"


async def test_a_reload_with_a_fault_is_answered_and_mended(serve: Make, tmp_path: Path) -> None:
    lay(tmp_path)
    serving = await serve(mode="dev")
    lay(tmp_path, "this is no Python")
    with pytest.raises(SyntaxError):
        await serving.host.reload()
    answer = await get(serving, "/")
    assert answer.status_code == 503
    assert "entry.py" in answer.text
    lay(tmp_path)
    await serving.host.reload()
    assert (await get(serving, "/")).text == "hello hello"


async def test_saving_a_file_reloads(serve: Make, tmp_path: Path) -> None:
    from moorage.wrangler_compat.host.reload import watch

    lay(tmp_path)
    serving = await serve(mode="dev")
    watching = asyncio.ensure_future(watch(serving))
    try:
        await asyncio.sleep(0.3)
        lay(tmp_path, ENTRY.replace("self.env.GREETING + ", "'saved ' + "))
        for _ in range(100):
            if (await get(serving, "/")).text == "saved  hello":
                break
            await asyncio.sleep(0.05)
        assert (await get(serving, "/")).text == "saved  hello"
    finally:
        watching.cancel()


@pytest.mark.parametrize("definition", ["def", "async def"])
async def test_a_worker_is_told_once_that_it_starts(serve: Make, tmp_path: Path, definition: str) -> None:
    started = f"""
{definition} moorage_started(env):
    with open({str(tmp_path / "said")!r}, "a") as file:
        print(env.GREETING, file=file)
"""
    lay(tmp_path, ENTRY + started)
    serving = await serve(mode="dev")
    assert (tmp_path / "said").read_text() == "hello\n"
    await get(serving, "/")
    assert (tmp_path / "said").read_text() == "hello\n"
    await serving.host.reload()
    assert (tmp_path / "said").read_text() == "hello\n" * 2


async def test_admin_port(serve: Make, tmp_path: Path) -> None:
    lay(tmp_path)
    serving = await serve(admin_port=0)
    await get(serving, "/add")
    async with httpx.AsyncClient(base_url=str(serving.admin_url), timeout=20) as client:
        metrics = (await client.get("/metrics")).text
        assert 'moorage_requests_total{status="200"}' in metrics
        assert 'moorage_objects_live{namespace="sample-Counter"} 1.0' in metrics
        assert (await client.get("/ready")).text == "ready\n"
        assert (await client.get("/live")).status_code == 200
        assert (await client.get("/other")).status_code == 404
        [item] = (await client.get("/objects")).json()
        shown = (await client.get(f"/objects/sample-Counter/{item['id']}")).json()
        assert shown == {"alarm": None, "keys": {"n": 1}, "tables": {}}
        await _objects_through_the_server(str(serving.admin_url), tmp_path)
        assert [
            len((await client.get(path)).json()) for path in ("/objects", "/objects/", "/objects/sample-Counter/")
        ] == [1, 1, 1]
        await get(serving, "/url")
        named = (await client.get(f"/objects/sample-Counter/{quote('http://host/', safe='')}")).json()
        assert named["keys"] == {"n": 1}
        serving.host.settings.state.rename(tmp_path / "moved")
        assert (await client.get("/ready")).status_code == 503
        (tmp_path / "moved").rename(serving.host.settings.state)


async def _objects_through_the_server(url: str, folder: Path) -> None:
    """The command asks the admin port, from anywhere."""
    target = folder / "copy.sqlite"

    def run(*arguments: str) -> str:
        result = CliRunner().invoke(objects_command, [*arguments, "--admin", url])
        assert result.exit_code == 0, result.output
        return result.output

    assert "sample-Counter" in await asyncio.to_thread(run, "list")
    assert "n = 1" in await asyncio.to_thread(run, "show", "sample-Counter", "a")
    await asyncio.to_thread(run, "export", "sample-Counter", "a", "-o", str(target))
    with closing(sqlite3.connect(target)) as copy:
        assert copy.execute("SELECT key FROM _cf_KV").fetchall() == [("n",)]


async def test_the_clock_hook_runs_due_alarms(serve: Make, tmp_path: Path) -> None:
    lay(tmp_path)
    clock = AdjustableClock()
    serving = await serve(test_hooks=True, clock=clock)
    await get(serving, "/remind", "POST", content=str(clock.now() + 3_600_000))
    answer = await get(serving, "/__test/clock", "POST", json={"advance_ms": 3_600_000})
    assert answer.status_code == 200
    assert (await get(serving, "/rang")).json() == "hello"
    wrong: list[Any] = [{"advance_ms": -1}, {"advance_ms": "1"}, []]
    for bad in wrong:
        assert (await get(serving, "/__test/clock", "POST", json=bad)).status_code == 400


async def test_no_hooks_without_the_switch(serve: Make, tmp_path: Path) -> None:
    lay(tmp_path)
    assert (await get(await serve(), "/__test/clock", "POST", json={"advance_ms": 1})).text == "hello hello"


async def test_a_second_process_is_refused_the_state_folder(serve: Make, tmp_path: Path) -> None:
    lay(tmp_path)
    await serve()
    with pytest.raises(StateInUse, match="in use by process"):
        await serve()


async def test_two_workers_of_one_name_are_refused(tmp_path: Path) -> None:
    """Each would have its own instance of an object, on the same file."""
    lay(tmp_path)
    settings = HostSettings(state=tmp_path / "state")
    host = Host([tmp_path, tmp_path], settings, environ={})
    with pytest.raises(BindingError, match="two Workers of this process are called sample"):
        await host.start()
    await host.close()


@pytest.mark.parametrize(
    ("entry", "wrangler", "error", "says"),
    [
        (ENTRY, WRANGLER.replace("Counter", "Missing"), BindingError, "exports: Counter"),
        (ENTRY, WRANGLER.replace("entry.py", "nothing.py"), LoadError, "does not exist"),
        (ENTRY, WRANGLER.replace('["python_workers"]', "[]"), ConfigError, "python_workers"),
        (ENTRY, WRANGLER.replace("*/5 * * * *", "*/5 * * *"), crons.CronError, "4 fields, not 5"),
        (ENTRY, WRANGLER + '[ai]\nbinding = "AI"\n', BindingError, "AI"),
        ("x = 1\n", WRANGLER, TypeError, "nothing to run"),
        ("import no_such_module_here\n", WRANGLER, ModuleNotFoundError, "no_such_module_here"),
    ],
    ids=["class", "main", "flag", "cron", "binding", "empty", "import"],
)
async def test_refusals_say_what_is_wrong(
    serve: Make, tmp_path: Path, entry: str, wrangler: str, error: type[Exception], says: str
) -> None:
    lay(tmp_path, entry, wrangler)
    with pytest.raises(error, match=says):
        await serve()


async def test_crons_fire_at_their_times() -> None:
    clock = ManualClock(int(datetime.datetime(2026, 11, 30, 12, 1, tzinfo=datetime.UTC).timestamp() * 1000))
    fired: list[str] = []

    async def fire(cron: str, moment: int) -> None:
        fired.append(datetime.datetime.fromtimestamp(moment / 1000, datetime.UTC).strftime("%a %H:%M"))

    made = crons.Crons(["*/5 * * * *", "0 0 * * 2"], clock, fire, asyncio.ensure_future)
    made.start()
    await clock.advance(12 * 60_000)
    assert fired == ["Mon 12:05", "Mon 12:10"]
    made.stop()
    await clock.advance(60 * 60_000)
    assert len(fired) == 2


async def test_a_run_of_a_cron_ends_after_fifteen_minutes(caplog: pytest.LogCaptureFixture) -> None:
    clock = ManualClock(int(datetime.datetime(2026, 11, 30, 12, 1, tzinfo=datetime.UTC).timestamp() * 1000))
    ended: list[int] = []

    async def fire(cron: str, moment: int) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(clock.now() - moment)

    made = crons.Crons(["5 * * * *"], clock, fire, asyncio.ensure_future)
    made.start()
    await clock.advance(60 * 60_000)
    assert ended == [900_000]
    assert "scheduled() ran for more than 15 minutes and was ended" in caplog.text
    made.stop()


@pytest.mark.parametrize("seconds", [5, 0])
async def test_a_stop_waits_for_runs_of_crons(caplog: pytest.LogCaptureFixture, seconds: int) -> None:
    clock = ManualClock(int(datetime.datetime(2026, 11, 30, 12, 1, tzinfo=datetime.UTC).timestamp() * 1000))
    more, ended = asyncio.Event(), []

    async def fire(cron: str, moment: int) -> None:
        try:
            await more.wait()
            ended.append("finished")
        except asyncio.CancelledError:
            ended.append("cancelled")
            raise

    made = crons.Crons(["5 * * * *"], clock, fire, asyncio.ensure_future)
    made.start()
    await clock.advance(5 * 60_000)
    made.stop()
    draining = asyncio.ensure_future(made.drain(seconds))
    if seconds:
        await asyncio.sleep(0)
        more.set()
    await draining
    assert ended == ["finished" if seconds else "cancelled"]
    assert ("1 runs of scheduled() did not end in time" in caplog.text) is (seconds == 0)
    await made.drain(0)


@pytest.mark.parametrize(
    ("text", "day"), [("0 0 * * 1", "Sun"), ("0 0 * * 7", "Sat"), ("0 0 * * SUN", "Sun"), ("0 0 * * 2-3", "Tue")]
)
def test_days_of_the_week_are_the_platforms(text: str, day: str) -> None:
    after = datetime.datetime(2026, 11, 30, 12, tzinfo=datetime.UTC)  # a Monday
    assert next(crons.parse(text, after)).strftime("%a") == day


async def test_a_worker_is_reached_by_its_cron(serve: Make, tmp_path: Path) -> None:
    lay(tmp_path)
    serving = await serve()
    await serving.host.scheduled(serving.host.workers[0], "*/5 * * * *", 1)
    assert json.loads((await get(serving, "/cron")).text) == 2


async def test_dev_follows_what_a_build_tool_has_written(tmp_path: Path) -> None:
    lay(tmp_path)
    built = tmp_path / "dist"
    built.mkdir()
    lay(built, wrangler=WRANGLER.replace('name = "', 'name = "built-', 1))
    redirect = tmp_path / ".wrangler" / "deploy" / "config.json"
    redirect.parent.mkdir(parents=True)
    redirect.write_text('{"configPath": "../../dist/wrangler.toml"}')
    settings = HostSettings(state=tmp_path / "state")
    for mode, prefix in (("dev", "built-"), ("serve", "")):
        (config,) = Host([tmp_path], settings, mode=mode, environ={}).configurations()
        assert config.name.startswith("built-") is bool(prefix)

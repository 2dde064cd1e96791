"""The shipped pytest plugin, as a stranger's project uses it: each test is a run of pytest in its own process."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest_plugins = ["pytester"]

WRANGLER = """
name = "sample"
main = "src/entry.py"
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
[env.other.vars]
GREETING = "other"
"""
ENTRY = """
import asyncio
from workers import DurableObject, Response, WorkerEntrypoint, wait_until
import helper

class Counter(DurableObject):
    async def add(self, amount=1):
        count = (await self.ctx.storage.get("n") or 0) + amount
        await self.ctx.storage.put("n", count)
        return count

    async def remind(self, delay):
        await self.ctx.storage.setAlarm(self.ctx.clock.now() + delay)

    async def alarm(self):
        if await self.ctx.storage.get("broken"):
            raise ValueError("broken alarm")
        await self.add(100)

class Default(WorkerEntrypoint):
    async def fetch(self, request):
        if request.url.endswith("/add"):
            return Response(str(await self.env.COUNTERS.getByName("a").add()))
        if request.url.endswith("/raise"):
            raise ValueError("of the Worker")
        if request.url.endswith("/put"):
            await self.env.FILES.put("k", await request.bytes())
            wait_until(asyncio.sleep(1000))
            return Response("put")
        return Response(self.env.GREETING)

    async def scheduled(self, controller, env, ctx):
        await self.env.COUNTERS.getByName("cron").add()
"""
SERVER_TESTS = """
import sys

def test_a_real_server(moorage_worker):
    assert moorage_worker.url.startswith("http://127.0.0.1:")
    assert moorage_worker.fetch("/").text == "hello"
    assert [moorage_worker.fetch("/add").text for _ in range(2)] == ["1", "2"]
    assert moorage_worker.fetch("/raise").status_code == 500
    moorage_worker.scheduled("* * * * *")

def test_storage_is_fresh(moorage_worker):
    assert moorage_worker.fetch("/add", "POST", body="x").text == "1"

def test_nothing_is_left():
    import threading
    assert "helper" not in sys.modules and "entry" not in sys.modules
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("moorage")]
"""
RUNTIME_TESTS = """
import asyncio
import gc
import pytest
from workers import Response

pytestmark = pytest.mark.asyncio

@pytest.mark.moorage(env="other")
async def test_a_server_beside_an_async_test(moorage_worker):
    assert (await moorage_worker.fetch("/")).text == "other"

@pytest.mark.moorage(vars={"GREETING": "mine"})
async def test_requests_alarms_and_eviction(moorage_runtime):
    runtime = moorage_runtime
    answer = await runtime.fetch("/")
    assert isinstance(answer, Response) and await answer.text() == "mine"
    a = runtime.env.COUNTERS.getByName("a")
    assert await a.add(5) == 5
    await a.remind(60_000)
    assert await runtime.alarm(a) == runtime.clock.now() + 60_000
    assert await runtime.evict(a) and not await runtime.evict(a)
    assert runtime.live(a) is None
    await runtime.advance(59_999)
    assert await a.add(0) == 5
    await runtime.advance(1)
    assert await a.add(0) == 105
    assert not await runtime.run_alarm(a)
    await a.remind(60_000)
    assert await runtime.run_alarm(a)
    assert await a.add(0) == 205
    assert runtime.object_ids(runtime.env.COUNTERS) == [a.id]
    await runtime.advance(10 * 60_000)
    assert await runtime.env.COUNTERS.getByName("cron").add(0) == 2
    await runtime.scheduled()
    assert await runtime.env.COUNTERS.getByName("cron").add(0) == 3
    with pytest.raises(ValueError, match="of the Worker"):
        await runtime.fetch("/raise")

async def test_storage_is_fresh_and_reached(moorage_runtime):
    a = moorage_runtime.env.COUNTERS.getByName("a")
    assert await a.add() == 1
    assert type(moorage_runtime.live(a)).__name__ == "Counter"
    storage = await moorage_runtime.storage(a)
    assert await storage.get("n") == 1
    await storage.put("broken", True)
    await a.remind(1000)
    with pytest.raises(ValueError, match="broken alarm"):
        await moorage_runtime.run_alarm(a)
    await storage.put("broken", False)
    assert await moorage_runtime.run_alarm(a), "a waiting retry is run at once"
    assert await moorage_runtime.run_in(a, lambda counter, ctx: counter.add(0)) == 101
    await moorage_runtime.reload()
    assert await moorage_runtime.env.COUNTERS.getByName("a").add(0) == 101

async def test_faults(moorage_runtime):
    a = moorage_runtime.env.COUNTERS.getByName("a")
    assert await a.add(5) == 5
    moorage_runtime.hold_syncs()
    waiting = asyncio.ensure_future(a.add(1))
    await moorage_runtime.settle()
    assert not waiting.done()
    with pytest.raises(RuntimeError, match="cannot be evicted"):
        await moorage_runtime.evict(a)
    moorage_runtime.release_syncs()
    assert await waiting == 6
    moorage_runtime.fail_next_sync()
    with pytest.raises(Exception, match="could not be made durable"):
        await a.add(1)
    assert await moorage_runtime.env.COUNTERS.getByName("a").add(0) in (6, 7)
    assert await moorage_runtime.evict_all() == 1

async def test_what_is_left_behind_is_ended(moorage_runtime):
    moorage_runtime.hold_syncs()
    a = moorage_runtime.env.COUNTERS.getByName("a")
    asyncio.ensure_future(a.add(1))
    await moorage_runtime.settle()
    url = await moorage_runtime.serve()
    assert url.startswith("http://127.0.0.1:")

async def test_nothing_is_left():
    gc.collect()
    own = asyncio.current_task()
    assert not [task for task in asyncio.all_tasks() if task is not own]
"""
MOTO_TESTS = """
import httpx
import pytest

async def test_s3(moorage_runtime):
    with pytest.raises(RuntimeError, match="r2=\\"moto\\""):
        moorage_runtime.s3("FILES")
    with pytest.raises(LookupError, match="there are: FILES"):
        moorage_runtime.s3("OTHER")

@pytest.mark.moorage(r2="moto")
async def test_the_same_bucket_by_s3(moorage_runtime):
    url = await moorage_runtime.serve()
    async with httpx.AsyncClient(base_url=url, timeout=60) as client:
        assert (await client.post("/put", content=b"bytes")).text == "put"
    s3 = moorage_runtime.s3("FILES")
    client = s3.client()
    assert client.get_object(Bucket=s3.bucket, Key="k")["Body"].read() == b"bytes"
    client.put_object(Bucket=s3.bucket, Key="k2", Body=b"by S3")
    assert await (await moorage_runtime.env.FILES.get("k2")).text() == "by S3"
    client.close()
"""
WRONG_TESTS = """
import pytest

def test_no_folder(moorage_worker): ...

@pytest.mark.moorage(dir="elsewhere")
def test_wrong_folder(moorage_worker): ...

@pytest.mark.moorage("worker", colour="red")
def test_wrong_option(moorage_worker): ...

@pytest.mark.moorage("worker")
async def test_both(moorage_worker, moorage_runtime): ...

@pytest.mark.moorage("worker", config="other.toml")
def test_wrong_configuration(moorage_worker): ...
"""
CLIENT_ONLY = """
import sys

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {"uvicorn", "starlette", "greenlet", "aiosqlite", "boto3", "cronsim", "watchfiles"}:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Missing())
"""

INI = """
[pytest]
asyncio_mode = {mode}
asyncio_default_fixture_loop_scope = function
filterwarnings = error
addopts = --strict-markers --strict-config
{more}
"""


def lay(pytester: pytest.Pytester, *, mode: str = "auto", more: str = "", **files: str) -> Path:
    """A project with a Worker in `worker/` and the tests given."""
    worker = pytester.mkdir("worker")
    (worker / "src").mkdir()
    (worker / "wrangler.toml").write_text(WRANGLER)
    (worker / "src" / "entry.py").write_text(ENTRY)
    (worker / "src" / "helper.py").write_text("x = 1\n")
    (pytester.path / "pytest.ini").write_text(INI.format(mode=mode, more=more))
    for name, text in files.items():
        (pytester.path / f"{name}.py").write_text(text)
    return worker


def run(pytester: pytest.Pytester, *arguments: str) -> pytest.RunResult:
    return pytester.runpytest_subprocess("-p", "no:cacheprovider", *arguments, timeout=100)


@pytest.mark.parametrize("mode", ["auto", "strict"])
def test_both_fixtures_in_both_modes(pytester: pytest.Pytester, mode: str) -> None:
    lay(pytester, mode=mode, more="moorage_dir = worker", test_server=SERVER_TESTS, test_runtime=RUNTIME_TESTS)
    run(pytester).assert_outcomes(passed=9)


def test_a_loop_for_the_whole_session(pytester: pytest.Pytester) -> None:
    more = "moorage_dir = worker\nasyncio_default_test_loop_scope = session"
    lay(pytester, mode="auto", more=more, test_runtime=RUNTIME_TESTS)
    run(pytester).assert_outcomes(passed=6)


def test_beside_xdist(pytester: pytest.Pytester) -> None:
    lay(pytester, more="moorage_dir = worker", test_server=SERVER_TESTS, test_runtime=RUNTIME_TESTS)
    run(pytester, "-n", "2", "--dist", "load").assert_outcomes(passed=9)


def test_an_s3_client_meets_the_same_bucket(pytester: pytest.Pytester) -> None:
    lay(pytester, more="moorage_dir = worker", test_s3=MOTO_TESTS)
    quiet = ("-W", "ignore::DeprecationWarning:moto", "-W", "ignore::DeprecationWarning:botocore")
    run(pytester, *quiet).assert_outcomes(passed=2)


def test_the_fixture_that_is_overridden_and_the_nearest_configuration(pytester: pytest.Pytester) -> None:
    override = """
import pytest

@pytest.fixture
def moorage_options():
    return {"dir": "worker", "vars": {"GREETING": "of the fixture"}, "idle_seconds": 1}

def test_of_the_fixture(moorage_worker):
    assert moorage_worker.fetch("/").text == "of the fixture"

@pytest.mark.moorage(vars={"GREETING": "of the marker"})
def test_of_the_marker(moorage_worker):
    assert moorage_worker.fetch("/").text == "of the marker"
"""
    worker = lay(pytester, test_override=override)
    (worker / "tests").mkdir()
    (worker / "tests" / "test_nearest.py").write_text(SERVER_TESTS)
    run(pytester).assert_outcomes(passed=5)


def test_an_error_at_import_shows_the_line_of_the_worker(pytester: pytest.Pytester) -> None:
    worker = lay(pytester, more="moorage_dir = worker", test_server=SERVER_TESTS)
    (worker / "src" / "helper.py").write_text("x = 1\nraise LookupError('no such thing')\n")
    result = run(pytester)
    result.assert_outcomes(errors=2, passed=1)
    result.stdout.fnmatch_lines(["*helper.py:2: LookupError"])


def test_wrong_use_is_explained(pytester: pytest.Pytester) -> None:
    lay(pytester, test_wrong=WRONG_TESTS)
    result = run(pytester)
    result.assert_outcomes(errors=5)
    result.stdout.fnmatch_lines(
        [
            "*no wrangler.toml, .json or .jsonc between*",
            "*there is no folder*elsewhere*",
            "*there is no option 'colour'*",
            "*not both: `await moorage_runtime.serve()`*",
            "*there is no configuration*other.toml*",
        ]
    )


def test_with_the_clients_alone_other_tests_run(pytester: pytest.Pytester) -> None:
    lay(pytester, more="moorage_dir = worker", missing=CLIENT_ONLY, test_plain="def test_plain(): ...\n")
    run(pytester, "-p", "missing").assert_outcomes(passed=1)
    (pytester.path / "test_plain.py").write_text("def test_served(moorage_worker): ...\n")
    result = run(pytester, "-p", "missing")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*pip install 'moorage[[]server]'*"])


def test_without_pytest_asyncio_the_server_still_works(pytester: pytest.Pytester) -> None:
    lay(pytester, more="moorage_dir = worker", test_server=SERVER_TESTS)
    (pytester.path / "pytest.ini").write_text("[pytest]\nmoorage_dir = worker\n")
    (pytester.path / "test_runtime.py").write_text("def test_runtime(moorage_runtime): ...\n")
    result = run(pytester, "-p", "no:asyncio")
    result.assert_outcomes(passed=3, errors=1)
    result.stdout.fnmatch_lines(["*pip install pytest-asyncio*"])


def test_loading_the_plugin_loads_nothing_of_moorage() -> None:
    code = (
        "import sys, moorage.wrangler_compat.host.pytest_plugin\n"
        "print(sorted(name for name in sys.modules if name.split('.')[0] in "
        "{'moorage', 'httpx', 'uvicorn', 'starlette', 'sqlite3', 'boto3', 'msgspec', 'asyncio'}))"
    )
    loaded = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
    names = re.findall(r"'([\w.]+)'", loaded)
    assert [name for name in names if not name.startswith("asyncio")] == [
        "moorage",
        "moorage.wrangler_compat",
        "moorage.wrangler_compat.host",
        "moorage.wrangler_compat.host.pytest_plugin",
    ]

"""A test runner inside a handler: `pyodide.webloop` makes loops that run inside the running one."""

import subprocess
import sys
from pathlib import Path

PROGRAM = """
import asyncio, sys
sys.path.insert(0, sys.argv[1])
from moorage.wrangler_compat.workers import finder
finder.install()
import worker
from workers import Env, Request, running, WorkerContext
from moorage.wrangler_compat.workers.calling import call_fetch

async def main():
    with running(WorkerContext(Env({"NAME": "outer"}))):
        response = await call_fetch(worker.fetch, Request("http://a"))
        print(await response.text())

asyncio.run(main())
assert asyncio.run(asyncio.sleep(0, "plain")) == "plain"
"""

WORKER = """
import asyncio
import pytest
from pyodide.webloop import WebLoop
from workers import Response

WebLoop.shutdown_asyncgens = None
loop_outside = None

class Outcomes:
    def __init__(self):
        self.seen = []
    def pytest_runtest_logreport(self, report):
        if report.when == "call":
            self.seen.append(f"{report.nodeid.split('::')[-1]} {report.outcome}")

def fetch(request):
    global loop_outside
    loop_outside = asyncio.get_event_loop()
    outcomes = Outcomes()
    pytest.main(["-q", "-p", "no:cacheprovider", "--pyargs", "test_inner"], plugins=[outcomes])
    return Response(", ".join(outcomes.seen))
"""

INNER = """
import asyncio
import pytest
import worker
from workers import env

@pytest.mark.asyncio
async def test_waits():
    await asyncio.sleep(0)
    assert asyncio.get_running_loop() is worker.loop_outside
    assert env["NAME"] == "outer"

@pytest.mark.asyncio
async def test_fails():
    await asyncio.sleep(0)
    assert False

def test_plain():
    pass
"""


def test_pytest_runs_inside_a_handler(tmp_path: Path) -> None:
    (tmp_path / "worker.py").write_text(WORKER)
    (tmp_path / "test_inner.py").write_text(INNER)
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path)], capture_output=True, text=True, check=False, cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "test_waits passed, test_fails failed, test_plain passed"

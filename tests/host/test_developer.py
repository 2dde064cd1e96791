"""What a developer meets: own lines in tracebacks, breakpoints, packages of any environment, places of faults."""

import asyncio
import contextlib
import os
import pty
import re
import select
import shutil
import socket
import subprocess
import sys
import sysconfig
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from click.testing import CliRunner

from moorage.wrangler_compat.host import reload
from moorage.wrangler_compat.host.commands import serve
from moorage.wrangler_compat.host.server import Serving
from moorage.wrangler_compat.host.settings import HostSettings
from moorage.wrangler_compat.host.testing import WorkerOptions, WorkerServer
from tests.support.serving import free_port, served

WRANGLER = """
name = "sample"
main = "src/entry.py"
compatibility_date = "2026-07-01"
compatibility_flags = ["python_workers"]
[[durable_objects.bindings]]
name = "OBJECTS"
class_name = "Object"
[[migrations]]
tag = "v1"
new_sqlite_classes = ["Object"]
"""
ENTRY = """
import helper
from workers import DurableObject, Response, WorkerEntrypoint

class Object(DurableObject):
    async def divide(self, by):
        return helper.divide(1, by)

    async def alarm(self):
        helper.divide(2, 0)

    async def remind(self):
        await self.ctx.storage.setAlarm(1)

class Default(WorkerEntrypoint):
    async def fetch(self, request):
        if request.url.endswith("/object"):
            return Response(str(await self.env.OBJECTS.getByName("a").divide(0)))
        if request.url.endswith("/alarm"):
            await self.env.OBJECTS.getByName("a").remind()
            return Response("set")
        if request.url.endswith("/stop"):
            answer = {"secret": 6 * 7}
            breakpoint()
            return Response(str(answer["secret"]))
        if request.url.endswith("/package"):
            import only_in_that_environment
            return Response(only_in_that_environment.NAME)
        return Response("hello")
"""
HELPER = """
def divide(a, b):
    return a / b  # the line that fails
"""


@pytest.fixture
def worker(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    (folder / "src").mkdir(parents=True)
    (folder / "wrangler.toml").write_text(WRANGLER)
    (folder / "src" / "entry.py").write_text(ENTRY)
    (folder / "src" / "helper.py").write_text(HELPER)
    return folder


def test_a_traceback_has_the_lines_of_the_worker_and_of_its_object(worker: Path) -> None:
    with WorkerServer(WorkerOptions(worker)) as server:
        answer = server.fetch("/object")
    assert answer.status_code == 500
    told = "".join(answer.json()["traceback"])
    for line in (
        r'src/entry\.py", line \d+, in fetch',
        r'src/entry\.py", line \d+, in divide',
        r'src/helper\.py", line 3, in divide',
        "# the line that fails",
        "ZeroDivisionError: division by zero",
    ):
        assert re.search(line, told), f"{line} is missing in\n{told}"


def test_a_failing_alarm_is_logged_with_its_lines(worker: Path, caplog: pytest.LogCaptureFixture) -> None:
    with WorkerServer(WorkerOptions(worker)) as server:
        assert server.fetch("/alarm").text == "set"
        end = time.monotonic() + 10
        while "the line that fails" not in caplog.text and time.monotonic() < end:
            server.fetch("/")
    assert "the line that fails" in caplog.text
    assert 'src/helper.py", line 3' in caplog.text


@pytest.mark.parametrize("name", ["entry", "helper"])
def test_a_syntax_error_shows_file_and_line(worker: Path, name: str) -> None:
    path = worker / "src" / f"{name}.py"
    with WorkerServer(WorkerOptions(worker)) as server:
        good = path.read_text()
        path.write_text(good + "\n\ndef broken(:\n    pass\n")
        with pytest.raises(SyntaxError):
            server.reload()
        answer = server.fetch("/")
        assert answer.status_code == 503
        told = "".join(answer.json()["traceback"])
        line = len(good.splitlines()) + 3
        assert f'{name}.py", line {line}' in told
        assert "def broken(:" in told
        path.write_text(good)
        server.reload()
        assert server.fetch("/").text == "hello"


def command_line(*arguments: str) -> list[str]:
    return [sys.executable, "-c", "from moorage.clients.cli import main; main()", *arguments]


def test_a_worker_that_cannot_start_is_told_with_its_place(worker: Path) -> None:
    (worker / "src" / "helper.py").write_text("x = 1\n\ndef broken(:\n")
    command = command_line("serve", str(worker), "--port", "0")
    ended = subprocess.run(command, check=False, capture_output=True, text=True, timeout=60)
    assert ended.returncode == 1
    first, *lines = ended.stderr.splitlines()
    assert first == "Error: the Worker cannot be started:"
    assert re.search(r'src/entry\.py", line 2', lines[0]), "nothing before the Worker's own lines"
    assert 'src/helper.py", line 3' in ended.stderr
    assert "wrangler_compat/host" not in ended.stderr, "the host's own frames are of no use to the reader"


@pytest.mark.parametrize(
    ("broken", "says"),
    [
        ({"src/helper.py": "def broken(:\n"}, 'helper.py", line 1'),
        ({"src/entry.py": "exit(3)\n"}, "called exit() while it was imported"),
        ({"src/entry.py": "open('/no/such/file')\n"}, 'entry.py", line 1'),
        ({"wrangler.toml": WRANGLER + "[vars\n"}, "wrangler.toml"),
        ({"wrangler.toml": WRANGLER.replace("src/entry.py", "lib/entry.py")}, "does not exist"),
    ],
    ids=["syntax", "exit", "file", "configuration", "main"],
)
def test_a_worker_that_is_broken_at_the_start_is_waited_for(worker: Path, broken: dict[str, str], says: str) -> None:
    good = {name: (worker / name).read_text() for name in broken}
    for name, text in broken.items():
        (worker / name).write_text(text)
    with served(worker, command="dev", ready="/") as process:
        answer = httpx.get(process.url)
        assert answer.status_code == 503
        assert answer.json()["error"] == "worker_not_loaded"
        assert "the Worker cannot be started; waiting for a change:" in process.output()
        assert says in process.output()
        end = time.monotonic() + 20
        while httpx.get(process.url).status_code == 503 and time.monotonic() < end:
            for name, text in good.items():
                (worker / name).write_text(text)
            time.sleep(0.2)
        assert httpx.get(process.url).text == "hello"
        assert process.stop() == 0


def test_main_that_moves_to_another_folder_is_watched_there(worker: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    shutil.copytree(worker / "src", elsewhere)

    def answers(process: Any, wanted: str, name: Path, text: str) -> bool:
        end = time.monotonic() + 20
        while time.monotonic() < end:
            name.write_text(text)
            time.sleep(0.2)
            if httpx.get(process.url).text == wanted:
                return True
        return False

    with served(worker, command="dev", ready="/") as process:
        entry = elsewhere / "entry.py"
        entry.write_text(ENTRY.replace('Response("hello")', 'Response("moved")'))
        config = WRANGLER.replace("src/entry.py", "../elsewhere/entry.py")
        assert answers(process, "moved", worker / "wrangler.toml", config)
        assert answers(process, "again", entry, ENTRY.replace('Response("hello")', 'Response("again")'))


@pytest.mark.parametrize("mode", ["serve", "dev"])
def test_a_state_folder_that_cannot_be_used_is_not_waited_for(worker: Path, mode: str) -> None:
    (worker / ".moorage").write_text("no folder")
    ended = subprocess.run(
        command_line(mode, str(worker), "--port", "0"), check=False, capture_output=True, text=True, timeout=60
    )
    assert ended.returncode == 1
    told = ended.stderr.splitlines()
    assert len(told) == 1
    assert told[0].startswith("Error: the state folder cannot be used; choose another with --state: ")
    assert told[0].endswith((".moorage: File exists", "state: Not a directory"))


def test_a_port_that_is_taken(worker: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        for mode in ("serve", "dev"):
            ended = subprocess.run(
                command_line(mode, str(worker), "--port", str(port)),
                check=False, capture_output=True, text=True, timeout=60,
            )  # fmt: skip
            assert ended.returncode == 1
            assert ended.stderr == f"Error: cannot listen on 127.0.0.1:{port}: Address already in use\n"


def test_dev_listens_where_its_configuration_says(worker: Path) -> None:
    port = free_port()
    with (worker / "wrangler.toml").open("a") as file:
        file.write(f'\n[dev]\nport = {port}\nip = "127.0.0.1"\nlocal_protocol = "https"\n')
    with served(worker, "--host", "127.0.0.1", command="dev", ready="/") as process:  # the command line wins
        assert "https is not served here" in process.output()
    dev = subprocess.Popen(command_line("dev", str(worker)), stderr=subprocess.PIPE, text=True)
    try:
        assert dev.stderr is not None
        told = ""
        while f"http://127.0.0.1:{port}" not in told:
            line = dev.stderr.readline()
            assert line, told
            told += line
    finally:
        dev.terminate()
        dev.communicate(timeout=30)
    assert dev.returncode == 0


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--var", "NAME"), "'NAME' is not NAME=VALUE"),
        (("--var", "1A=x"), "'1A=x' is not NAME=VALUE"),
        (("--env-file", "nothing.env"), "nothing.env (of --env-file)"),
        (("--init-secrets",), "--init-secrets is for the state plane"),
        (("--port", "70000"), "70000 is not in the range"),
        (("--require-secrets",), "required secrets are set nowhere: KEY"),
        (("--test-hooks", "--host", "0.0.0.0"), "only on loopback"),
    ],
    ids=lambda value: value[0] if isinstance(value, tuple) else "",
)
def test_what_the_command_line_refuses(worker: Path, arguments: tuple[str, ...], says: str) -> None:
    with (worker / "wrangler.toml").open("a") as file:
        file.write('\n[secrets]\nrequired = ["KEY"]\n')
    result = CliRunner().invoke(serve, [str(worker), "--port", "0", *arguments])
    assert result.exit_code in {1, 2}
    assert says in result.output
    assert "Traceback" not in result.output


def test_files_of_variables_are_named_on_the_command_line(worker: Path) -> None:
    entry = worker / "src" / "entry.py"
    entry.write_text(ENTRY.replace('Response("hello")', 'Response(f"{self.env.A} {self.env.B}")'))
    (worker / ".dev.vars").write_text("A=of .dev.vars\n")
    (worker / "one.env").write_text("A=1\nB=1\n")
    (worker / "two.env").write_text("B=2\n")
    with served(worker, "--env-file", "one.env", "--env-file", "two.env", command="dev", ready="/") as process:
        assert httpx.get(process.url).text == "1 2"


def test_saving_reloads_and_says_how_long_it_took(worker: Path) -> None:
    with served(worker, command="dev", ready="/") as process:
        assert httpx.get(process.url).text == "hello"
        path = worker / "src" / "entry.py"
        end = time.monotonic() + 20
        while "reloaded in" not in process.output() and time.monotonic() < end:
            path.write_text(ENTRY.replace('Response("hello")', 'Response("saved")'))
            time.sleep(0.2)
        found = re.search(r"entry\.py changed: reloaded in (\d+) ms", process.output())
        assert found, process.output()
        assert httpx.get(process.url).text == "saved"


BUSY = """
import asyncio
from workers import DurableObject, Response, WorkerEntrypoint

class Object(DurableObject):
    async def wait(self):
        await asyncio.Event().wait()

class Default(WorkerEntrypoint):
    async def fetch(self, request):
        if request.url.endswith("/wait"):
            await self.env.OBJECTS.getByName("a").wait()
        return Response("old")
"""


async def test_a_reload_does_not_wait_long_for_what_is_running(worker: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reload, "RELOAD_SECONDS", 0.2)
    entry = worker / "src" / "entry.py"
    entry.write_text(BUSY)
    settings = HostSettings(state=worker / "state", port=0, access_log=False, drain_seconds=60)
    serving = Serving(reload.ReloadingHost([worker], settings, mode="dev", environ={}))
    await serving.start()
    async with httpx.AsyncClient(base_url=serving.url, timeout=30) as client:
        waiting = asyncio.ensure_future(client.get("/wait"))
        await asyncio.sleep(0.2)
        entry.write_text(BUSY.replace('"old"', '"new"'))
        started = time.monotonic()
        await serving.host.reload()
        assert time.monotonic() - started < 20
        assert serving.host.settings.drain_seconds == 60
        assert (await client.get("/")).text == "new"
        assert (await waiting).status_code == 500
    await serving.stop()


class Terminal:
    """A program on a pseudo terminal; what it prints is collected."""

    def __init__(self, command: list[str], cwd: Path) -> None:
        self.master, slave = pty.openpty()
        self.process = subprocess.Popen(command, cwd=cwd, stdin=slave, stdout=slave, stderr=slave, close_fds=True)
        os.close(slave)
        self.text = ""

    def until(self, wanted: str, seconds: float = 30.0) -> str:
        """Reads until `wanted` was printed; returns everything so far."""
        end = time.monotonic() + seconds
        while wanted not in self.text:
            readable, _, _ = select.select([self.master], [], [], 0.1)
            if readable:
                self.text += os.read(self.master, 65536).decode("utf-8", "replace")
            elif time.monotonic() > end or self.process.poll() is not None:
                raise AssertionError(f"{wanted!r} did not come:\n{self.text}")
        return self.text

    def type(self, line: str) -> None:
        self.text = ""
        os.write(self.master, f"{line}\n".encode())

    def close(self) -> None:
        self.process.terminate()
        with contextlib.suppress(OSError, AssertionError):
            self.until("stopped", 10)  # a terminal that nobody reads would hold the program up
        self.process.wait(30)
        os.close(self.master)


@pytest.fixture
def terminal(worker: Path, tmp_path: Path) -> Iterator[tuple[Terminal, str]]:
    """`moorage dev project` from another folder, on a terminal."""
    port = free_port()
    code = "from moorage.clients.cli import main; main()"
    made = Terminal([sys.executable, "-c", code, "dev", "project", "--port", str(port)], tmp_path)
    yield made, f"http://127.0.0.1:{port}"
    made.close()


def test_a_breakpoint_stops_in_the_worker_and_goes_on(terminal: tuple[Terminal, str]) -> None:
    shell, url = terminal
    shell.until("SQLite")
    answers: list[str] = []
    asking = threading.Thread(target=lambda: answers.append(httpx.get(f"{url}/stop", timeout=60).text))
    asking.start()
    assert "entry.py" in shell.until("(Pdb) ")
    shell.type("p answer['secret']")
    assert "42" in shell.until("(Pdb) ")
    shell.type("answer['secret'] = 'changed by hand'")
    shell.until("(Pdb) ")
    shell.type("continue")
    asking.join(30)
    assert answers == ["changed by hand"]
    assert httpx.get(url).text == "hello", "the server goes on"


def environment(folder: Path, package: str) -> Path:
    """A virtual environment with one module and without Moorage; returns its folder."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    site = folder / "lib" / version / "site-packages"
    assert site.is_dir(), sysconfig.get_paths()
    (site / "only_in_that_environment.py").write_text(f"NAME = {package!r}\n")
    (site / "click.py").write_text("raise RuntimeError('not this one: Moorage has its own')\n")
    return folder


def test_packages_of_the_projects_environment(worker: Path) -> None:
    environment(worker / ".venv", "of the project")
    with served(worker, command="dev", ready="/") as process:
        assert httpx.get(f"{process.url}/package").text == "of the project"
        assert "packages of" in process.output()


def test_packages_of_the_active_environment(worker: Path, tmp_path: Path) -> None:
    environment(worker / ".venv", "of the project")
    active = environment(tmp_path / "elsewhere", "of the active one")
    with served(worker, command="dev", ready="/", environ={"VIRTUAL_ENV": str(active)}) as process:
        assert httpx.get(f"{process.url}/package").text == "of the active one"


def test_an_environment_of_another_python_is_told(worker: Path, caplog: pytest.LogCaptureFixture) -> None:
    (worker / ".venv" / "lib" / "python3.9" / "site-packages").mkdir(parents=True)
    (worker / ".venv" / "pyvenv.cfg").write_text("version = 3.9\n")
    with WorkerServer(WorkerOptions(worker)) as server:
        assert server.fetch("/").text == "hello"
    assert "another version of Python" in caplog.text


def test_what_the_process_prints_into_the_folder_is_no_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from watchfiles import Change

    log = tmp_path / "out.txt"
    log.write_text("a line\n")
    accepts = reload._Filter(tmp_path / "state")
    assert accepts(Change.modified, str(log))
    with open(log) as file:
        real = os.fstat
        monkeypatch.setattr(os, "fstat", lambda number: real(file.fileno() if number == 1 else number))
        assert not accepts(Change.modified, str(log))

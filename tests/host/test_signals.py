"""A served process and its signals: what runs is finished, what would last for ever is cut, twice means now."""

import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

from tests.support.serving import ServedProcess

WRANGLER = """
name = "sample"
main = "entry.py"
compatibility_date = "2026-07-01"
compatibility_flags = ["python_workers"]
"""
ENTRY = """
import asyncio
import pathlib
from js import WebSocketPair
from workers import Response, WorkerEntrypoint

class Default(WorkerEntrypoint):
    async def fetch(self, request):
        path = request.url.rpartition("/")[2]
        pathlib.Path("got-" + path).touch()
        match path:
            case "slow":
                await asyncio.sleep(1.5)
            case "forever":
                await asyncio.Event().wait()
            case "socket":
                client, server = WebSocketPair.new().object_values()
                server.accept()
                server.send("hello")
                return Response(None, status=101, web_socket=client)
        return Response("hello")
"""

Start = Callable[..., ServedProcess]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    (tmp_path / "wrangler.toml").write_text(WRANGLER)
    (tmp_path / "entry.py").write_text(ENTRY)
    made: list[ServedProcess] = []

    def serve(*arguments: str) -> ServedProcess:
        made.append(ServedProcess(tmp_path, ["--no-access-log", *arguments], ready="/"))
        return made[-1].wait()

    yield serve
    for process in made:
        if process.process.poll() is None:
            process.kill()
        process.log.close()


def until(condition: Callable[[], object]) -> None:
    end = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


class Asking(threading.Thread):
    """A request in a thread of its own, which the Worker has begun; `answer` is its text, or the error."""

    def __init__(self, process: ServedProcess, path: str) -> None:
        super().__init__()
        self.url = process.url + path
        self.answer: object = None
        self.start()
        until((process.folder / f"got-{path[1:]}").exists)

    def run(self) -> None:
        try:
            self.answer = httpx.get(self.url, timeout=60).text
        except httpx.HTTPError as error:
            self.answer = error


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_what_runs_is_finished(start: Start, number: signal.Signals) -> None:
    process = start()
    asking = Asking(process, "/slow")
    process.process.send_signal(number)
    asking.join(30)
    assert asking.answer == "hello"
    assert process.process.wait(30) == 0
    assert "stopped" in process.output()


def test_what_would_last_for_ever_is_cut(start: Start) -> None:
    process = start("--drain-seconds", "1")
    asking = Asking(process, "/forever")
    process.process.send_signal(signal.SIGTERM)
    assert process.process.wait(30) == 0
    asking.join(30)
    assert asking.answer == '{"error":"server_stopping"}'
    assert "Traceback" not in process.output()


def test_a_second_signal_ends_at_once(start: Start) -> None:
    process = start()
    asking = Asking(process, "/forever")
    process.process.send_signal(signal.SIGTERM)
    until(lambda: "stopping" in process.output())
    assert process.process.poll() is None, "it waits for the request"
    process.process.send_signal(signal.SIGTERM)
    assert process.process.wait(10) == 1
    asking.join(30)


def test_sockets_are_told_to_come_back(start: Start) -> None:
    process = start()
    with connect(process.url.replace("http", "ws", 1) + "/socket") as client:
        assert client.recv(10) == "hello"
        process.process.send_signal(signal.SIGTERM)
        with pytest.raises(ConnectionClosed) as closed:
            client.recv(10)
    assert closed.value.rcvd is not None
    assert closed.value.rcvd.code == 1012
    assert process.process.wait(30) == 0


@pytest.mark.parametrize("sent", [b"GET / HTTP/1.1\r\nhost: h\r\nco", b"GET / HTTP/1.1\r\nhost: h\r\n\r\n", b""])
def test_connections_that_are_idle_hold_nothing_up(start: Start, sent: bytes) -> None:
    process = start()
    with socket.create_connection(("127.0.0.1", process.port)) as idle:
        idle.send(sent)
        started = time.monotonic()
        process.process.send_signal(signal.SIGTERM)
        assert process.process.wait(20) == 0
        assert time.monotonic() - started < 20

"""Starts `moorage serve` as a process of its own, for tests that kill it, trace it or load it."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import httpx


def free_port() -> int:
    """A port that was free a moment ago on loopback."""
    with contextlib.closing(socket.socket()) as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


class ServedProcess:
    """One process of the command line, serving on `url`. Ended by `stop` (SIGTERM) or `kill` (SIGKILL)."""

    def __init__(
        self,
        folder: Path,
        arguments: Sequence[str] = (),
        *,
        command: str = "serve",
        environ: Mapping[str, str] | None = None,
        prefix: Sequence[str] = (),
        ready: str = "/api/health",
    ) -> None:
        self.folder = folder
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.ready = ready
        self.prefixed = bool(prefix)
        environment = {key: value for key, value in os.environ.items() if not key.startswith(("CLAWSWEEPER", "R2_"))}
        environment.update(environ or {})
        self.log = open(folder / f"server-{self.port}.log", "w+", encoding="utf-8")  # noqa: SIM115 - closed in stop
        self.process = subprocess.Popen(
            [
                *prefix,
                sys.executable,
                "-c",
                "from moorage.clients.cli import main; main()",
                command,
                *arguments,
                "--port",
                str(self.port),
            ],
            cwd=folder,
            env=environment,
            stdout=self.log,
            stderr=self.log,
        )

    def wait(self, seconds: float = 30.0) -> "ServedProcess":
        """Returns once the server answers. Raises AssertionError with its log when it does not."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if self.process.poll() is not None:
                raise AssertionError(f"the server ended with {self.process.returncode}:\n{self.output()}")
            try:
                httpx.get(self.url + self.ready, timeout=5)
            except httpx.TransportError:
                time.sleep(0.02)
            else:
                return self
        raise AssertionError(f"the server does not answer:\n{self.output()}")

    def output(self) -> str:
        """What the process has written."""
        self.log.flush()
        return Path(self.log.name).read_text(encoding="utf-8")

    def kill(self) -> None:
        """SIGKILL: nothing is finished."""
        self._end(signal.SIGKILL)

    def stop(self, seconds: float = 30.0) -> int:
        """SIGTERM: the drain. Returns the exit status."""
        return self._end(signal.SIGTERM, seconds)

    def _server(self) -> int:
        """The process id of the server itself, which a `prefix` (a tracer) has as its child."""
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        if self.prefixed and children.exists() and (found := children.read_text().split()):
            return int(found[0])
        return self.process.pid

    def _end(self, number: signal.Signals, seconds: float = 30.0) -> int:
        if self.process.poll() is None:
            os.kill(self._server(), number)
        try:
            status = self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise AssertionError(f"the server does not stop:\n{self.output()}") from None
        finally:
            self.log.close()
        return status


@contextlib.contextmanager
def served(folder: Path, *arguments: str, **options: object) -> Iterator[ServedProcess]:
    """A server that answers; it is stopped at the end if it still runs."""
    process = ServedProcess(folder, arguments, **options)  # type: ignore[arg-type]
    try:
        yield process.wait()
    finally:
        if process.process.poll() is None:
            process.stop()

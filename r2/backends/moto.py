"""The `s3` backend against moto, a simulated store in this process: for tests and throw-away development.

One server on loopback serves every moto bucket of the process; it stops with the last of them and forgets everything.
"""

import secrets
import threading
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any, Final

from .common import in_thread, wall_clock
from .s3 import DIFFERENCES as S3_DIFFERENCES
from .s3 import S3Backend
from .s3_probe import probe
from .s3_settings import S3Settings

DIFFERENCES: Final = {
    **S3_DIFFERENCES,
    "durability": "everything is lost when the last bucket is closed",
    "checks": "moto verifies neither checksums nor signatures and expires nothing",
}

_REGION: Final = "us-east-1"


class _Server:
    """moto's server, with writes one at a time: moto checks a condition and stores in two steps."""

    def __init__(self) -> None:
        from moto.moto_server.threaded_moto_server import ThreadedMotoServer
        from moto.moto_server.werkzeug_app import (
            DomainDispatcherApplication,
            MotoRequestHandler,
            create_backend_app,
        )
        from werkzeug.serving import make_server

        class QuietHandler(MotoRequestHandler):
            def log_request(self, code: Any = "-", size: Any = "-") -> None:
                """Nothing: one line a request belongs to whoever asked."""

        class SerialServer(ThreadedMotoServer):
            def _server_entry(self) -> None:
                app = _one_write_at_a_time(DomainDispatcherApplication(create_backend_app))
                self._server = make_server(self._ip_address, self._port, app, True, request_handler=QuietHandler)
                self._server_ready_event.set()
                self._server.serve_forever()

        self._server = SerialServer("127.0.0.1", 0, verbose=False)
        self._server.start()
        host, port = self._server.get_host_and_port()
        self.url = f"http://{host}:{port}"

    def stop(self) -> None:
        import urllib.request

        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        opener.open(urllib.request.Request(f"{self.url}/moto-api/reset", method="POST"), timeout=10).close()
        server = self._server._server
        self._server.stop()
        if server is not None:
            server.server_close()


def _one_write_at_a_time(app: Callable[..., Iterable[bytes]]) -> Callable[..., Iterable[bytes]]:
    lock = threading.Lock()

    def serve(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        if environ["REQUEST_METHOD"] in {"GET", "HEAD"}:
            return app(environ, start_response)
        with lock:
            return app(environ, start_response)

    return serve


class _Shared:
    lock = threading.Lock()
    server: _Server | None = None
    users = 0


def _acquire() -> _Server:
    with _Shared.lock:
        if _Shared.server is None:
            _Shared.server = _Server()
        _Shared.users += 1
        return _Shared.server


def _release() -> None:
    with _Shared.lock:
        _Shared.users -= 1
        if not _Shared.users and _Shared.server is not None:
            server, _Shared.server = _Shared.server, None
            server.stop()


class MotoBackend(S3Backend):
    """An empty bucket of its own in the process's moto server. Open one with `await MotoBackend.create(name)`."""

    differences: Mapping[str, str] = DIFFERENCES

    @classmethod
    async def create(
        cls,
        name: str,
        *,
        now: Callable[[], int] = wall_clock,
        single_put: int | None = None,
        part_size: int | None = None,
    ) -> "MotoBackend":
        """A new bucket. Its name in the store has a random end, so that two of the same name do not meet."""

        def start() -> MotoBackend:
            server = _acquire()
            try:
                settings = S3Settings("moto", "moto", server.url, region=_REGION)
                if single_put is not None:
                    settings = replace(settings, single_put=single_put)
                if part_size is not None:
                    settings = replace(settings, part_size=part_size)
                client = settings.client(proxies=False)
                bucket = f"{name.lower().replace('_', '-')[:40]}-{secrets.token_hex(8)}"
                try:
                    client.create_bucket(Bucket=bucket)
                    probe(client, bucket)
                except BaseException:
                    client.close()
                    raise
            except BaseException:
                _release()
                raise
            return cls(client, bucket, settings, now=now)

        with ThreadPoolExecutor(1) as executor:
            return await in_thread(executor, start)

    async def close(self) -> None:
        if self._closed:
            return
        await super().close()
        with ThreadPoolExecutor(1) as executor:
            await in_thread(executor, _release)

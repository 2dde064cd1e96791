"""The `s3` backend against moto, a simulated store in this process: for tests and throw-away development.

One server on loopback serves every moto bucket of the process; it stops with the last of them and forgets everything.
"""

import io
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
    "checks": "moto verifies neither checksums nor signatures, expires nothing, and takes no key with a line end",
}

_REGION: Final = "us-east-1"


class _Server:
    """moto's server on a free port of loopback."""

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
                app = _mended(DomainDispatcherApplication(create_backend_app))
                self._server = make_server(self._ip_address, self._port, app, True, request_handler=QuietHandler)
                self._server_ready_event.set()
                self._server.serve_forever(poll_interval=0.02)

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


Application = Callable[..., Iterable[bytes]]


def _mended(app: Application) -> Application:
    """moto, with conditional writes in one step, and without its crash on a part of an unknown upload."""
    lock = threading.Lock()

    def serve(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        if environ["REQUEST_METHOD"] in {"GET", "HEAD"}:
            return app(environ, start_response)
        with lock:
            if environ["REQUEST_METHOD"] == "PUT" and "uploadId=" in environ.get("QUERY_STRING", ""):
                refusal = _listing_refused(app, environ)
                if refusal is not None:
                    environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
                    start_response(*refusal[:2])
                    return refusal[2]
            return app(environ, start_response)

    return serve


def _listing_refused(app: Application, environ: dict[str, Any]) -> tuple[str, Any, list[bytes]] | None:
    """The answer to a listing of the upload's parts, when that is an error."""
    upload = next(field for field in environ["QUERY_STRING"].split("&") if field.startswith("uploadId="))
    asked = {**environ, "REQUEST_METHOD": "GET", "QUERY_STRING": upload, "wsgi.input": io.BytesIO()}
    asked = {name: value for name, value in asked.items() if name not in {"CONTENT_LENGTH", "HTTP_CONTENT_MD5"}}
    for name in ("RAW_URI", "REQUEST_URI"):
        if name in asked:
            asked[name] = f"{asked[name].partition('?')[0]}?{upload}"
    started: list[Any] = []
    body = list(app(asked, lambda status, headers, _error=None: started.extend((status, headers))))
    return None if str(started[0]).startswith("2") else (started[0], started[1], body)


class _Shared:
    lock = threading.Lock()
    server: _Server | None = None
    users = 0


def acquire_server() -> _Server:
    """The process's moto server, started when this is its first user. Blocks."""
    with _Shared.lock:
        if _Shared.server is None:
            _Shared.server = _Server()
        _Shared.users += 1
        return _Shared.server


def release_server() -> None:
    """Gives the server up; the last user stops it and everything in it is forgotten. Blocks."""
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
            server = acquire_server()
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
                release_server()
                raise
            return cls(client, bucket, settings, now=now)

        with ThreadPoolExecutor(1) as executor:
            return await in_thread(executor, start)

    @property
    def address(self) -> tuple[str, str]:
        """The server's URL, and the bucket's name there: what another S3 client reaches it by (keys: `moto`)."""
        return self._settings.endpoint_url or "", self.bucket

    async def close(self) -> None:
        if self._closed:
            return
        await super().close()
        with ThreadPoolExecutor(1) as executor:
            await in_thread(executor, release_server)

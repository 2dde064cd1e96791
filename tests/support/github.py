"""A stand-in for the code host's API: open and public unless a sequence says otherwise.

In-process: `answer` takes a request and returns its answer. `Served` puts it behind HTTP on a free loopback port.
"""

import json
import re
import threading
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Answered = tuple[int, Any, Mapping[str, str]]


class GithubStandIn:
    """Answers the calls that the queue makes, keeps dispatches in order. May be called from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._taken = 0
        self.routes: dict[str, Any] = {}
        self.dispatches: list[Any] = []
        self.calls: list[str] = []

    def update(self, routes: Mapping[str, Any]) -> None:
        """Answers of these routes (`METHOD /path`) from now on."""
        with self._lock:
            self.routes.update(routes)

    def next_dispatch(self) -> Any:
        """The body of the next dispatch that nobody has taken, or None."""
        with self._lock:
            if self._taken >= len(self.dispatches):
                return None
            self._taken += 1
            return self.dispatches[self._taken - 1]

    def answer(self, method: str, target: str, body: bytes) -> Answered:
        """Status, JSON value (None: no body) and headers."""
        path = target.partition("?")[0]
        try:
            value = json.loads(body) if body else None
        except ValueError:
            value = None
        with self._lock:
            self.calls.append(f"{method} {target}")
            route = self.routes.get(f"{method} {path}")
            if method == "POST" and re.fullmatch(r"/repos/[^/]+/[^/]+/dispatches", path):
                self.dispatches.append(value)
                given = route or {}
                return given.get("status", 204), given.get("json"), given.get("headers", {})
        if route is not None:
            return route.get("status", 200), route.get("json"), route.get("headers", {})
        return self._usual(method, path)

    @staticmethod
    def _usual(method: str, path: str) -> Answered:
        if method == "GET" and re.fullmatch(r"/repos/[^/]+/[^/]+/installation", path):
            return 200, {"id": 77}, {}
        if method == "POST" and re.fullmatch(r"/app/installations/\d+/access_tokens", path):
            return 201, {"token": "stand-in-token", "expires_at": "2100-01-01T00:00:00.000Z"}, {}
        if method == "GET" and re.fullmatch(r"/repos/[^/]+/[^/]+/actions/workflows/[^/]+", path):
            return 200, {"state": "active"}, {}
        found = re.fullmatch(r"/repos/[^/]+/[^/]+/(issues|pulls)/(\d+)", path)
        if method == "GET" and found:
            item: dict[str, Any] = {"number": int(found[2]), "state": "open"}
            if found[1] == "pulls":
                item["head"] = {"sha": "a" * 40}
            return 200, item, {}
        found = re.fullmatch(r"/repos/([^/]+/[^/]+)", path)
        if method == "GET" and found:
            return 200, {"full_name": found[1], "private": False, "visibility": "public"}, {}
        return 404, {"message": "Not Found"}, {}


class Served:
    """The stand-in over HTTP: `url` until `close()`."""

    def __init__(self, stand_in: GithubStandIn) -> None:
        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *args: Any) -> None:
                pass

            def handle_any(self) -> None:
                body = self.rfile.read(int(self.headers.get("content-length") or 0))
                status, value, headers = stand_in.answer(self.command, self.path, body)
                data = b"" if value is None else json.dumps(value).encode()
                self.send_response(status)
                for name, text in {"content-type": "application/json", **headers}.items():
                    self.send_header(name, text)
                self.send_header("content-length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = handle_any

        class Server(ThreadingHTTPServer):
            def handle_error(self, request: Any, client_address: Any) -> None:
                # a plane that ends cuts its connections; nothing else can go wrong here
                pass

        self._server = Server(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stops serving and frees the port."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

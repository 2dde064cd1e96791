"""A stand-in for the code host's API: open and public unless a sequence says otherwise.

In-process: `answer` takes a request and returns its answer. `Served` puts it behind HTTP on a free loopback port.
`StrictGithub` lets nobody in without the App's tokens, answers conditional reads, and can be unwell.
"""

import hashlib
import json
import re
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Literal

import jwt
from cryptography.hazmat.primitives import serialization

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

    def respond(self, method: str, target: str, body: bytes, headers: Mapping[str, str]) -> Answered | None:
        """`answer`, or None to cut the connection without one; `headers` with names in lower case."""
        return self.answer(method, target, body)

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


@dataclass(frozen=True, slots=True)
class Fault:
    """What befalls the first call that matches `call` (`METHOD /path`, a regular expression)."""

    call: str
    kind: Literal["rate limit", "bad gateway", "hang before", "hang after"]


class StrictGithub(GithubStandIn):
    """Checks the App's RS256 tokens and the tokens it gave, answers 304 to a known ETag, and has `faults`, each once.

    `private_key`: PEM of the App's key. `now`: seconds, what tokens are judged by. A call that hangs does so until
    `released` is set, or for `hang_seconds`.
    """

    def __init__(self, private_key: str, app_id: str = "1", now: Callable[[], float] = time.time) -> None:
        super().__init__()
        key = serialization.load_pem_private_key(private_key.encode(), None)
        self._public_key: Any = key.public_key()
        self._app_id = app_id
        self._now = now
        self._given: set[str] = set()
        self.faults: list[Fault] = []
        self.refused: list[str] = []
        self.not_modified = 0
        self.released = threading.Event()
        self.hang_seconds = 20.0

    def respond(self, method: str, target: str, body: bytes, headers: Mapping[str, str]) -> Answered | None:
        """See `GithubStandIn`."""
        path = target.partition("?")[0]
        bearer = headers.get("authorization", "").removeprefix("Bearer ")
        of_app = path.endswith("/installation") or path.startswith("/app/")
        if not (self._is_app(bearer) if of_app else bearer in self._given):
            self.refused.append(f"{method} {target}")
            return 401, {"message": "Bad credentials"}, {}
        fault = self._fault(f"{method} {path}")
        if fault == "rate limit":
            self.calls.append(f"{method} {target}")
            return 403, {"message": "You have exceeded a secondary rate limit"}, {"retry-after": "60"}
        if fault == "bad gateway":
            self.calls.append(f"{method} {target}")
            return 502, None, {}
        if fault == "hang before":
            self.calls.append(f"{method} {target}")
        status, value, more = self.answer(method, target, body) if fault != "hang before" else (0, None, {})
        if fault is not None:
            self.released.wait(self.hang_seconds)
            return None
        if path.startswith("/app/") and status == 201:
            value = {"token": f"t-{len(self._given) + 1}", "expires_at": _iso(self._now() + 3600)}
            self._given.add(value["token"])
        if method == "GET" and status == 200:
            etag = '"' + hashlib.sha256(json.dumps(value).encode()).hexdigest()[:16] + '"'
            if headers.get("if-none-match") == etag:
                self.not_modified += 1
                return 304, None, {"etag": etag}
            more = {**more, "etag": etag}
        return status, value, more

    def _fault(self, call: str) -> str | None:
        with self._lock:
            for fault in self.faults:
                if re.fullmatch(fault.call, call):
                    self.faults.remove(fault)
                    return fault.kind
        return None

    def _is_app(self, token: str) -> bool:
        try:
            claims = jwt.decode(
                token, self._public_key, algorithms=["RS256"], options={"verify_exp": False, "verify_iat": False}
            )
        except jwt.PyJWTError:
            return False
        seconds = self._now()
        return bool(claims["iss"] == self._app_id and claims["iat"] <= seconds < claims["exp"] <= seconds + 600)


def _iso(seconds: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))


class Served:
    """The stand-in over HTTP: `url` until `close()`."""

    def __init__(self, stand_in: GithubStandIn) -> None:
        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *args: Any) -> None:
                pass

            def handle_any(self) -> None:
                body = self.rfile.read(int(self.headers.get("content-length") or 0))
                sent = {name.lower(): value for name, value in self.headers.items()}
                answered = stand_in.respond(self.command, self.path, body, sent)
                if answered is None:
                    self.close_connection = True
                    return
                status, value, headers = answered
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

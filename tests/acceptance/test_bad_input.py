"""Bad input at every level of HTTP, over raw sockets to a served process: one clear error each, and it goes on."""

import base64
import contextlib
import hashlib
import hmac
import json
import re
import socket
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.support.serving import ServedProcess

SECRETS = {"CLAWSWEEPER_WEBHOOK_SECRET": "hook-secret-value", "EXACT_REVIEW_OPERATOR_SECRET": "operator-secret-value"}
CURSOR = b"/internal/state/cursors/audit"
MAX_HEAD = 16_384
HEAD_SECONDS = 1.0
BODY_SECONDS = 2.0


@dataclass(frozen=True)
class Reply:
    """One answer as it came over the wire."""

    status: int
    headers: dict[str, str]
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)


class Wire:
    """One connection. What is sent goes out as it stands."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=20)
        self._got = b""

    def send(self, data: bytes) -> None:
        with contextlib.suppress(ConnectionError):  # refused while it was still being sent: the answer is there
            self._socket.sendall(data)

    def end(self) -> None:
        self._socket.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        self._socket.close()

    def _more(self) -> bool:
        piece = self._socket.recv(65_536)
        self._got += piece
        return bool(piece)

    def reply(self) -> Reply:
        while b"\r\n\r\n" not in self._got:
            assert self._more(), f"closed without an answer: {self._got[:200]!r}"
        head, _, self._got = self._got.partition(b"\r\n\r\n")
        lines = head.decode("latin-1").split("\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines[1:])}
        length = int(headers.get("content-length", "0"))
        while len(self._got) < length:
            assert self._more(), "closed within an answer"
        body, self._got = self._got[:length], self._got[length:]
        return Reply(int(lines[0].split()[1]), headers, body)

    def closed(self) -> bool:
        """Waits for the server to close; False when it sends anything more instead."""
        return not self._got and not self._more()


def signed(body: bytes) -> bytes:
    digest = hmac.new(SECRETS["CLAWSWEEPER_WEBHOOK_SECRET"].encode(), body, hashlib.sha256).hexdigest()
    return b"x-clawsweeper-exact-review-signature: sha256=" + digest.encode()


def request(
    method: bytes, path: bytes, *fields: bytes, body: bytes | None = None, version: bytes = b"HTTP/1.1"
) -> bytes:
    lines = [method + b" " + path + b" " + version, b"host: here", *fields]
    if body is not None:
        lines += [signed(body), b"content-length: %d" % len(body)]
    return b"\r\n".join([*lines, b"", body or b""])


HEALTH = request(b"GET", b"/api/health")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedProcess]:
    folder = tmp_path_factory.mktemp("bad-input")
    arguments = [
        "--max-head",
        str(MAX_HEAD),
        "--head-seconds",
        str(HEAD_SECONDS),
        "--body-seconds",
        str(BODY_SECONDS),
        "--max-body",
        str(32 * 1024 * 1024),
    ]
    process = ServedProcess(folder, arguments, environ=SECRETS)
    try:
        yield process.wait()
        assert process.process.poll() is None, process.output()
    finally:
        process.stop()


@pytest.fixture
def wire(server: ServedProcess) -> Iterator[Wire]:
    """A connection; afterwards the server still answers, and has logged no traceback."""
    before = len(server.output())
    made = Wire(server.port)
    yield made
    made.close()
    again = Wire(server.port)
    again.send(HEALTH)
    assert again.reply().status == 200, "the server does not go on"
    again.close()
    said = server.output()[before:]
    assert "Traceback" not in said
    assert not re.search('"level": "(error|critical)"', said), said


BODIES = {
    "empty": b"",
    "truncated": b'{"next_cursor": 7, "expected_rev',
    "two values": b'{"next_cursor": 7} {"next_cursor": 8}',
    "deep arrays": b"[" * 100_000,
    "deep objects": b'{"a":' * 100_000 + b"1" + b"}" * 100_000,
    "deep and complete": b'{"next_cursor":7,"expected_revision":0,"x":' + b"[" * 20_000 + b"]" * 20_000 + b"}",
    "not a number": b'{"next_cursor": NaN, "expected_revision": 0}',
    "long number": b'{"next_cursor": 1' + b"0" * 5_000 + b', "expected_revision": 0}',
    "lone surrogate": b'{"next_cursor": "\\ud800", "expected_revision": 0}',
    "control character": b'{"next_cursor": "\x01", "expected_revision": 0}',
    "null": b"null",
    "list": b"[]",
    "text": b'"next_cursor"',
}


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
def test_json_that_is_none_or_says_nothing(wire: Wire, body: bytes) -> None:
    wire.send(request(b"PUT", CURSOR, body=body))
    answer = wire.reply()
    assert (answer.status, answer.json()) == (400, {"error": "invalid_fanout_cursor"})


@pytest.mark.parametrize(
    "body", [b'{"next_cursor": "\xff\xfe"}', b'\xef\xbb\xbf{"next_cursor": 7}'], ids=["bytes", "mark"]
)
def test_text_that_is_not_utf8_never_verifies(wire: Wire, body: bytes) -> None:
    wire.send(request(b"PUT", CURSOR, body=body))
    answer = wire.reply()
    assert (answer.status, answer.json()["error"]) == (401, "invalid_signature")


def test_of_duplicate_keys_the_last_counts(wire: Wire) -> None:
    """As JSON.parse has it, and the recordings with it."""
    body = b'{"next_cursor": 7, "next_cursor": 8, "expected_revision": 0}'
    wire.send(request(b"PUT", CURSOR, body=body))
    answer = wire.reply()
    assert (answer.status, answer.json()["next_cursor"]) == (202, 8)


@pytest.mark.parametrize("kind", [b"text/plain", b"multipart/form-data", b"\xff\xfe", b"a" * 5_000, b""])
def test_the_content_type_decides_nothing(wire: Wire, kind: bytes) -> None:
    """The recordings are lenient: what is signed is the body, and the body must be JSON."""
    wire.send(request(b"PUT", CURSOR, b"content-type: " + kind, body=b"a=1&b=2"))
    assert wire.reply().status == 400


def test_a_body_that_is_declared_too_large(wire: Wire) -> None:
    wire.send(request(b"PUT", CURSOR, signed(b""), b"content-length: 10000000000"))
    answer = wire.reply()
    assert (answer.status, answer.json()["error"]) == (413, "request_body_too_large")
    assert answer.json()["maxBytes"] > 0
    assert wire.closed()


def test_a_body_that_grows_too_large(wire: Wire) -> None:
    """The client sends on and on; its answer must not be lost in a reset of the connection."""
    wire.send(request(b"PUT", CURSOR, signed(b""), b"transfer-encoding: chunked"))
    for _ in range(64):
        wire.send(b"10000\r\n" + b"x" * 65_536 + b"\r\n")
    answer = wire.reply()
    assert (answer.status, answer.json()["error"]) == (413, "request_body_too_large")
    assert wire.closed()


HEADS = {
    "10,000 fields": request(b"GET", b"/api/health", *[b"a%d: b" % number for number in range(10_000)]),
    "1,001 small fields": request(b"GET", b"/api/health", *[b"a: b"] * 1_001),
    "one long field": request(b"GET", b"/api/health", b"a: " + b"b" * 1_000_000),
    "a long path": request(b"GET", b"/" + b"a" * 100_000),
    "a long query": request(b"GET", b"/api/health?" + b"a" * 2_000_000),
    "a head that never ends": b"GET /api/health HTTP/1.1\r\nhost: here\r\n" + b"a: b\r\n" * 5_000,
    "a field that never ends": b"GET /api/health HTTP/1.1\r\nhost: here\r\na: " + b"b" * 100_000,
    "a method that never ends": b"GET /" + b"a" * 100_000,
}


@pytest.mark.parametrize("head", HEADS.values(), ids=HEADS)
def test_a_head_that_is_too_large(wire: Wire, head: bytes) -> None:
    wire.send(head)
    answer = wire.reply()
    assert (answer.status, answer.json()["error"]) == (431, "request_head_too_large")
    assert str(MAX_HEAD) in answer.json()["message"]
    assert answer.headers["connection"] == "close"
    assert wire.closed()


def test_a_head_just_within_the_bound(wire: Wire) -> None:
    wire.send(request(b"GET", b"/api/health", b"a: " + b"b" * (MAX_HEAD - 200)))
    assert wire.reply().status == 200
    wire.send(request(b"GET", b"/api/health", *[b"a: b"] * 900))
    assert wire.reply().status == 200


MALFORMED = {
    "no HTTP": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" * 10,
    "HTTP/2 preface": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "a method unknown to HTTP": request(b"FOO", b"/api/health"),
    "no path": b"GET  HTTP/1.1\r\nhost: here\r\n\r\n",
    "a relative path": request(b"GET", b"api/health"),
    "a space in the path": request(b"GET", b"/a b"),
    "a NUL in the path": request(b"GET", CURSOR + b"\x00"),
    "raw bytes in the path": request(b"GET", b"/\xff\xfe"),
    "backslashes": request(b"GET", b"\\api\\health"),
    "CONNECT": request(b"CONNECT", b"here:443"),
    "an unknown version": request(b"GET", b"/api/health", version=b"HTTP/9.9"),
    "no Host": b"GET /api/health HTTP/1.1\r\n\r\n",
    "two Hosts": request(b"GET", b"/api/health", b"host: there"),
    "a NUL in a field": request(b"GET", b"/api/health", b"a: b\x00c"),
    "a field without a colon": request(b"GET", b"/api/health", b"nothing"),
    "a space before the colon": request(b"GET", b"/api/health", b"a : b"),
    "a folded field": request(b"GET", b"/api/health", b"a: b", b" c"),
    "bare line feeds": b"GET /api/health HTTP/1.1\nhost: here\n\n",
    "a negative length": request(b"PUT", CURSOR, b"content-length: -1") + b"{}",
    "a length of letters": request(b"PUT", CURSOR, b"content-length: ab") + b"{}",
    "a signed length": request(b"PUT", CURSOR, b"content-length: +2") + b"{}",
    "two lengths": request(b"PUT", CURSOR, b"content-length: 2", b"content-length: 3") + b"{}",
    "a length beyond 64 bits": request(b"PUT", CURSOR, b"content-length: " + b"9" * 30) + b"{}",
    "a length and chunks": request(b"PUT", CURSOR, b"content-length: 2", b"transfer-encoding: chunked")
    + b"0\r\n\r\n",
    "an unknown coding": request(b"PUT", CURSOR, b"transfer-encoding: gzip") + b"{}",
    "chunks that are not last": request(b"PUT", CURSOR, b"transfer-encoding: chunked, gzip") + b"{}",
}


@pytest.mark.parametrize("data", MALFORMED.values(), ids=MALFORMED)
def test_what_is_no_request(wire: Wire, data: bytes) -> None:
    wire.send(data)
    answer = wire.reply()
    assert (answer.status, answer.json()["error"]) == (400, "bad_request")
    assert answer.json()["message"]
    assert answer.headers["content-type"].startswith("application/json")
    assert wire.closed()


@pytest.mark.parametrize("version", [b"HTTP/2.0", b"HTTP/0.9"])
def test_another_version(wire: Wire, version: bytes) -> None:
    wire.send(request(b"GET", b"/api/health", version=version))
    answer = wire.reply()
    assert (answer.status, answer.json()["error"]) == (505, "http_version_not_supported")
    assert wire.closed()


CHUNKS = {
    "a size too small": b"3\r\n{}{}{}\r\n0\r\n\r\n",
    "a size of letters": b"zz\r\n{}\r\n0\r\n\r\n",
    "a size beyond 64 bits": b"f" * 20 + b"\r\n{}\r\n0\r\n\r\n",
    "a negative size": b"-1\r\n{}\r\n0\r\n\r\n",
}


@pytest.mark.parametrize("body", CHUNKS.values(), ids=CHUNKS)
@pytest.mark.parametrize("at_once", [True, False], ids=["in one piece", "after the head"])
def test_chunks_of_wrong_size(wire: Wire, body: bytes, at_once: bool) -> None:
    head = request(b"PUT", CURSOR, signed(b"{}"), b"transfer-encoding: chunked")
    if at_once:
        wire.send(head + body)
    else:
        wire.send(head + b"2\r\n{}\r\n")
        wire.send(body)
    answer = wire.reply()
    assert (answer.status, answer.json()["error"]) == (400, "bad_request")
    assert wire.closed()


def test_chunks_with_extensions_and_trailers(wire: Wire) -> None:
    body = b'{"next_cursor": "x"}'
    chunked = b"%x;name=value\r\n" % len(body) + body + b"\r\n0\r\nhost: elsewhere\r\nx-trailer: y\r\n\r\n"
    wire.send(request(b"PUT", CURSOR, signed(body), b"transfer-encoding: chunked") + chunked)
    assert wire.reply().json() == {"error": "invalid_fanout_cursor"}


@pytest.mark.parametrize("piece", [b"GET /api/hea", b"GET /api/health HTTP/1.1\r\nhost: here\r\na", b"\r\n\r\n"])
def test_a_head_that_does_not_end_in_time(wire: Wire, piece: bytes) -> None:
    wire.send(piece)
    if piece.strip():
        answer = wire.reply()
        assert (answer.status, answer.json()["error"]) == (408, "request_head_timeout")
    assert wire.closed()


def test_a_head_that_trickles(server: ServedProcess, wire: Wire) -> None:
    """Each byte is new, but the whole head has one deadline."""
    wire.send(HEALTH)
    assert wire.reply().status == 200
    wire._socket.settimeout(0.1)
    for byte in b"GET /api/health HTTP/1.1\r\n" + b"a: b\r\n" * 20:
        wire.send(bytes([byte]))
        with contextlib.suppress(TimeoutError):
            wire._more()
            break
    else:
        pytest.fail("a head that trickles is waited for without end")
    wire._socket.settimeout(20)
    assert wire.reply().status == 408


def test_a_silent_connection_is_closed(wire: Wire) -> None:
    assert wire.closed()


@pytest.mark.parametrize(
    "fields", [(b"content-length: 100",), (b"transfer-encoding: chunked",)], ids=["sized", "chunked"]
)
def test_a_body_that_does_not_go_on(wire: Wire, fields: tuple[bytes, ...]) -> None:
    wire.send(request(b"PUT", CURSOR, signed(b""), *fields) + b"1\r\n{")
    answer = wire.reply()
    assert (answer.status, answer.json()["error"]) == (408, "request_body_timeout")
    assert wire.closed()


def test_a_body_that_goes_on_slowly(wire: Wire) -> None:
    """What a body may take in all is not the transport's to say; each piece has its time."""
    body = b'{"next_cursor": "x"}'
    wire.send(request(b"PUT", CURSOR, signed(body), b"content-length: %d" % len(body)))
    for byte in body[:6]:
        time.sleep(BODY_SECONDS / 5)
        wire.send(bytes([byte]))
    wire.send(body[6:])
    assert wire.reply().json() == {"error": "invalid_fanout_cursor"}


@pytest.mark.parametrize("length", [100, 100_000])
def test_a_client_that_hangs_up_within_its_body(server: ServedProcess, wire: Wire, length: int) -> None:
    wire.send(request(b"PUT", CURSOR, signed(b""), b"content-length: %d" % length) + b"{")
    wire.end()
    assert wire.closed()
    assert '"status": 499' in server.output()


PATHS = [
    b"/../../etc/passwd",
    b"/internal/state/../../../etc/passwd",
    b"/internal/state/%2e%2e/%2e%2e/etc/passwd",
    b"/internal%2fstate%2fcursors%2faudit",
    b"/internal/state/cursors/..%2f..%2fetc",
    b"/internal/state/cursors/%00",
    b"/internal/state/cursors/audit%00",
    b"/internal/state/cursors/CON",
    b"/internal/state/cursors/audit%",
    b"/api/%68ealth",
    b"/api//health",
    b"/api/health/",
    b"/%",
    b"/%ff%fe",
    b"//",
    b"*",
]


@pytest.mark.parametrize("path", PATHS)
def test_paths_that_lead_nowhere(wire: Wire, path: bytes) -> None:
    wire.send(request(b"GET", path, signed(b"")))
    answer = wire.reply()
    assert (answer.status, answer.json()) == (404, {"error": "not_found"})


KEYS = [
    "../../../etc/passwd",
    "ledger/v1/../../secret",
    "ledger/v1/%2e%2e/x",
    "/etc/passwd",
    "assets/a\\b",
    "assets/a\x00b",
    "assets/CON\x01",
    "assets//a",
    "assets/./a",
    "assets/" + "a" * 5_000,
    "",
]


@pytest.mark.parametrize("key", KEYS, ids=lambda key: repr(key[:30]))
def test_blob_keys_that_lead_elsewhere(server: ServedProcess, wire: Wire, key: str) -> None:
    before = set(Path(server.folder).rglob("*/"))
    digest = hashlib.sha256(b"x").hexdigest()
    put = {"path": key, "digest": digest, "contentBase64": base64.b64encode(b"x").decode()}
    wire.send(request(b"POST", b"/internal/state/blobs/put", body=json.dumps(put).encode()))
    answer = wire.reply()
    assert (answer.status, answer.json()) == (400, {"error": "invalid_blob_path"})
    assert set(Path(server.folder).rglob("*/")) == before


def test_pipelined_requests_are_answered_in_order(wire: Wire) -> None:
    bad = request(b"PUT", CURSOR, body=b"{}")
    wire.send(HEALTH + bad + request(b"GET", b"/nowhere") + HEALTH)
    assert [wire.reply().status for _ in range(4)] == [200, 400, 404, 200]


def test_a_refusal_waits_for_the_answers_before_it(wire: Wire) -> None:
    """Garbage behind a good request must not become that request's answer."""
    wire.send(HEALTH + HEALTH + b"\x00garbage\r\n\r\n")
    assert [wire.reply().status for _ in range(2)] == [200, 200]
    assert wire.closed()


def test_a_body_that_nobody_reads_is_skipped(wire: Wire) -> None:
    wire.send(request(b"POST", b"/nowhere", body=b"x" * 100_000) + HEALTH)
    assert [wire.reply().status for _ in range(2)] == [404, 200]


def test_a_head_that_begins_behind_a_long_body(wire: Wire) -> None:
    """What came before it in the same piece is no part of it."""
    wire.send(request(b"POST", b"/nowhere", body=b"x" * (MAX_HEAD + 2_000)) + HEALTH[:-10])
    assert wire.reply().status == 404
    wire.send(HEALTH[-10:])
    assert wire.reply().status == 200


def test_http_1_0(wire: Wire) -> None:
    wire.send(b"GET /api/health HTTP/1.0\r\n\r\n")
    answer = wire.reply()
    assert (answer.status, answer.headers["connection"]) == (200, "close")
    assert wire.closed()


def test_expect_100_continue(wire: Wire) -> None:
    body = b"{}"
    wire.send(request(b"PUT", CURSOR, signed(body), b"expect: 100-continue", b"content-length: 2"))
    assert wire.reply().status == 100
    wire.send(body)
    assert wire.reply().json() == {"error": "invalid_fanout_cursor"}


def test_expect_is_not_continued_for_what_is_too_large(wire: Wire) -> None:
    wire.send(request(b"PUT", CURSOR, b"expect: 100-continue", b"content-length: 10000000000"))
    assert wire.reply().status == 413


def test_an_upgrade_that_is_not_spoken_is_answered_as_it_stands(wire: Wire) -> None:
    wire.send(request(b"GET", b"/api/health", b"connection: upgrade", b"upgrade: h2c"))
    assert wire.reply().status == 200


def test_nothing_of_this_reached_the_log(server: ServedProcess) -> None:
    said = server.output()
    assert not any(secret in said for secret in SECRETS.values())
    assert "next_cursor" not in said
    assert "sha256=" not in said

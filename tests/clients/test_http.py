"""The signed client: what it sends, when it tries again, how long it waits, and what it never shows."""

import asyncio
import json
import logging
import pickle
import signal
import threading
import traceback
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from moorage.clients.errors import (
    ClientError,
    ConfigurationError,
    Conflict,
    InvalidAnswer,
    NotFound,
    RemoteError,
    TransportError,
    Unauthorized,
    Unavailable,
)
from moorage.clients.http import AsyncHttp, Http, Policy, check_url, parse_retry_after
from moorage.clients.loop import LoopThread
from moorage.clients.secret import Secret, redact
from moorage.protocols.signatures import Request, verify_request
from tests.support.http import PlaneTransport, Script
from tests.support.plane import SIGNATURE, START_MS, WEBHOOK_SECRET, Plane, sign

SECRET = "very/secret value+1"
URL = "http://127.0.0.1:8787"
NOW = START_MS / 1000


class Sleeps(list[float]):
    async def __call__(self, seconds: float) -> None:
        self.append(seconds)


def client(transport: httpx.AsyncBaseTransport, **more: Any) -> AsyncHttp:
    options: dict[str, Any] = {"transport": transport, "now": lambda: NOW, "sleep": Sleeps(), "chance": lambda: 1.0}
    return AsyncHttp(URL, SECRET, **{**options, **more})


def ok(**members: Any) -> httpx.Response:
    return httpx.Response(200, json={"ok": True, **members})


class TestSigning:
    async def test_version_2_by_default(self) -> None:
        script = Script([ok()])
        async with client(script) as http:
            await http.json("POST", "/a/b?x=%20y", {"k": 1})
        (request,) = script.seen
        verified = verify_request(
            Request("POST", b"/a/b", b"x=%20y", [(name.lower(), value) for name, value in request.headers.raw]),
            b'{"k":1}',
            {"webhook": [SECRET.encode()]},
            NOW,
        )
        assert (verified.key_id, verified.created) == ("webhook", int(NOW))
        assert len(verified.nonce) >= 16
        assert SIGNATURE not in request.headers
        assert request.headers["content-type"] == "application/json"

    async def test_version_1_on_request(self) -> None:
        script = Script([ok()])
        async with client(script, signature_version=1) as http:
            await http.json("GET", "/a")
        assert script.seen[0].headers[SIGNATURE] == sign(SECRET, b"")
        assert "signature" not in script.seen[0].headers
        assert "content-type" not in script.seen[0].headers

    async def test_every_attempt_has_a_nonce_of_its_own(self) -> None:
        script = Script([httpx.Response(503), httpx.Response(503), ok()])
        async with client(script) as http:
            await http.json("GET", "/a")
        assert len({request.headers["signature-input"] for request in script.seen}) == 3

    async def test_unsigned_requests(self) -> None:
        script = Script([ok()])
        async with client(script) as http:
            await http.json("GET", "/a", signed=False)
        assert "signature" not in script.seen[0].headers

    async def test_a_service_that_has_just_started_says_from_when_on_it_accepts(self) -> None:
        async with Plane(start_ms=START_MS + 3500) as plane:
            transport = PlaneTransport(plane)
            async with AsyncHttp(URL, WEBHOOK_SECRET, transport=transport, now=lambda: NOW, sleep=Sleeps()) as http:
                found = await http.json("GET", "/internal/state/cursors/audit")
                await http.json("GET", "/internal/state/cursors/audit")
        assert found["ok"] is True
        assert len(transport.seen) == 3

    async def test_it_does_not_follow_a_service_into_the_future(self) -> None:
        refused = {"error": "invalid_signature", "reason": "created_before_start", "not_before": int(NOW) + 1000}
        script = Script([httpx.Response(401, json=refused)])
        async with client(script) as http:
            with pytest.raises(Unauthorized, match="created_before_start"):
                await http.json("GET", "/a")

    async def test_it_signs_again_once(self) -> None:
        refused = {"error": "invalid_signature", "reason": "created_before_start", "not_before": int(NOW) + 5}
        script = Script([httpx.Response(401, json=refused), httpx.Response(401, json=refused)])
        async with client(script) as http:
            with pytest.raises(Unauthorized):
                await http.json("GET", "/a")
        assert len(script.seen) == 2


class TestRetries:
    @pytest.mark.parametrize("status", [429, 500, 502, 503, 504])
    async def test_four_attempts_with_growing_waits(self, status: int) -> None:
        script = Script([httpx.Response(status, json={"error": "code_x"}) for _ in range(4)])
        sleeps = Sleeps()
        async with client(script, sleep=sleeps) as http:
            with pytest.raises(Unavailable) as caught:
                await http.json("GET", "/a")
        assert len(script.seen) == 4
        assert sleeps == [0.25, 0.5, 1.0]
        assert (caught.value.status, caught.value.code, caught.value.attempts) == (status, "code_x", 4)

    async def test_jitter(self) -> None:
        sleeps = Sleeps()
        async with client(Script([httpx.Response(503), ok()]), sleep=sleeps, chance=lambda: 0.0) as http:
            await http.json("GET", "/a")
        assert sleeps == [0.125]

    @pytest.mark.parametrize(
        ("status", "kind"),
        [
            (400, RemoteError),
            (401, Unauthorized),
            (404, NotFound),
            (408, RemoteError),
            (409, Conflict),
            (413, RemoteError),
            (301, RemoteError),
        ],
    )
    async def test_other_statuses_are_final(self, status: int, kind: type[RemoteError]) -> None:
        script = Script([httpx.Response(status, json={"error": "code_x", "more": 1})])
        async with client(script) as http:
            with pytest.raises(kind) as caught:
                await http.json("POST", "/a", {})
        assert (caught.value.code, caught.value.body["more"], caught.value.attempts) == ("code_x", 1, 1)

    @pytest.mark.parametrize(
        "error", [httpx.ConnectError("refused"), httpx.ReadError("cut"), httpx.RemoteProtocolError("x")]
    )
    async def test_network_failures(self, error: Exception) -> None:
        async with client(Script([error, ok()])) as http:
            assert await http.json("GET", "/a") == {"ok": True}
        async with client(Script([error] * 4)) as http:
            with pytest.raises(TransportError) as caught:
                await http.json("GET", "/a")
        assert caught.value.attempts == 4

    async def test_expected_statuses_are_answers(self) -> None:
        async with client(Script([httpx.Response(409, json={"error": "x"})])) as http:
            assert await http.json("GET", "/a", expect=(409,)) == {"error": "x"}

    @pytest.mark.parametrize("body", [b"", b"[]", b"nonsense", b"\xff", b'"x"'])
    async def test_an_invalid_success_is_tried_again(self, body: bytes) -> None:
        async with client(Script([httpx.Response(200, content=body), ok()])) as http:
            assert await http.json("GET", "/a") == {"ok": True}
        async with client(Script([httpx.Response(200, content=body)] * 4)) as http:
            with pytest.raises(InvalidAnswer, match="JSON"):
                await http.json("GET", "/a")

    async def test_an_error_without_json(self) -> None:
        async with client(Script([httpx.Response(418, content=b"<html>")])) as http:
            with pytest.raises(RemoteError, match="no code \\(418\\)") as caught:
                await http.json("GET", "/a")
        assert caught.value.body == {}

    async def test_answers_are_bounded(self) -> None:
        async with client(Script([httpx.Response(200, content=b"x" * 11)])) as http:
            with pytest.raises(InvalidAnswer, match="longer than 10 bytes"):
                await http.request("GET", "/a", max_answer_bytes=10)


class TestRetryAfter:
    async def test_is_obeyed(self) -> None:
        sleeps = Sleeps()
        script = Script([httpx.Response(503, headers={"retry-after": "7"}), ok()])
        async with client(script, sleep=sleeps) as http:
            await http.json("GET", "/a")
        assert sleeps == [7.0]

    async def test_never_shortens_the_backoff(self) -> None:
        sleeps = Sleeps()
        async with client(Script([httpx.Response(503, headers={"retry-after": "0"}), ok()]), sleep=sleeps) as http:
            await http.json("GET", "/a")
        assert sleeps == [0.25]

    async def test_too_long_a_wait_is_left_to_the_caller(self) -> None:
        sleeps = Sleeps()
        script = Script([httpx.Response(429, headers={"retry-after": "3600"}, json={"error": "slow_down"})])
        async with client(script, sleep=sleeps) as http:
            with pytest.raises(Unavailable) as caught:
                await http.json("GET", "/a")
        assert (sleeps, caught.value.retry_after) == ([], 3600.0)

    def test_forms(self) -> None:
        assert parse_retry_after("12", 0) == 12.0
        assert parse_retry_after("Mon, 30 Nov 2026 14:13:30 GMT", 1796048000) == 10.0
        assert parse_retry_after("Mon, 30 Nov 2020 14:13:30 GMT", 1796048000) == 0.0
        for text in (None, "", "soon", "-1", "1.5", "٣"):
            assert parse_retry_after(text, 0) is None

    @given(st.text(max_size=40))
    def test_any_text(self, text: str) -> None:
        found = parse_retry_after(text, 0.0)
        assert found is None or found >= 0


class TestDeadline:
    async def test_an_attempt_that_hangs_is_cut_off(self) -> None:
        async def hang(request: httpx.Request) -> httpx.Response:
            await asyncio.Event().wait()
            raise AssertionError

        policy = Policy(deadline=0.01, attempts=2)
        async with client(httpx.MockTransport(hang), policy=policy) as http:
            with pytest.raises(TransportError, match=r"within 0.01 s") as caught:
                await http.json("GET", "/a")
        assert caught.value.attempts == 2

    async def test_an_answer_that_trickles_is_cut_off(self) -> None:
        class Trickle(httpx.AsyncByteStream):
            async def __aiter__(self) -> Any:
                while True:
                    yield b"x"
                    await asyncio.sleep(0.001)

        async def answer(request: httpx.Request) -> httpx.Response:
            return httpx.Response(200, stream=Trickle())

        async with client(httpx.MockTransport(answer), policy=Policy(deadline=0.02, attempts=1)) as http:
            with pytest.raises(TransportError, match="no answer"):
                await http.json("GET", "/a")

    @pytest.mark.parametrize("options", [{"deadline": 0}, {"deadline": float("inf")}, {"attempts": 0}])
    def test_a_policy_must_end(self, options: dict[str, Any]) -> None:
        with pytest.raises(ConfigurationError):
            Policy(**options)


class TestSecrets:
    FORMS = (SECRET, "very%2Fsecret%20value%2B1", "dmVyeS9zZWNyZXQgdmFsdWUrMQ==")

    async def test_no_error_shows_them(self, caplog: pytest.LogCaptureFixture) -> None:
        caplog.set_level(logging.DEBUG)
        failures: list[Exception | httpx.Response] = [
            httpx.ConnectError(f"cannot reach {form}") for form in self.FORMS
        ]
        failures.append(httpx.Response(500, json={"error": "x"}))
        async with client(Script(failures)) as http:
            with pytest.raises(ClientError) as caught:
                await http.json("POST", "/a", {})
            shown = [repr(http), str(caught.value), repr(caught.value), caplog.text]
        shown.append("".join(traceback.format_exception(caught.value)))
        async with client(Script([httpx.ConnectError(f"cannot reach {SECRET}")] * 4)) as http:
            with pytest.raises(TransportError) as last:
                await http.json("POST", "/a", {})
        shown.append("".join(traceback.format_exception(last.value)))
        assert "<hidden>" in str(last.value)
        for text in shown:
            for form in self.FORMS:
                assert form not in text

    def test_a_secret_hides_itself(self) -> None:
        secret = Secret(f"  {SECRET}\n")
        assert secret.reveal() == SECRET.encode()
        assert SECRET not in f"{secret!r} {secret} {[secret]}"
        with pytest.raises(TypeError):
            pickle.dumps(secret)
        with pytest.raises(ValueError, match="empty"):
            Secret(" \n")
        assert redact("nothing", None) == "nothing"

    @given(st.text(min_size=1).filter(lambda text: text.strip() == text and text.isprintable()), st.text(), st.text())
    def test_redaction(self, secret: str, before: str, after: str) -> None:
        assert secret not in redact(before + secret + after, Secret(secret)).replace("<hidden>", "\0")


class TestAddresses:
    @pytest.mark.parametrize(
        ("given_url", "url"),
        [
            ("https://state.example.test/", "https://state.example.test"),
            (" http://127.0.0.1:8787 ", "http://127.0.0.1:8787"),
            ("https://example.test/base/", "https://example.test/base"),
            ("http://[::1]:8787", "http://[::1]:8787"),
        ],
    )
    def test_good(self, given_url: str, url: str) -> None:
        assert check_url(given_url) == url

    @pytest.mark.parametrize(
        "url",
        [
            "",
            "state.example.test",
            "ftp://x",
            "https://",
            "https://u:p@x",
            "https://x?y",
            "https://x#y",
            "http://x:99999",
            "http://[::",
        ],
    )
    def test_bad(self, url: str) -> None:
        with pytest.raises(ConfigurationError):
            check_url(url)

    def test_plain_http_is_warned_about(self, caplog: pytest.LogCaptureFixture) -> None:
        check_url("http://127.0.0.1:1")
        assert not caplog.records
        check_url("http://state.example.test")
        assert "plain HTTP" in caplog.text

    @pytest.mark.parametrize("options", [{"secret": " "}, {"secret": "s", "signature_version": 3}])
    def test_settings_are_checked(self, options: dict[str, Any]) -> None:
        with pytest.raises(ConfigurationError):
            AsyncHttp(URL, **options)

    async def test_a_base_path_is_part_of_what_is_signed(self) -> None:
        script = Script([ok()])
        async with AsyncHttp(URL + "/base", SECRET, transport=script, now=lambda: NOW) as http:
            await http.json("GET", "/a")
        assert script.seen[0].url.raw_path == b"/base/a"
        verify_request(
            Request("GET", b"/base/a", b"", [(name.lower(), value) for name, value in script.seen[0].headers.raw]),
            b"",
            {"webhook": [SECRET.encode()]},
            NOW,
        )


class Chunks(httpx.AsyncByteStream):
    """A body in pieces; an exception among them is raised, an event is waited for."""

    def __init__(self, *pieces: bytes | Exception | asyncio.Event) -> None:
        self.pieces = pieces
        self.closed = False

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for piece in self.pieces:
            if isinstance(piece, Exception):
                raise piece
            if isinstance(piece, asyncio.Event):
                await piece.wait()
            else:
                yield piece

    async def aclose(self) -> None:
        self.closed = True


def stream_of(*pieces: bytes | Exception | asyncio.Event) -> httpx.Response:
    return httpx.Response(200, stream=Chunks(*pieces))


class TestStreams:
    async def lines(self, *answers: httpx.Response | Exception, **options: Any) -> list[str]:
        self.script = Script(list(answers))
        async with AsyncHttp(URL, SECRET, transport=self.script, now=lambda: NOW, sleep=Sleeps()) as http:
            return [line async for line in http.lines("/events?from=now", headers={"last-event-id": "4"}, **options)]

    async def test_lines_end_with_line_feeds_alone(self) -> None:
        body = 'data: "a\u2028b\x85c"\r\n\nid: é\nno end'.encode()
        expected = ['data: "a\u2028b\x85c"', "", "id: é"]
        assert await self.lines(stream_of(body)) == expected
        assert await self.lines(stream_of(*(body[at : at + 1] for at in range(len(body))))) == expected
        request = self.script.seen[0]
        assert request.headers["last-event-id"] == "4"
        fields = [(name.lower(), value) for name, value in request.headers.raw]
        verify_request(Request("GET", b"/events", b"from=now", fields), b"", {"webhook": [SECRET.encode()]}, NOW)

    async def test_a_refusal_is_told_and_not_repeated(self) -> None:
        with pytest.raises(Unavailable, match="busy"):
            await self.lines(httpx.Response(503, json={"error": "busy"}), ok())
        assert len(self.script.seen) == 1

    async def test_a_service_that_has_just_started_is_signed_for_again(self) -> None:
        early = {"error": "invalid_signature", "reason": "created_before_start", "not_before": int(NOW) + 2}
        assert await self.lines(httpx.Response(401, json=early), stream_of(b"a\n")) == ["a"]
        assert f"created={int(NOW) + 2}" in self.script.seen[1].headers["signature-input"]

    async def test_what_breaks_has_no_secret_in_it(self) -> None:
        for broken in (httpx.ReadError(f"lost {SECRET}"), httpx.RemoteProtocolError(f"cut {SECRET}")):
            body = Chunks(b"a\n", broken)
            with pytest.raises(TransportError) as caught:
                await self.lines(httpx.Response(200, stream=body))
            assert SECRET not in str(caught.value)
            assert body.closed

    async def test_silence_ends_it(self) -> None:
        with pytest.raises(TransportError, match=r"within 0\.01 s"):
            await self.lines(stream_of(b"a\n", asyncio.Event()), idle=0.01)

    async def test_lines_are_bounded(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("moorage.clients.http.MAX_LINE_BYTES", 4)
        assert await self.lines(stream_of(b"abcd\n")) == ["abcd"]
        with pytest.raises(InvalidAnswer, match="longer than 4 bytes"):
            await self.lines(stream_of(b"abcde", b"\n"))

    def test_dropping_the_synchronous_lines_closes_the_connection(self) -> None:
        body = Chunks(b"a\n", asyncio.Event())
        with Http(URL, SECRET, transport=Script([httpx.Response(200, stream=body)]), now=lambda: NOW) as http:
            lines = http.lines("/events")
            assert next(lines) == "a"
            lines.close()  # type: ignore[attr-defined]
        assert body.closed


class TestCallOptions:
    async def test_a_policy_of_one_call(self) -> None:
        script = Script([httpx.Response(503), httpx.Response(503), ok()])
        async with AsyncHttp(URL, SECRET, transport=script, now=lambda: NOW, sleep=Sleeps()) as http:
            with pytest.raises(Unavailable):
                await http.json("POST", "/a", {}, policy=Policy(attempts=1))
            assert len(script.seen) == 1
            assert await http.json("POST", "/a", {}) == {"ok": True}

    async def test_without_a_secret_only_unsigned_requests_are_sent(self) -> None:
        script = Script([ok()])
        async with AsyncHttp(URL, None, transport=script) as http:
            assert (await http.request("POST", "/a", b"{}", signed=False)).status == 200
            with pytest.raises(ConfigurationError, match="there is no secret"):
                await http.request("POST", "/a")
        assert len(script.seen) == 1


class TestSynchronousFace:
    def test_it_sends_the_same(self) -> None:
        script = Script([httpx.Response(503), ok(n=1)])
        with Http(URL, SECRET, transport=script, now=lambda: NOW, sleep=Sleeps()) as http:
            assert http.json("POST", "/a", {"k": "é"}) == {"ok": True, "n": 1}
            assert repr(http).startswith("Http('http://127.0.0.1:8787'")
        assert json.loads(script.seen[1].content) == {"k": "é"}
        http.close()
        with pytest.raises(RuntimeError, match="closed"):
            http.json("GET", "/a")

    async def test_it_works_where_a_loop_is_running(self) -> None:
        with Http(URL, SECRET, transport=Script([ok()])) as http:
            assert http.request("GET", "/a").status == 200

    def test_no_thread_is_left(self) -> None:
        before = threading.active_count()
        loop = LoopThread()
        assert threading.active_count() == before + 1
        loop.close()
        loop.close()
        assert threading.active_count() == before

    def test_an_interrupted_step_of_an_iterator_ends_before_it_is_closed(self) -> None:
        closed = []

        async def slow() -> Any:
            try:
                await asyncio.Event().wait()
                yield 1
            finally:
                await asyncio.sleep(0)
                await asyncio.sleep(0)
                closed.append(True)

        loop = LoopThread()
        real = loop.run
        try:

            def interrupted(work: Any) -> Any:
                loop.run = real  # type: ignore[method-assign]
                timer = threading.Timer(0.01, signal.pthread_kill, [threading.get_ident(), signal.SIGINT])
                timer.start()
                try:
                    return real(work)
                finally:
                    timer.join()

            loop.run = interrupted  # type: ignore[method-assign]
            with pytest.raises(KeyboardInterrupt):
                next(loop.iterate(slow()))
            assert closed == [True]
        finally:
            loop.close()

    def test_iterators_are_closed_when_they_are_dropped(self) -> None:
        closed = []

        async def numbers() -> Any:
            try:
                for number in range(10):
                    yield number
            finally:
                closed.append(True)

        loop = LoopThread()
        try:
            assert list(loop.iterate(numbers())) == list(range(10))
            dropped = loop.iterate(numbers())
            assert next(dropped) == 0
            dropped.close()  # type: ignore[attr-defined]
            assert closed == [True, True]
        finally:
            loop.close()

"""When the client tries again, how long it waits, and when an attempt is cut off."""

import asyncio
import time
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from moorage.clients.errors import (
    ConfigurationError,
    Conflict,
    InvalidAnswer,
    NotFound,
    RemoteError,
    TransportError,
    Unauthorized,
    Unavailable,
)
from moorage.clients.http import Policy
from moorage.clients.retries import parse_retry_after
from tests.support.http import Script

from .http_client import Sleeps, client, ok


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

    async def test_a_redirect_says_where_to(self) -> None:
        moved = httpx.Response(301, headers={"location": "https://state.example.test/a"}, content=b"<html>")
        async with client(Script([moved])) as http:
            with pytest.raises(RemoteError, match=r"\(301\): it redirects to https://state\.example\.test/a; give"):
                await http.json("GET", "/a")

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

    def test_dates_are_gmt_wherever_this_machine_is(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("TZ", "America/New_York")
        time.tzset()
        try:
            for text in (
                "Sun, 06 Nov 1994 08:49:37 GMT",
                "Sunday, 06-Nov-94 08:49:37 GMT",
                "Sun Nov  6 08:49:37 1994",
                "Sun, 06 Nov 1994 08:49:37 -0000",
            ):
                assert parse_retry_after(text, 784111777 - 10) == 10.0
        finally:
            monkeypatch.undo()
            time.tzset()

    @pytest.mark.parametrize("text", ["121", "99999999999999999999", "Fri, 31 Dec 9999 23:59:59 GMT"])
    async def test_absurd_ones_end_the_attempts(self, text: str) -> None:
        sleeps = Sleeps()
        script = Script([httpx.Response(503, headers={"retry-after": text})])
        async with client(script, sleep=sleeps) as http:
            with pytest.raises(Unavailable) as caught:
                await http.json("GET", "/a")
        assert (sleeps, len(script.seen), caught.value.attempts) == ([], 1, 1)
        assert (caught.value.retry_after or 0) > 120

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

    def test_many_attempts_wait_no_longer_than_the_bound(self) -> None:
        assert Policy(attempts=5000).wait(4999, 1.0) == 8.0

    @pytest.mark.parametrize(
        "options",
        [
            {"deadline": 0},
            {"deadline": float("inf")},
            {"attempts": 0},
            {"backoff": -1},
            {"max_backoff": float("nan")},
            {"max_retry_after": float("inf")},
        ],
    )
    def test_a_policy_must_end(self, options: dict[str, Any]) -> None:
        with pytest.raises(ConfigurationError):
            Policy(**options)

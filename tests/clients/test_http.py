"""Options of one call, and the synchronous face of the client."""

import asyncio
import json
import threading
from typing import Any

import httpx
import pytest

from moorage.clients.errors import ConfigurationError, Unavailable
from moorage.clients.http import AsyncHttp, Http, Policy
from tests.support.http import Script

from .http_client import NOW, SECRET, URL, Sleeps, client, ok


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

    @pytest.mark.parametrize("value", [{"a": "\ud800"}, {"a": object()}])
    async def test_what_json_does_not_hold_is_said_before_anything_is_sent(self, value: Any) -> None:
        script = Script([])
        async with client(script) as http:
            with pytest.raises(ConfigurationError, match="POST /a: what was given cannot be sent as JSON"):
                await http.json("POST", "/a", value)
        assert not script.seen


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

    def test_closing_ends_what_other_threads_wait_for(self) -> None:
        asked = threading.Event()
        told: list[BaseException] = []

        async def hang(request: httpx.Request) -> httpx.Response:
            asked.set()
            await asyncio.Event().wait()
            raise AssertionError

        http = Http(URL, SECRET, transport=httpx.MockTransport(hang), now=lambda: NOW)

        def wait() -> None:
            try:
                http.json("GET", "/a")
            except RuntimeError as error:
                told.append(error)

        thread = threading.Thread(target=wait, daemon=True)
        thread.start()
        asked.wait(10)
        http.close()
        thread.join(10)
        assert not thread.is_alive()
        assert [str(error) for error in told] == ["this client was closed meanwhile"]

    async def test_it_works_where_a_loop_is_running(self) -> None:
        with Http(URL, SECRET, transport=Script([ok()])) as http:
            assert http.request("GET", "/a").status == 200

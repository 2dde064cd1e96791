"""`fetch` to a server on loopback."""

import asyncio
import gc
import gzip
import json
from collections.abc import AsyncIterator
from http import HTTPMethod
from typing import Any

import pytest
import pytest_asyncio
import uvicorn

from moorage.durable_objects.runtime.web import Request
from moorage.wrangler_compat.workers import fetch, js, outgoing
from moorage.wrangler_compat.workers.current import WorkerContext, running
from moorage.wrangler_compat.workers.pyodide.ffi import JsException, to_js
from moorage.wrangler_compat.workers.pyodide.http import pyfetch

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def origin(scope: Any, receive: Any, send: Any) -> None:
    async def answer(status: int, data: bytes, *headers: tuple[bytes, bytes]) -> None:
        await send({"type": "http.response.start", "status": status, "headers": list(headers)})
        await send({"type": "http.response.body", "body": data})

    path = scope["path"]
    if path == "/echo":
        data, more = b"", True
        while more:
            message = await receive()
            data, more = data + message.get("body", b""), message.get("more_body", False)
        headers = [[name.decode(), value.decode()] for name, value in scope["headers"]]
        text = json.dumps({"method": scope["method"], "headers": headers, "body": data.decode("latin-1")})
        await answer(200, text.encode(), (b"x-one", b"1"), (b"set-cookie", b"a=1"), (b"set-cookie", b"b=2"))
    elif path == "/redirect":
        await answer(302, b"", (b"location", b"/echo"))
    elif path == "/seen":
        while (await receive()).get("more_body"):
            pass
        await answer(303, b"", (b"location", b"/echo"))
    elif path == "/loop":
        await answer(302, b"", (b"location", b"/loop"))
    elif path == "/zip":
        await answer(
            200, gzip.compress(b"unzipped"), (b"content-encoding", b"gzip"), (b"content-type", b"text/plain")
        )
    elif path == "/hangs":
        while (await receive())["type"] != "http.disconnect":
            pass
    elif path == "/stalls":
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"half", "more_body": True})
        while (await receive())["type"] != "http.disconnect":
            pass
    elif path == "/breaks":
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"10")]})
        await send({"type": "http.response.body", "body": b"half", "more_body": True})
        raise ConnectionError
    else:
        await answer(404, b"missing")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def base() -> AsyncIterator[str]:
    server = uvicorn.Server(uvicorn.Config(origin, port=0, lifespan="off", log_level="critical", ws="none"))
    task = asyncio.create_task(server.serve())
    while not server.started:
        await asyncio.sleep(0.001)
    port = server.servers[0].sockets[0].getsockname()[1]
    yield f"http://127.0.0.1:{port}"
    await outgoing.close()
    server.should_exit = True
    await task


async def test_a_request_and_its_answer(base: str) -> None:
    response = await fetch(f"{base}/echo", method=HTTPMethod.POST, headers={"X-Number": 123}, body="hällo")
    assert (response.status, response.ok, response.url, response.redirected) == (200, True, f"{base}/echo", False)
    assert response.headers["x-one"] == "1"
    assert response.headers.get_all("set-cookie") == ["a=1", "b=2"]
    seen = await response.json()
    assert (seen["method"], seen["body"].encode("latin-1").decode()) == ("POST", "hällo")
    assert ["x-number", "123"] in seen["headers"]
    assert ["content-type", "text/plain;charset=UTF-8"] in seen["headers"]
    assert not [value for name, value in seen["headers"] if name == "cookie"]
    again = await (await fetch(f"{base}/echo")).json()
    assert not [value for name, value in again["headers"] if name == "cookie"]


async def test_a_request_object_and_a_stream(base: str) -> None:
    async def chunks() -> AsyncIterator[bytes]:
        yield b"a"
        yield b"b"

    request = Request(f"{base}/echo", method="PUT", body=chunks())
    assert (await (await fetch(request)).json())["body"] == "ab"
    assert request.body_used
    with pytest.raises(OSError, match="Body already used"):
        await fetch(request)


async def test_a_second_positional_argument_is_refused(base: str) -> None:
    with pytest.raises(TypeError) as caught:
        await fetch(f"{base}/echo", {"headers": {}})  # type: ignore[call-arg]
    assert str(caught.value) == "fetch() takes 1 positional argument but 2 were given"


async def test_redirects(base: str) -> None:
    followed = await fetch(f"{base}/redirect")
    assert (followed.status, followed.url, followed.redirected) == (200, f"{base}/echo", True)
    kept = await fetch(f"{base}/redirect", redirect="manual", cf={"cacheTtl": 5})
    assert (kept.status, kept.headers["location"]) == (302, "/echo")
    with pytest.raises(OSError, match="redirected"):
        await fetch(f"{base}/redirect", redirect="error")
    with pytest.raises(OSError, match="redirects"):
        await fetch(f"{base}/loop")


async def test_redirects_of_a_streamed_body(base: str) -> None:
    async def chunks() -> AsyncIterator[bytes]:
        yield b"a"
        yield b"b"

    seen = await fetch(f"{base}/seen", method="POST", body=chunks(), headers={"x-a": "1"})
    assert (seen.status, seen.url, seen.redirected) == (200, f"{base}/echo", True)
    data = await seen.json()
    assert (data.method, data.body, ["x-a", "1"] in data.headers) == ("GET", "", True)
    assert (await fetch(f"{base}/seen", method="POST", body=chunks(), redirect="manual")).status == 303
    with pytest.raises(OSError, match="cannot follow"):
        await fetch(f"{base}/redirect", method="POST", body=chunks())


async def test_a_packed_body_is_unpacked_and_can_be_passed_on(base: str) -> None:
    response = await fetch(f"{base}/zip")
    assert response.headers.get("content-encoding") is None
    assert await response.text() == "unzipped"


async def test_failures(base: str) -> None:
    with pytest.raises(OSError, match="failed"):
        await fetch("http://127.0.0.1:1/")
    for url in ("ftp://127.0.0.1/", "data:text/plain,x"):
        with pytest.raises(TypeError, match="Fetch API cannot load"):
            await fetch(url)
    with pytest.raises(TypeError, match="Invalid URL"):
        await fetch("/relative")
    response = await fetch(f"{base}/breaks")
    with pytest.raises(OSError, match="broke off"):
        await response.text()


async def test_the_gate_is_waited_for_and_the_work_runs_outside(base: str) -> None:
    events: list[str] = []

    async def gate() -> None:
        events.append("gate")

    async def outside(work: Any) -> Any:
        events.append("outside")
        return await work

    with running(WorkerContext(before_outgoing=gate, outside=outside)):
        assert (await fetch(f"{base}/nothing")).status == 404
    assert events == ["gate", "outside"]


async def test_signals(base: str) -> None:
    controller = js.AbortController.new()
    task = asyncio.create_task(fetch(f"{base}/hangs", signal=controller.signal))
    await asyncio.sleep(0)
    controller.abort()
    with pytest.raises(JsException, match=r"^AbortError"):
        await task
    with pytest.raises(JsException, match=r"^AbortError"):
        await fetch(f"{base}/echo", signal=controller.signal)
    response = await fetch(f"{base}/echo", signal=js.AbortController.new().signal)
    assert (await response.json())["method"] == "GET"


async def test_a_signal_ends_a_body_that_is_read(base: str) -> None:
    controller = js.AbortController.new()
    response = await fetch(f"{base}/stalls", signal=controller.signal)
    assert response.body is not None
    reader = response.body.getReader()
    assert (await reader.read()).value == b"half"
    task = asyncio.create_task(reader.read())
    await asyncio.sleep(0)
    controller.abort()
    with pytest.raises(JsException, match=r"^AbortError"):
        await task


async def test_a_body_that_nobody_reads_gives_its_connection_back(base: str) -> None:
    pool = outgoing.client()._transport._pool  # type: ignore[attr-defined]
    for _ in range(3):
        response = await fetch(f"{base}/echo")
        assert response.status == 200
        assert not all(connection.is_idle() for connection in pool.connections)
        del response
        gc.collect()
        for _ in range(100):
            await asyncio.sleep(0)
        assert all(connection.is_idle() or connection.is_closed() for connection in pool.connections)


async def test_the_platform_s_spelling(base: str) -> None:
    options = to_js({"method": "POST", "headers": {"a": "1"}, "body": "x"}, dict_converter=js.Object.fromEntries)
    response = await js.fetch(f"{base}/echo", options)
    assert isinstance(response, js.Response)
    data = (await response.json()).to_py()
    assert (data["method"], data["body"]) == ("POST", "x")
    assert response.headers.get("x-one") == "1"
    assert (await pyfetch(f"{base}/echo", method="DELETE")).status == 200


async def test_a_form_goes_out(base: str) -> None:
    form = js.FormData.new()
    form.append("a", 5)
    response = await js.fetch(f"{base}/echo", method="POST", body=form)
    seen = await response.json()
    assert 'name="a"\r\n\r\n5\r\n' in seen.body

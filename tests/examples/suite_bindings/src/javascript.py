"""`js` and `pyodide`: the names that public programs import."""

import asyncio

import js
from js import JSON, URL, Date, Headers, Object, URLSearchParams, WebSocketPair, console
from pyodide.ffi import JsException, JsProxy, create_proxy, jsnull, run_sync, to_js
from refused import refused


async def check_to_js(env):
    made = to_js({"a": [1, {"b": 2}]}, dict_converter=Object.fromEntries)
    assert made.a[1].b == 2
    assert made.to_py() == {"a": [1, {"b": 2}]}
    data = to_js(b"\x01\x02\x03")
    assert (data.byteLength, data.to_py()) == (3, memoryview(b"\x01\x02\x03"))
    assert bytes(data.slice(1).to_py()) == b"\x02\x03"
    assert data.buffer.byteLength == 3


async def check_object(env):
    made = Object.fromEntries([["a", 1], ["b", 2]])
    assert list(Object.keys(made)) == ["a", "b"]
    assert [list(pair) for pair in Object.entries(made)] == [["a", 1], ["b", 2]]
    empty = Object.new()
    empty.name = "x"
    assert empty.name == "x"
    assert list(made.object_values()) == [1, 2]
    assert list(made.object_keys()) == ["a", "b"]


async def check_response_and_headers(env):
    headers = Headers.new({"a": "1"})
    headers.append("a", "2")
    headers.set("b", "3")
    assert (headers.get("a"), headers.has("b"), headers.get("c")) == ("1, 2", True, None)
    assert [list(pair) for pair in headers] == [["a", "1, 2"], ["b", "3"]]
    answer = js.Response.new("text", status=201, headers=headers)
    assert (answer.status, await answer.text(), answer.headers.get("b")) == (201, "text", "3")
    answer = js.Response.new("text", to_js({"status": 404}, dict_converter=Object.fromEntries))
    assert answer.status == 404
    assert (await js.Response.json(to_js({"a": 1}, dict_converter=Object.fromEntries)).json()).a == 1


async def check_url(env):
    url = URL.new("https://user@o.example:8080/a/b?x=1&x=2#f")
    assert (url.hostname, url.port, url.pathname, url.search, url.hash) == (
        "o.example",
        "8080",
        "/a/b",
        "?x=1&x=2",
        "#f",
    )
    assert list(url.searchParams.getAll("x")) == ["1", "2"]
    assert URL.new("../c", "https://o/a/b").href == "https://o/c"
    params = URLSearchParams.new({"q": "a b"})
    params.append("r", "ü")
    assert params.toString() == "q=a+b&r=%C3%BC"
    refused(Exception, lambda: URL.new("no url"), "Invalid URL")


async def check_json(env):
    assert JSON.stringify(to_js({"a": [1, None]}, dict_converter=Object.fromEntries)) == '{"a":[1,null]}'
    assert JSON.parse('{"a": {"b": 2}}').a.b == 2
    refused(Exception, lambda: JSON.parse("{"))


async def check_date(env):
    assert abs(Date.now() - Date.new().getTime()) < 10_000
    assert Date.new(0).toISOString() == "1970-01-01T00:00:00.000Z"


async def check_console(env):
    for name in ("log", "info", "warn", "error", "debug"):
        getattr(console, name)("said", {"by": name})


async def check_socket_pair(env):
    client, server = WebSocketPair.new()
    other_client, _other = WebSocketPair.new().object_values()
    assert other_client is not client
    heard = []
    client.addEventListener("message", create_proxy(lambda event: heard.append(event.data)))
    client.accept()
    server.accept()
    server.send("hello")
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert heard == ["hello"]
    server.serializeAttachment({"n": 1})
    assert server.deserializeAttachment() == {"n": 1}
    server.close(1000, "done")


async def check_binary(env):
    array = js.Uint8Array.new([1, 2, 255])
    assert (array.length, array[2], bytes(array.to_py())) == (3, 255, b"\x01\x02\xff")
    assert js.ArrayBuffer.new(4).byteLength == 4
    assert js.TextDecoder.new().decode(js.TextEncoder.new().encode("ü")) == "ü"
    assert js.atob(js.btoa("text")) == "text"


async def check_map_and_set(env):
    made = js.Map.new([["a", 1]])
    made.set("b", 2)
    assert (made.size, made.get("b"), made.has("c")) == (2, 2, False)
    assert js.Set.new([1, 1, 2]).size == 2


async def check_errors(env):
    error = js.Error.new("on purpose")
    assert error.message == "on purpose"
    try:
        raise JsException("RangeError", "too much")
    except JsException as caught:
        assert "too much" in str(caught)


async def check_timers_and_globals(env):
    done = asyncio.Event()
    js.setTimeout(create_proxy(done.set), 1)
    await asyncio.wait_for(done.wait(), 5)
    assert js.undefined is None or not js.undefined
    assert not jsnull
    assert js.globalThis.JSON is JSON
    assert isinstance(Headers.new(), JsProxy)


async def check_crypto(env):
    assert len(js.crypto.randomUUID()) == 36
    digest = await js.crypto.subtle.digest("SHA-256", to_js(b"abc"))
    assert bytes(digest.to_py()).hex().startswith("ba7816bf")


async def check_run_sync(env):
    def synchronous():
        return run_sync(env.PROBES.getByName("sync").echo("waited for"))

    assert synchronous() == "waited for"


async def check_modules_of_pyodide(env):
    import pyodide
    from pyodide.code import eval_code
    from pyodide.http import pyfetch
    from pyodide.webloop import WebLoop

    assert pyodide.__version__
    assert eval_code("1 + 1") == 2
    assert callable(pyfetch)
    assert WebLoop


async def check_what_is_not_offered(env):
    refused(NotImplementedError, lambda: js.WebAssembly.compile(b""), "WebAssembly")
    refused(NotImplementedError, lambda: js.eval("1"))


async def check_html_rewriter(env):
    class Links:
        def element(self, element):
            element.setAttribute("href", "/new")

    rewriter = js.HTMLRewriter.new()
    rewriter.on("p > a[href]", create_proxy(Links()))
    answer = rewriter.transform(js.Response.new("<p><a href=/old>x</a></p>", headers={"content-type": "text/html"}))
    assert await answer.text() == '<p><a href="/new">x</a></p>'


async def check_error_as_a_class(env):
    limit = getattr(js.Error, "stackTraceLimit", 10)
    js.Error.stackTraceLimit = 1e10
    try:
        raise js.Error(js.Error.new("deep").stack)
    except Exception as error:
        assert "deep" in str(error)
    finally:
        js.Error.stackTraceLimit = limit


async def check_bodies_as_bytes(env):
    from workers import Request

    request = Request("https://o/", method="POST", body=b"\x00\xff")
    assert (await request._js_request.arrayBuffer()).to_bytes() == b"\x00\xff"
    assert (await js.Response.new("ab").arrayBuffer()).to_bytes() == b"ab"
    assert to_js(b"ab").to_bytes() == b"ab"
    assert to_js(b"ab").to_memoryview().tobytes() == b"ab"
    assert to_js(b"ab").to_string() == "ab"


async def check_response_of_a_framework(env):
    url = URL.new("https://o:8080/a?b=1")
    assert url.protocol[-1] == ":"
    assert url.host.split(":")[0] == "o"
    answer = js.Response.new("text", headers=Object.fromEntries({"a": "b"}.items()), status=201)
    answer.headers.set("Set-Cookie", "c=d")
    assert (answer.headers.get("a"), answer.headers.get("set-cookie"), answer.status) == ("b", "c=d", 201)
    pair = Object.values(WebSocketPair.new())
    assert len(pair) == 2
    assert pair[0] is not pair[1]


async def check_a_bridge_of_a_programs_own(env):
    """What older programs do to hand requests and answers to a framework."""
    request = js.Request.new("https://o/p?q=1", method="POST", body="some bytes", headers={"X-A": "b"})
    assert ("x-a", "b") in [(name.lower(), value) for name, value in request.headers]
    received = b""
    async for data in request.body:
        received += data.to_bytes()
    assert received == b"some bytes"
    proxy = create_proxy(b"answer")
    buffer = proxy.getBuffer()
    proxy.destroy()
    answer = js.Response.new(buffer.data, headers=Object.fromEntries([("a", "b")]), status=202)
    buffer.release()
    assert (answer.status, answer.headers.get("a"), await answer.text()) == (202, "b", "answer")
    stream = js.TransformStream.new()
    writer = stream.writable.getWriter()
    answer = js.Response.new(stream.readable, headers=Object.fromEntries([("a", "b")]))

    async def write():
        await writer.write(to_js(b"one "))
        await writer.write(to_js(b"two"))
        await writer.close()

    task = asyncio.ensure_future(write())
    assert await answer.text() == "one two"
    await task
    reader = js.Response.new("\u00fc").body.getReader()
    decoder = js.TextDecoder.new()
    text = ""
    while not (chunk := await reader.read()).done:
        text += decoder.decode(chunk.value, {"stream": True})
    assert text + decoder.decode() == "\u00fc"

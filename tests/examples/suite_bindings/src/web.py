"""`workers`: requests, responses, headers, forms, blobs, conversions, as the API's table of features lists them."""

import asyncio
from http import HTTPMethod, HTTPStatus
from pathlib import Path

import workers
from refused import refused, refused_later
from workers import Blob, File, FormData, Request, Response, patch_env, python_from_rpc, python_to_rpc, wait_until


async def check_request(env):
    request = Request("https://o/p?q=1", method="POST", headers={"X-Test": "a"}, body="text")
    assert request.method is HTTPMethod.POST
    assert (request.url, request.headers["x-test"], request.body_used) == ("https://o/p?q=1", "a", False)
    assert repr(request) == "Request(method='POST', url='https://o/p?q=1')"
    assert Request("https://o/", method=HTTPMethod.PUT).method == "PUT"
    assert Request(request, method="PUT").method == "PUT"
    for name in ("cache", "cf", "credentials", "destination", "integrity", "is_history_navigation", "keepalive",
                 "mode", "redirect", "referrer", "referrer_policy", "js_object"):  # fmt: skip
        getattr(request, name)


async def check_request_bodies(env):
    def made(body=b'{"a": 1}'):
        return Request("https://o/", method="POST", body=body)

    assert await made().text() == '{"a": 1}'
    assert await made().json() == {"a": 1}
    assert bytes(await made().bytes()) == b'{"a": 1}'
    assert bytes((await made().buffer()).to_py()) == b'{"a": 1}'
    assert await (await made().blob()).text() == '{"a": 1}'
    form = FormData({"field": "value"})
    assert (await made(form).form_data())["field"] == "value"
    assert isinstance(await made("1.5").json(parse_float=str), str)


async def check_a_body_is_read_once(env):
    request = Request("https://o/", method="POST", body="x")
    copy = request.clone()
    assert await request.text() == "x"
    assert request.body_used
    await refused_later(OSError, request.text(), "Body already used")
    refused(OSError, request.clone, "Body already used")
    assert await copy.text() == "x"
    response = Response("y")
    await response.text()
    await refused_later(OSError, response.json(), "Body already used")


async def check_headers(env):
    request = Request("https://o/", headers=[("a", "1"), ("a", "2"), ("b", "3")])
    assert request.headers["A"] == "1, 2"
    assert request.headers.get("none") is None
    assert dict(request.headers.items()) == {"a": "1, 2", "b": "3"}
    response = Response("x", headers=[("set-cookie", "a=1"), ("set-cookie", "b=2")])
    assert response.headers.get_all("Set-Cookie") == ["a=1", "b=2"]
    refused(TypeError, lambda: Response("x", headers=5))


async def check_response(env):
    response = Response("text", status=201, status_text="Made", headers={"x-a": "b"})
    assert (response.status, response.status_text, response.ok) == (201, "Made", True)
    assert (response.headers["x-a"], response.body_used, response.redirected) == ("b", False, False)
    assert not Response("x", status=HTTPStatus.NOT_FOUND).ok
    assert Response(None).body is None
    assert await response.text() == "text"
    assert repr(Response.json({})) == "Response(status=200, status_text='OK', content_type='application/json')"
    for name in ("type", "url", "js_object", "js_response"):
        getattr(response, name)


async def check_response_bodies(env):
    from js import ReadableStream, URLSearchParams
    from js import Response as JsResponse

    assert bytes(await Response(b"\x00\xff").bytes()) == b"\x00\xff"
    assert bytes(await Response(bytearray(b"a")).bytes()) == b"a"
    assert await Response(Blob("of a blob")).text() == "of a blob"
    assert await Response(URLSearchParams.new("a=1&b=2")).text() == "a=1&b=2"
    assert await Response(JsResponse.new("of JavaScript")).text() == "of JavaScript"
    assert await Response(FormData({"a": "1"})).form_data() == FormData({"a": "1"})
    stream = ReadableStream.new({"start": lambda controller: (controller.enqueue(b"ab"), controller.close())})
    assert await Response(stream).text() == "ab"
    assert await Response("x").string() == "x"
    assert await Response("old").replace_body("new").text() == "new"
    assert await Response("x").clone().text() == "x"


async def check_other_bodies_are_refused(env):
    for value in (5, {"a": 1}, object()):
        refused(TypeError, lambda given=value: Response(given), "Unsupported type in Response")


async def check_json_response(env):
    response = Response.json({"a": 1, "b": [None, True]}, status=202, headers={"x": "y"})
    assert await response.text() == '{"a": 1, "b": [null, true]}'
    assert (response.status, response.headers["content-type"], response.headers["x"]) == (
        202,
        "application/json",
        "y",
    )
    assert Response.json({}, headers={"content-type": "a/b"}).headers["content-type"] == "a/b"
    assert await Response.from_json([1]).json() == [1]


async def check_redirect(env):
    response = Response.redirect("https://o/new", 301)
    assert (response.status, response.headers["location"]) == (301, "https://o/new")
    assert Response.redirect("https://o/").status == 302
    refused(ValueError, lambda: Response.redirect("https://o/", 200))


async def check_blobs_and_files(env):
    blob = Blob(["ab", b"cd"], content_type="text/plain")
    assert (blob.size, blob.content_type, await blob.text()) == (4, "text/plain", "abcd")
    assert await blob.slice(1, 3).text() == "bc"
    assert bytes(await blob.bytes()) == b"abcd"
    assert Blob(blob).content_type == "text/plain"
    assert Blob([blob]).content_type == ""
    file = File("content", "name.txt", content_type="text/plain", last_modified=5)
    assert (file.name, file.size, file.last_modified) == ("name.txt", 7, 5)


async def check_form_data(env):
    form = FormData({"a": "1"})
    form.append("a", "2")
    form["b"] = "3"
    form.append("f", Blob("x"), filename="x.txt")
    assert form["a"] == "1"
    assert form.get_all("a") == ["1", "2"]
    assert "b" in form
    assert [key for key, _ in form.items()] == ["a", "a", "b", "f"]
    assert isinstance(form["f"], File)
    form.delete("a")
    assert "a" not in form
    assert len(list(form)) == 2


async def check_env_of_the_module(env):
    assert workers.env.TEXT == env.TEXT == "plain text"
    with patch_env({"TEXT": "patched"}):
        assert workers.env.TEXT == "patched"
    with patch_env(TEXT="by keyword", MORE=1):
        assert (workers.env.TEXT, workers.env.MORE) == ("by keyword", 1)
    assert workers.env.TEXT == "plain text"


async def check_wait_until(env):
    done = asyncio.Event()

    async def work():
        await asyncio.sleep(0)
        done.set()

    wait_until(work())
    workers.waitUntil(work())
    await asyncio.wait_for(done.wait(), 5)


async def check_conversions(env):
    assert python_from_rpc(python_to_rpc({"a": [1, "b", None, {"c": 2.5}]})) == {"a": [1, "b", None, {"c": 2.5}]}
    assert isinstance(python_from_rpc(python_to_rpc(b"ab")), memoryview)
    for value in ((1,), bytearray(b"a")):
        refused(TypeError, lambda given=value: python_to_rpc(given))
    refused(Exception, lambda: python_to_rpc(complex(1, 2)), "DataCloneError")


async def check_types_of_wrappers(env):
    from workers.rpc import _EnvWrapper, _RpcStubWrapper

    assert isinstance(workers.env, _EnvWrapper)
    assert isinstance(env, _EnvWrapper)

    async def function():
        return 1

    stub = await env.PROBES.getByName("calls").echo(function)
    assert isinstance(stub, _RpcStubWrapper)
    assert callable(stub)
    refused(TypeError, lambda: len(stub))
    refused(TypeError, lambda: list(stub))


async def check_import_from_javascript(env):
    from workers import import_from_javascript

    assert import_from_javascript("cloudflare:workers") is not None
    refused(ImportError, lambda: import_from_javascript("node:fs"))


async def check_types(env):
    for name in ("Context", "Headers", "Body", "JSBody", "FetchKwargs", "RequestInitCfProperties", "BlobEnding",
                 "BlobValue", "FormDataValue", "FetchResponse"):  # fmt: skip
        assert hasattr(workers, name) or hasattr(workers.types, name), name
    from workers.workflows import NonRetryableError

    assert issubclass(NonRetryableError, Exception)


async def check_files_of_the_bundle(env):
    assert "class Default" in (Path(__file__).parent / "entry.py").read_text()


async def check_fetch_takes_keywords_alone(env):
    await refused_later(TypeError, call_fetch("https://o/", {"method": "POST"}))
    await refused_later(OSError, call_fetch("http://127.0.0.1:9/"))


async def call_fetch(*args):
    return await workers.fetch(*args)

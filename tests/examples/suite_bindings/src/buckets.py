"""R2: objects, conditions, ranges, listings, uploads in parts."""

import datetime
import hashlib

from pyodide.ffi import to_js
from refused import refused_later


async def check_put_and_get(env):
    stored = await env.BUCKET.put("put/text", "hällo")
    assert (stored.key, stored.size) == ("put/text", 6)
    got = await env.BUCKET.get("put/text")
    assert got.key == got["key"] == "put/text"
    assert got.size == 6
    assert await got.text() == "hällo"


async def check_bodies(env):
    await env.BUCKET.put("body", '{"a": [1]}')
    assert (await (await env.BUCKET.get("body")).json())["a"] == [1]
    assert bytes(await (await env.BUCKET.get("body")).arrayBuffer()) == b'{"a": [1]}'
    assert await (await (await env.BUCKET.get("body")).blob()).text() == '{"a": [1]}'
    body = await env.BUCKET.get("body")
    assert body.bodyUsed is False
    await body.text()
    assert body.bodyUsed is True
    await refused_later(Exception, body.text())


async def check_values(env):
    for value, expected in ((b"\x00\xff", b"\x00\xff"), (bytearray(b"ab"), b"ab"), (memoryview(b"cd"), b"cd"),
                            (to_js(b"ef"), b"ef"), (None, b""), ("", b"")):  # fmt: skip
        await env.BUCKET.put("value", value)
        assert bytes(await (await env.BUCKET.get("value")).arrayBuffer()) == expected


async def check_stream(env):
    await env.BUCKET.put("stream", b"x" * 300_000)
    reader = (await env.BUCKET.get("stream")).body.getReader()
    size = 0
    while True:
        chunk = await reader.read()
        if chunk.done:
            break
        size += len(chunk.value)
    assert size == 300_000


async def check_a_stream_is_stored(env):
    await env.BUCKET.put("from", b"y" * 70_000)
    await env.BUCKET.put("to", (await env.BUCKET.get("from")).body)
    assert (await env.BUCKET.head("to")).size == 70_000


async def check_missing(env):
    assert await env.BUCKET.get("missing") is None
    assert await env.BUCKET.head("missing") is None
    assert await env.BUCKET.delete("missing") is None


async def check_members(env):
    data = b"some bytes"
    stored = await env.BUCKET.put("members", data)
    assert stored.etag == hashlib.md5(data).hexdigest()
    assert stored.httpEtag == f'"{stored.etag}"'
    assert isinstance(stored.version, str)
    assert stored.version
    assert isinstance(stored.uploaded, datetime.datetime)
    assert bytes(stored.checksums.md5) == hashlib.md5(data).digest()
    head = await env.BUCKET.head("members")
    assert (head.etag, head.version, head.size) == (stored.etag, stored.version, len(data))


async def check_metadata(env):
    await env.BUCKET.put(
        "meta", "x", {"httpMetadata": {"contentType": "text/plain"}, "customMetadata": {"owner": "me"}}
    )
    head = await env.BUCKET.head("meta")
    assert head.httpMetadata.contentType == head.httpMetadata["contentType"] == "text/plain"
    assert head.customMetadata["owner"] == head.customMetadata.owner == "me"
    await env.BUCKET.put("meta", "x", httpMetadata={"cacheControl": "no-store"}, customMetadata={"a": "b"})
    assert (await env.BUCKET.head("meta")).customMetadata == {"a": "b"}


async def check_write_http_metadata(env):
    from js import Headers

    await env.BUCKET.put("written", "x", httpMetadata={"contentType": "image/png", "contentLanguage": "en"})
    headers = Headers.new()
    (await env.BUCKET.head("written")).writeHttpMetadata(headers)
    assert headers.get("content-type") == "image/png"
    assert headers.get("content-language") == "en"


async def check_options_of_both_generations(env):
    from js import Object

    options = to_js({"customMetadata": {"k": "v"}}, dict_converter=Object.fromEntries)
    await env.BUCKET.put("options", "x", options)
    assert (await env.BUCKET.head("options")).customMetadata == {"k": "v"}
    await env.BUCKET.put("options", "y", None)
    assert await (await env.BUCKET.get("options", None)).text() == "y"


async def check_ranges(env):
    await env.BUCKET.put("range", "0123456789")
    assert await (await env.BUCKET.get("range", range={"offset": 2, "length": 3})).text() == "234"
    assert await (await env.BUCKET.get("range", {"range": {"offset": 7}})).text() == "789"
    got = await env.BUCKET.get("range", range={"suffix": 4})
    assert await got.text() == "6789"
    assert got.size == 10
    assert (got.range["offset"], got.range["length"]) == (6, 4)


async def check_conditions(env):
    first = await env.BUCKET.put("only", "1")
    assert await env.BUCKET.put("only", "2", onlyIf={"etagMatches": "0" * 32}) is None
    assert await (await env.BUCKET.get("only")).text() == "1"
    assert await env.BUCKET.put("only", "2", {"onlyIf": {"etagMatches": first.etag}}) is not None
    got = await env.BUCKET.get("only", onlyIf={"etagDoesNotMatch": (await env.BUCKET.head("only")).etag})
    assert got is not None
    assert getattr(got, "body", None) is None
    created = {"onlyIf": {"etagDoesNotMatch": "*"}}
    assert await env.BUCKET.put("only", "3", created) is None
    assert await env.BUCKET.put("new", "3", created) is not None


async def check_checksums(env):
    data = b"to be checked"
    stored = await env.BUCKET.put("sum", data, sha256=hashlib.sha256(data).hexdigest())
    assert bytes(stored.checksums.sha256) == hashlib.sha256(data).digest()
    await refused_later(Exception, env.BUCKET.put("sum", data, md5="0" * 32), "10037")
    await env.BUCKET.put("sum", data, {"md5": hashlib.md5(data).digest()})


async def check_delete(env):
    for name in ("d/1", "d/2", "d/3"):
        await env.BUCKET.put(name, "x")
    await env.BUCKET.delete("d/1")
    await env.BUCKET.delete(["d/2", "d/3", "d/none"])
    assert len((await env.BUCKET.list(prefix="d/")).objects) == 0


async def check_list(env):
    for number in range(5):
        await env.BUCKET.put(f"list/{number}", str(number), customMetadata={"n": str(number)})
    await env.BUCKET.put("list/sub/a", "x")
    page = await env.BUCKET.list({"prefix": "list/", "limit": 2})
    assert [found.key for found in page.objects] == ["list/0", "list/1"]
    assert page.truncated is True
    assert page.cursor
    rest = await env.BUCKET.list(prefix="list/", cursor=page.cursor)
    assert [found.key for found in rest.objects] == ["list/2", "list/3", "list/4", "list/sub/a"]
    assert rest.truncated is False
    folded = await env.BUCKET.list(prefix="list/", delimiter="/")
    assert list(folded.delimitedPrefixes) == ["list/sub/"]
    assert len(folded.objects) == 5
    told = await env.BUCKET.list(prefix="list/3", include=["customMetadata"])
    assert told.objects[0].customMetadata["n"] == "3"
    assert (
        next(found.key for found in (await env.BUCKET.list(prefix="list/", startAfter="list/3")).objects) == "list/4"
    )


async def check_upload_in_parts(env):
    upload = await env.BUCKET.createMultipartUpload("parts", httpMetadata={"contentType": "text/plain"})
    assert upload.key == "parts"
    assert upload.uploadId
    first = await upload.uploadPart(1, b"a" * (5 * 1024 * 1024))
    again = env.BUCKET.resumeMultipartUpload("parts", upload.uploadId)
    second = await again.uploadPart(2, "the end")
    assert (first.partNumber, second.partNumber) == (1, 2)
    assert first.etag
    stored = await again.complete([{"partNumber": 1, "etag": first.etag}, second])
    assert stored.size == 5 * 1024 * 1024 + 7
    got = await env.BUCKET.get("parts", range={"suffix": 7})
    assert await got.text() == "the end"
    assert got.httpMetadata.contentType == "text/plain"


async def check_abandoned_upload(env):
    upload = await env.BUCKET.createMultipartUpload("abandoned")
    await upload.uploadPart(1, "x")
    await upload.abort()
    await refused_later(Exception, upload.complete([]))
    assert await env.BUCKET.head("abandoned") is None


async def check_wrong_names(env):
    await refused_later(Exception, env.BUCKET.put("x" * 1025, "x"), "10020")
    await refused_later(TypeError, env.BUCKET.get())
    await refused_later(TypeError, env.BUCKET.put("number", 1))


async def check_binary_survives(env):
    data = bytes(range(256)) * 4096
    await env.BUCKET.put("binary", to_js(data).buffer)
    assert bytes(await (await env.BUCKET.get("binary")).bytes()) == data


async def check_results_are_read_like_dictionaries(env):
    await env.BUCKET.put("like/a", "x")
    await env.BUCKET.put("like/b/c", "x")
    page = await env.BUCKET.list({"prefix": "like/", "delimiter": "/"})
    assert page.get("delimitedPrefixes", []) == ["like/b/"]
    assert [found.get("key") for found in page.get("objects", [])] == ["like/a"]
    assert page.get("nothing", 5) == 5
    assert "truncated" in page
    head = await env.BUCKET.head("like/a")
    assert head.get("nothing") is None
    assert "key" in head
    assert dict(head.items())["size"] == 1
    assert isinstance(head.uploaded, datetime.datetime)


async def check_typed_arrays_are_stored(env):
    from js import Uint8Array

    await env.BUCKET.put("typed", Uint8Array.new(b"\x00\x01"), None)
    assert bytes(await (await env.BUCKET.get("typed")).arrayBuffer()) == b"\x00\x01"


async def check_bytes_of_the_older_generation(env):
    data = bytes(range(256)) * 512
    await env.BUCKET.put("older", to_js(data).slice())
    found = await env.BUCKET.get("older")
    assert bytes((await found.arrayBuffer()).to_py()) == data
    reader = (await env.BUCKET.get("older")).body.getReader()
    parts = []
    try:
        while True:
            result = await reader.read()
            if result.done:
                break
            parts.append(bytes(result.value.to_py()))
    finally:
        reader.releaseLock()
    assert b"".join(parts) == data
    assert (await env.BUCKET.head("older")).customMetadata.to_py() == {}


async def check_an_object_is_an_answer(env):
    from js import Headers, Object
    from js import Response as JsResponse

    await env.BUCKET.put("answer", "text", httpMetadata={"contentType": "text/plain"})
    found = await env.BUCKET.get("answer")
    headers = Headers.new()
    found.writeHttpMetadata(headers)
    headers.set("etag", found.httpEtag)
    options = to_js({"status": 206, "headers": headers}, dict_converter=Object.fromEntries)
    answer = JsResponse.new(found.body, options)
    assert (answer.status, answer.headers.get("content-type"), await answer.text()) == (206, "text/plain", "text")
    again = await env.BUCKET.get("answer")
    answer = JsResponse.new(again.body, headers=to_js({"content-type": "application/octet-stream"}))
    assert answer.headers.get("content-type") == "application/octet-stream"
    assert await answer.text() == "text"


async def check_conditions_are_headers(env):
    from js import Headers

    stored = await env.BUCKET.put("by-headers", "x")
    same = Headers.new({"if-none-match": stored.httpEtag})
    assert getattr(await env.BUCKET.get("by-headers", {"onlyIf": same}), "body", None) is None
    assert await (await env.BUCKET.get("by-headers", onlyIf=Headers.new({"if-match": stored.httpEtag}))).text() == "x"

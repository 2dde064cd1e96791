"""Blobs, files, forms and their bodies (spec python-workers-api 3)."""

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moorage.durable_objects.runtime.web import Blob, File, FormData, Request, Response
from moorage.durable_objects.runtime.web.multipart import decode_multipart, encode_multipart, parse_content_type

text = st.text(st.characters(blacklist_categories=["Cs"]), max_size=30)


async def test_blobs() -> None:
    blob = Blob(["some ", b"string", memoryview(b"!")], content_type="Application/JSON")
    assert blob.size == 12
    assert blob.content_type == blob.js_object.type == "application/json"
    assert await blob.text() == "some string!"
    assert await blob.bytes() == b"some string!"
    assert await blob.slice(1, 3).text() == "om"
    assert await blob.slice(-7, -1, "text/plain").text() == "string"
    assert blob.slice(0, 1, "text/plain").content_type == "text/plain"
    assert await Blob("alone").text() == "alone"


def test_one_blob_passes_its_type_on_and_a_list_does_not() -> None:
    typed = Blob("x", content_type="application/json")
    assert Blob(typed).content_type == "application/json"
    assert Blob(typed, content_type="other/type").content_type == "other/type"
    assert Blob([typed]).content_type == ""


async def test_endings() -> None:
    assert await Blob(["a\r\nb\rc\n"], endings="native").text() == "a\nb\nc\n"
    assert await Blob(["a\r\nb"], endings="transparent").text() == "a\r\nb"
    with pytest.raises(TypeError, match="endings"):
        Blob("a", endings="dos")


def test_files() -> None:
    file = File("my file", filename="test.txt", content_type="text/plain", last_modified=5)
    assert (file.name, file.content_type, file.last_modified) == ("test.txt", "text/plain", 5)
    assert isinstance(file, Blob)
    with pytest.raises(TypeError, match="filename"):
        File("x")


def test_form_data_is_a_mapping_that_shows_repeats() -> None:
    data = FormData({"key": "foobar"})
    data.append("key", "another")
    data.append("number", 123)
    assert data["key"] == "foobar"
    assert data.get_all("key") == ["foobar", "another"]
    assert data["number"] == "123"
    assert "unknown" not in data
    assert data.get("unknown") is None
    assert list(data.keys()) == ["key", "key", "number"]
    assert set(data.items()) == {("key", "foobar"), ("key", "another"), ("number", "123")}
    assert list(data.values()) == ["foobar", "another", "123"]
    data["key"] = "only"
    assert data.get_all("key") == ["only"]
    data.delete("key")
    data.delete("key")
    assert "key" not in data
    with pytest.raises(KeyError):
        data["key"]


def test_blobs_in_a_form_become_files() -> None:
    data = FormData()
    data["plain"] = Blob("x", content_type="a/b")
    data.append("named", Blob("{}"), filename="metadata.json")
    data.append("file", File("y", "f.txt"))
    assert [(value.name, value.content_type) for value in data.values()] == [
        ("blob", "a/b"), ("metadata.json", ""), ("f.txt", ""),
    ]  # fmt: skip
    with pytest.raises(TypeError, match="filename"):
        data.append("text", "x", filename="no.txt")


async def test_a_form_as_a_body_comes_back() -> None:
    form = FormData({"field": "value"})
    form["blob.py"] = Blob("print(42)", content_type="text/python")
    response = Response(form)
    assert re.fullmatch(r"multipart/form-data; boundary=\S+", response.headers["content-type"])
    data = await response.form_data()
    assert data["field"] == "value"
    assert data["blob.py"].content_type == "text/python"
    assert await data["blob.py"].text() == "print(42)"


async def test_an_urlencoded_body_is_a_form_too() -> None:
    headers = {"content-type": "application/x-www-form-urlencoded; charset=UTF-8"}
    request = Request("http://example.com", method="POST", body="a=1&b=x+y%21&a=2", headers=headers)
    form = await request.form_data()
    assert list(form.items()) == [("a", "1"), ("b", "x y!"), ("a", "2")]


@pytest.mark.parametrize(
    ("content_type", "body", "message"),
    [
        ("text/plain", b"x", "Unrecognized Content-Type"),
        ("", b"x", "Unrecognized Content-Type"),
        ("multipart/form-data", b"x", "No boundary"),
        ("multipart/form-data; boundary=b", b"", "ends before"),
        (
            "multipart/form-data; boundary=b",
            b'--b\r\nContent-Disposition: form-data; name="a"\r\n\r\nx',
            "ends before",
        ),
        ("multipart/form-data; boundary=b", b"--b\r\nX: y\r\n\r\nx\r\n--b--\r\n", "no Content-Disposition"),
        ("multipart/form-data; boundary=b", b"nonsense", "broken"),
        ("multipart/form-data; boundary=" + "b" * 400, b"x", "broken"),
    ],
)
async def test_broken_forms_are_type_errors(content_type: str, body: bytes, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        await Response(body, headers={"content-type": content_type}).form_data()


def _normal(value: str) -> str:
    return re.sub(r"\r\n|\r|\n", "\r\n", value)


@given(st.lists(st.tuples(text, st.one_of(text, st.binary(max_size=40)))), text.filter(bool))
def test_multipart_round_trip(fields: list[tuple[str, Any]], filename: str) -> None:
    form = FormData()
    for name, value in fields:
        form.append(name, value if isinstance(value, str) else File(value, filename, content_type="a/b"))
    boundary = "----formdata-0123456789abcdef0123456789abcdef"
    again = decode_multipart(encode_multipart(form, boundary), boundary).fields()
    assert [name for name, _ in again] == [_normal(name) for name, _ in fields]
    for (_, value), (_, read) in zip(fields, again, strict=True):
        if isinstance(value, str):
            assert read == _normal(value)
        else:
            assert isinstance(read, File)
            assert (read.data, read.name, read.content_type) == (value, filename, "a/b")


@given(st.binary(max_size=200))
def test_any_bytes_are_a_form_or_a_type_error(body: bytes) -> None:
    try:
        decode_multipart(body, "b")
    except TypeError:
        return


def test_content_types() -> None:
    assert parse_content_type('Multipart/Form-Data; charset=utf-8; BOUNDARY="a\\"b;c"') == (
        "multipart/form-data", {"charset": "utf-8", "boundary": 'a"b;c'},
    )  # fmt: skip

"""Buffers and their views, text as bytes, base64 (spec python-workers-api 1 and 6)."""

import pytest

from moorage.durable_objects.runtime.web import (
    JsBytes,
)
from moorage.wrangler_compat.workers import js
from moorage.wrangler_compat.workers.pyodide.ffi import (
    JsException,
)


def test_arrays_share_their_buffer() -> None:
    buffer = js.ArrayBuffer.new(8)
    words = js.Int16Array.new(buffer, 2, 2)
    words[0] = -2
    words[1] = 70_000
    assert list(words) == [-2, 70_000 - 65_536]
    assert len(words) == words.length == 2
    view = js.DataView.new(buffer)
    assert view.getInt16(2, True) == -2
    view.setUint32(4, 2**32 + 5)
    assert view.getUint32(4) == 5
    assert list(words.slice(1)) != [-2]
    assert js.ArrayBuffer.isView(words)
    assert not js.ArrayBuffer.isView(buffer)
    with pytest.raises(ValueError, match="does not fit"):
        js.Int16Array.new(buffer, 1)
    with pytest.raises(AttributeError):
        view.getWord(0)


def test_uint8_arrays() -> None:
    array = js.Uint8Array.new(4)
    array.set([1, 258], 1)
    assert list(array) == [0, 1, 2, 0]
    array.fill(9, 3)
    assert bytes(array) == b"\0\1\2\x09"
    assert js.Uint8Array.new(js.ArrayBuffer(b"abcd"), 1, 2) == b"bc"
    array.assign(b"wxyz")
    assert array.to_string() == "wxyz"
    with pytest.raises(ValueError, match="cannot assign 2 bytes"):
        array.assign(b"no")
    assert JsBytes(b"abc").subarray(1).to_bytes() == b"bc"


def test_text_and_base64() -> None:
    assert bytes(js.TextEncoder.new().encode("ä")) == "ä".encode()
    decoder = js.TextDecoder.new()
    halves = "ä".encode()
    assert decoder.decode(halves[:1], {"stream": True}) + decoder.decode(halves[1:]) == "ä"
    assert decoder.decode(b"\xef\xbb\xbfa\xff") == "a\ufffd"
    with pytest.raises(JsException, match="TypeError"):
        js.TextDecoder.new("utf-8", fatal=True).decode(b"\xff")
    with pytest.raises(JsException, match="RangeError"):
        js.TextDecoder.new("nonsense")
    assert js.atob(js.btoa("\xff\0a")) == "\xff\0a"
    assert js.atob(" YQ ") == "a"
    for wrong in ("a", "a=b", "ä"):
        with pytest.raises(JsException, match="InvalidCharacterError"):
            js.atob(wrong)
    with pytest.raises(JsException, match="Latin1"):
        js.btoa("€")
    assert js.encodeURIComponent("a b/ü") == "a%20b%2F%C3%BC"
    assert js.decodeURIComponent("%C3%BC%2F+") == "ü/+"
    assert js.decodeURI("%C3%BC%2f%3F%20%41") == "ü%2f%3F A"
    assert js.encodeURI("ü/?#[a b]") == "%C3%BC/?#%5Ba%20b%5D"
    for wrong in ("%", "%2", "%zz", "%ff", "%C3"):
        for decode in (js.decodeURI, js.decodeURIComponent):
            with pytest.raises(JsException, match="URIError"):
                decode(wrong)
    with pytest.raises(JsException, match="URIError"):
        js.encodeURIComponent("\ud800")

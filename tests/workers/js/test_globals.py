"""`js.console`, errors, forms, proxies, running text, and what is not offered (spec python-workers-api 1 and 6)."""

import pytest

from moorage.durable_objects.runtime.web import (
    Blob,
    File,
    FormData,
    JsList,
)
from moorage.wrangler_compat.workers import js
from moorage.wrangler_compat.workers.pyodide import code, ffi
from moorage.wrangler_compat.workers.pyodide.ffi import (
    JsException,
    JsProxy,
    create_once_callable,
    create_proxy,
    to_js,
)


def test_the_console(capsys: pytest.CaptureFixture[str]) -> None:
    js.console.log("a", 1, {"b": 1.0}, None, True)
    js.console.error(js.Error.new("bad"))
    assert capsys.readouterr() == ('a 1 {"b":1} undefined true\n', "Error: bad\n")


def test_errors() -> None:
    error = js.Error.new("message")
    assert (error.name, error.message, str(error)) == ("Error", "message", "Error: message")
    assert isinstance(js.TypeError.new("x"), JsException)
    assert js.RangeError.new("x").name == "RangeError"
    with pytest.raises(JsException):
        raise js.Error.new("raised")


async def test_forms_and_blobs() -> None:
    form = js.FormData.new()
    form.append("foobar", 123)
    form.append("blob", js.Blob.new(to_js(["another ", b"string"]), {"type": "a/b"}))
    data = FormData(form)
    assert data["foobar"] == "123"
    assert isinstance(data["blob"], Blob)
    assert await data["blob"].text() == "another string"
    file = js.File.new(["x"], "name.txt", type="a/b", lastModified=5)
    assert isinstance(file, File)
    assert (file.name, file.type, file.lastModified) == ("name.txt", "a/b", 5)


def test_proxies() -> None:
    def function(number: int) -> int:
        """Doubles."""
        return number * 2

    proxy = create_proxy(function)
    assert (proxy(2), proxy.__name__, proxy.to_py()) == (4, "function", function)
    proxy.destroy()
    once = create_once_callable(function)
    assert once(3) == 6
    with pytest.raises(RuntimeError, match="once"):
        once(3)
    assert not isinstance({}, JsProxy)
    assert not isinstance(JsList(), JsProxy)
    assert isinstance(js.Map.new(), JsProxy)
    assert ffi.jsnull is None
    assert js.undefined is None


def test_what_is_not_offered_says_so() -> None:
    for name in ("WebAssembly", "eval"):
        stand_in = getattr(js, name)
        with pytest.raises(NotImplementedError, match=f"js.{name}"):
            stand_in()
        with pytest.raises(NotImplementedError, match=f"js.{name}"):
            stand_in.new()
    with pytest.raises(AttributeError, match="no attribute 'Nonsense'"):
        js.Nonsense  # noqa: B018
    with pytest.raises(NotImplementedError, match="JavaScript"):
        code.run_js("1")
    assert js.globalThis is js


def test_running_python_text() -> None:
    assert code.eval_code("x = 2\nx * 3") == 6
    assert code.eval_code("x = 2") is None
    assert code.find_imports("import a.b, c\nfrom d.e import f\nfrom . import g") == ["a", "c", "d"]


def test_more_of_the_console(capsys: pytest.CaptureFixture[str]) -> None:
    js.console.group("g")
    js.console.table([{"a": 1}])
    js.console.groupEnd()
    js.console.count()
    js.console.count()
    js.console.time("t")
    js.console.timeEnd("t")
    js.console.timeEnd("never begun")
    lines = capsys.readouterr().out.splitlines()
    assert lines[:4] == ["g", '[{"a":1}]', "default: 1", "default: 2"]
    assert lines[4].startswith("t: ")
    assert len(lines) == 5

"""JavaScript's errors as Python exceptions, and over a boundary (semantics 11)."""

from typing import Any

import pytest

from moorage.durable_objects.runtime.errors import across_boundary
from moorage.durable_objects.runtime.web.errors import javascript_errors
from moorage.wrangler_compat.workers import js
from moorage.wrangler_compat.workers.js.errors import (
    DOMException,
    Error,
    JsException,
    JsRangeError,
    JsSyntaxError,
    JsTypeError,
    NetworkError,
)


@pytest.mark.parametrize(
    "error",
    [
        JsException("x"),
        Error("x"),
        JsTypeError("x"),
        JsRangeError("x"),
        JsSyntaxError("x"),
        NetworkError("x"),
        DOMException("x", "AbortError"),
        js.AggregateError([ValueError("inner")]),
    ],
)
def test_a_caller_gets_the_same_class(error: JsException) -> None:
    crossed: Any = across_boundary(error)
    assert crossed.__class__ is type(error)
    assert crossed is not error
    assert (crossed.name, crossed.message, str(crossed)) == (error.name, error.message, str(error))
    assert vars(crossed)["remote"] is True


def test_kinds_that_python_has_too() -> None:
    assert isinstance(JsTypeError("x"), TypeError)
    assert isinstance(JsRangeError("x"), ValueError)
    assert isinstance(NetworkError("x"), OSError)
    assert str(JsTypeError("x")) == "TypeError: x"
    assert str(JsTypeError()) == "TypeError"


@pytest.mark.parametrize(
    ("raised", "kind"), [(TypeError, JsTypeError), (ValueError, JsRangeError), (KeyError, KeyError)]
)
def test_what_only_javascript_reaches_raises_its_errors(raised: type[Exception], kind: type[Exception]) -> None:
    @javascript_errors
    def function(value: int) -> int:
        """Kept."""
        if value:
            raise raised("text")
        return value

    assert (function(0), function.__doc__) == (0, "Kept.")
    with pytest.raises(kind, match="text"):
        function(1)


def test_an_error_of_javascript_stays_as_it_is() -> None:
    error = JsSyntaxError("own")

    @javascript_errors
    def function() -> None:
        raise error

    with pytest.raises(JsSyntaxError) as caught:
        function()
    assert caught.value is error

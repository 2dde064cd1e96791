"""How handlers are called (spec python-workers-api 2)."""

import functools
from typing import Any

import pytest

from moorage.durable_objects.runtime.web import Request, Response
from moorage.wrangler_compat.workers import handler, switching
from moorage.wrangler_compat.workers.calling import call, call_fetch, capacity, relaxed


class Handlers:
    def none(self) -> str:
        return "none"

    def one(self, a: Any) -> Any:
        return a

    def three(self, a: Any, b: Any, c: Any) -> Any:
        return (a, b, c)

    def many(self, *args: Any) -> Any:
        return args

    def defaults(self, a: Any, b: Any = "b") -> Any:
        return (a, b)

    def keywords(self, a: Any, *, named: Any = None, **more: Any) -> Any:
        return a

    @staticmethod
    def static(a: Any) -> Any:
        return a


@pytest.mark.parametrize(
    ("name", "result"),
    [
        ("none", "none"),
        ("one", 1),
        ("three", (1, 2, 3)),
        ("many", (1, 2, 3)),
        ("defaults", (1, 2)),
        ("keywords", 1),
        ("static", 1),
    ],
)
def test_surplus_arguments_are_dropped(name: str, result: Any) -> None:
    assert relaxed(getattr(Handlers(), name), 1, 2, 3) == result


def test_missing_arguments_are_not_invented() -> None:
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'c'"):
        relaxed(Handlers().three, 1, 2)


def test_a_decorated_function_counts_as_what_it_wraps() -> None:
    def decorated(function: Any) -> Any:
        @functools.wraps(function)
        def wrapper(*args: Any, **options: Any) -> Any:
            return function(*args, **options)

        return wrapper

    @decorated
    def one(a: Any) -> Any:
        return a

    @handler
    def legacy(request: Any) -> Any:
        return request

    request = Request("http://a")
    assert relaxed(one, 1, 2, 3) == 1
    assert relaxed(legacy, request.js_object, None, None) is request

    class Wrapped:
        @decorated
        def method(self, a: Any) -> Any:
            return a

    assert relaxed(Wrapped().method, 1, 2, 3) == 1


def test_callables_of_other_kinds() -> None:
    class Callable:
        def __call__(self, a: Any) -> Any:
            return a

    assert relaxed(Callable(), 1, 2) == 1
    assert relaxed(functools.partial(lambda a, b: (a, b), 0), 1, 2) == (0, 1)
    assert capacity(print) is None


async def test_plain_results_and_coroutines_are_both_awaited() -> None:
    async def waits(a: Any) -> Any:
        return a

    assert await call(waits, 1, 2) == 1
    assert await call(lambda a: a, 1, 2) == 1


async def test_fetch_handlers_give_a_response() -> None:
    request = Request("http://a")
    assert (await call_fetch(lambda: Response("x"), request, None, None)).status == 200

    async def shown(request: Any) -> Any:
        return Response(request.url).js_object

    assert await (await call_fetch(shown, request, None, None)).text() == "http://a/"

    async def promised(request: Any) -> Any:
        return shown(request)  # not awaited, as promises are flat

    assert await (await call_fetch(promised, request, None, None)).text() == "http://a/"
    with pytest.raises(TypeError, match="fetch\\(\\) must return a Response, not str"):
        await call_fetch(lambda: "x", request)
    with pytest.raises(TypeError, match="not NoneType"):
        await call_fetch(lambda: None, request)


async def test_with_stack_switching_handlers_may_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(switching, "enabled", True)

    async def slow() -> str:
        return "slow"

    def fetch(request: Any) -> Response:
        return Response(switching.run_sync(slow()))

    assert await (await call_fetch(fetch, Request("http://a"), None, None)).text() == "slow"
    assert await call(lambda: switching.run_sync(slow())) == "slow"

"""The object classes that the Durable Object vectors name."""

import json
from typing import Any

from moorage.durable_objects.runtime import DurableObject, undefined
from moorage.durable_objects.runtime.web import Response

from .do_sockets import WebSocketMixin
from .do_subject import Nested, Shared, SubjectMixin
from .do_values import ERRORS, Custom, JavaScriptOnly, MyError


async def _fetch(subject: Any, request: Any) -> Any:
    if request.fields.get("upgrade") == "websocket":
        return subject._open_socket(request.url)
    program = json.loads(await request.text())
    results = await subject._program(program)
    return Response(json.dumps(results))


class Subject(SubjectMixin, WebSocketMixin, DurableObject):
    """SQLite-backed, with everything."""

    def __init__(self, ctx: Any, env: Shared) -> None:
        super().__init__(ctx, env)
        self._begin()

    async def fetch(self, request: Any) -> Any:
        return await _fetch(self, request)

    async def alarm(self, info: Any) -> None:
        await self._alarm(info)

    def echo(self, value: Any = undefined, *_: Any) -> Any:
        return value

    def mutate(self, value: dict[str, Any]) -> dict[str, Any]:
        value["changed"] = True
        return value

    @property
    def getter(self) -> str:
        return "from getter"

    async def boom(self, name: str, message: str) -> None:
        raise ERRORS[name](message)

    def boomSync(self) -> None:
        raise ValueError("sync boom")

    def boomString(self) -> None:
        raise Exception("just text")

    def boomCustom(self) -> None:
        error = MyError("custom")
        error.code = "E_X"  # type: ignore[attr-defined]
        error.extra = 7  # type: ignore[attr-defined]
        raise error

    def nested(self) -> Nested:
        return Nested()

    async def useCallback(self, callback: Any) -> str:
        return f"got: {await callback(21)}"

    def giveCustom(self) -> Custom:
        return Custom({"a": 1})

    def giveStream(self) -> Any:
        return Response("streamed").body

    async def generate(self) -> Any:
        async def numbers() -> Any:
            yield 1

        return numbers()

    def giveSymbol(self) -> Any:
        raise JavaScriptOnly("symbol")

    def big(self, size: int) -> str:
        return "x" * size

    def hello(self) -> str:
        return "hello"


class Plain(SubjectMixin, DurableObject):
    """Without an alarm handler."""

    def __init__(self, ctx: Any, env: Shared) -> None:
        super().__init__(ctx, env)
        self._begin()

    async def fetch(self, request: Any) -> Any:
        return await _fetch(self, request)

    def echo(self, value: Any = undefined) -> Any:
        return value


class Bare(SubjectMixin):
    """Does not extend DurableObject."""

    def __init__(self, ctx: Any, env: Shared) -> None:
        self.ctx, self.env = ctx, env
        self._begin()

    async def fetch(self, request: Any) -> Any:
        return await _fetch(self, request)


class NoFetch(DurableObject):
    """Extends DurableObject and has no fetch."""

    def hello(self) -> str:
        return "hello"


CLASSES: dict[str, type[Any]] = {
    "MAIN": Subject,
    "PLAIN": Plain,
    "LEGACY": Subject,
    "BARE": Bare,
    "NOFETCH": NoFetch,
}

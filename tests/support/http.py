"""httpx transports for client tests: a state plane in this process, and answers from a script."""

from collections.abc import Awaitable, Callable, Sequence

import httpx

from .asgi import call
from .plane import Plane


class PlaneTransport(httpx.AsyncBaseTransport):
    """Sends requests to a `Plane`; `seen` holds them. `before` may answer, or raise, in its place."""

    def __init__(
        self, plane: Plane, before: Callable[[httpx.Request], Awaitable[httpx.Response | None]] | None = None
    ) -> None:
        self.plane = plane
        self.before = before
        self.seen: list[httpx.Request] = []

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        self.seen.append(request)
        if self.before is not None and (given := await self.before(request)) is not None:
            return given
        answer = await call(
            self.plane.app,
            request.method,
            request.url.raw_path.decode("ascii"),
            headers=[(name, value) for name, value in request.headers.items() if name != "content-length"],
            body=await request.aread(),
            env=self.plane.env,
        )
        return httpx.Response(answer.status, headers=dict(answer.headers), content=answer.body)


class Script(httpx.AsyncBaseTransport):
    """Answers requests one by one from a list; an exception in it is raised."""

    def __init__(self, answers: Sequence[httpx.Response | Exception]) -> None:
        self.answers = list(answers)
        self.seen: list[httpx.Request] = []

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        self.seen.append(request)
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

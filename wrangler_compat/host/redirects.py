"""Redirects of a binding's `fetch` (Fetch standard 4.4): followed through the same binding, as the platform does.

A request that came from a client is handed on as it is: its `redirect` is `manual`.
"""

from collections.abc import Awaitable, Callable
from typing import Final
from urllib.parse import urljoin

from moorage.durable_objects.runtime.web import Request, Response

MOST: Final = 20
_STATUSES: Final = frozenset({301, 302, 303, 307, 308})
_BODILESS: Final = frozenset({"GET", "HEAD"})
_OF_A_BODY: Final = ("content-encoding", "content-language", "content-length", "content-location", "content-type")


async def followed(request: Request, send: Callable[[Request], Awaitable[Response]]) -> Response:
    """The answer to `request`, or to what it was redirected to when the request says `follow`.

    Raises OSError for a redirect when the request says `error`, and after twenty of them.
    """
    redirected = False
    for _ in range(MOST + 1):
        follow = request.redirect == "follow"
        # The body is gone once it was sent: a redirect that keeps the method needs another one.
        spare = request.clone() if follow and str(request.method) not in _BODILESS else request
        answer = await send(request)
        location = answer.fields.get("location") if answer.status in _STATUSES else None
        if location is None or request.redirect == "manual":
            answer.url = answer.url or request.url
            answer.redirected = answer.redirected or redirected
            return answer
        if not follow:
            raise OSError(f"fetch to {request.url} was redirected, which redirect='error' forbids")
        request = _next(spare, answer.status, urljoin(request.url, location))
        redirected = True
    raise OSError(f"more than {MOST} redirects, the last one to {request.url}")


def _next(request: Request, status: int, url: str) -> Request:
    method = str(request.method)
    if (status == 303 and method not in _BODILESS) or (status in {301, 302} and method == "POST"):
        fields = request.fields.copy()
        for name in _OF_A_BODY:
            fields.delete(name)
        return Request(url, headers=fields, redirect=request.redirect)
    body = None if method in _BODILESS else request.body
    return Request(url, method=method, headers=request.fields.copy(), body=body, redirect=request.redirect)

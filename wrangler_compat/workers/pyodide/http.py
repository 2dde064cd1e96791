"""`pyodide.http`: `pyfetch` and `open_url` over `workers.fetch`."""

from __future__ import annotations

import io
from typing import Any

from moorage.durable_objects.runtime.web import Response as FetchResponse

from ..outgoing import fetch


class HttpStatusError(OSError):
    """An answer with a status from 400, raised by `open_url`."""

    def __init__(self, status: int, status_text: str, url: str) -> None:
        self.status, self.status_text, self.url = status, status_text, url
        super().__init__(f"{status} {status_text} for url: {url}")


async def pyfetch(url: str, *, signal: Any = None, fetcher: Any = None, **options: Any) -> FetchResponse:
    """Sends a request and returns its response; OSError when the network fails."""
    if fetcher is not None:
        from moorage.durable_objects.runtime.web import as_response

        return as_response(await fetcher(url, **options))
    return await fetch(url, **({"signal": signal} if signal is not None else {}), **options)


def open_url(url: str) -> io.StringIO:
    """The text at `url`, fetched while synchronous code waits (`run_sync`)."""
    from .. import switching

    async def read() -> str:
        response = await fetch(url)
        if response.status >= 400:
            raise HttpStatusError(response.status, response.status_text, url)
        return await response.text()

    return io.StringIO(switching.run_sync(read()))


__all__ = ["FetchResponse", "HttpStatusError", "open_url", "pyfetch"]

"""Where claims are dispatched to: a program, or the repository dispatch of a GitHub."""

import json
import os
import subprocess
from collections.abc import Sequence
from typing import Any, Final, Protocol

import httpx

from ..errors import ClientError

SECONDS: Final = 120.0
GITHUB_API: Final = "https://api.github.com"


class DispatchFailed(ClientError):
    """The claim was not taken, or nobody knows; it stays pending and is dispatched again under the same id."""


class DispatchRefused(DispatchFailed):
    """The claim was certainly not taken: it was refused, or the dispatch never left."""


class Dispatch(Protocol):
    """The side effect. It may see an id more than once and should do the work of it once."""

    def __call__(self, claim_id: str, event: str, payload: dict[str, Any]) -> None:
        """Returns once the claim is taken. Raises DispatchFailed."""


class CommandDispatch:
    """Runs `arguments` with `{"claim_id", "event", "payload"}` on standard input; status 0 takes the claim."""

    def __init__(self, arguments: Sequence[str]) -> None:
        self._arguments = list(arguments)

    def __call__(self, claim_id: str, event: str, payload: dict[str, Any]) -> None:
        """Raises DispatchFailed with the end of what the program wrote to standard error."""
        given = json.dumps({"claim_id": claim_id, "event": event, "payload": payload}).encode()
        environment = {**os.environ, "MOORAGE_CLAIM_ID": claim_id}
        try:
            done = subprocess.run(
                self._arguments, input=given, capture_output=True, env=environment, timeout=SECONDS, check=False
            )
        except OSError as error:
            raise DispatchRefused(f"{self._arguments[0]} cannot be run: {error.strerror}") from None
        except subprocess.TimeoutExpired:
            raise DispatchFailed(f"{self._arguments[0]} did not end within {SECONDS:.0f} s") from None
        if done.returncode != 0:
            said = done.stderr.decode("utf-8", "replace").strip()[-1000:]
            raise DispatchFailed(f"{self._arguments[0]} ended with status {done.returncode}: {said}")


class GithubDispatch:
    """`POST /repos/<repository>/dispatches`; the run finds `claim_id` and `payload` in its `client_payload`."""

    def __init__(
        self,
        repository: str,
        token: str,
        api: str = GITHUB_API,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        self._url = f"{api.rstrip('/')}/repos/{repository}/dispatches"
        self._repository = repository
        self._headers = {
            "authorization": f"Bearer {token}",
            "accept": "application/vnd.github+json",
            "content-type": "application/json",
        }
        self._transport = transport

    def __call__(self, claim_id: str, event: str, payload: dict[str, Any]) -> None:
        """Raises DispatchFailed for every answer but 204, and for none."""
        body = {"event_type": event, "client_payload": {"claim_id": claim_id, "payload": payload}}
        try:
            with httpx.Client(transport=self._transport, timeout=SECONDS) as client:
                answer = client.post(self._url, content=json.dumps(body), headers=self._headers)
        except (
            httpx.ConnectError, httpx.ConnectTimeout, httpx.UnsupportedProtocol, httpx.LocalProtocolError,
            httpx.InvalidURL, ImportError, OSError, ValueError,
        ) as error:  # fmt: skip
            # nothing was sent: no connection, or an address, a token or proxies that cannot be used
            raise DispatchRefused(f"dispatch to {self._repository}: {type(error).__name__}") from None
        except httpx.HTTPError as error:
            raise DispatchFailed(f"dispatch to {self._repository}: {type(error).__name__}") from None
        if answer.status_code != httpx.codes.NO_CONTENT:
            refused = DispatchRefused if 400 <= answer.status_code < 500 else DispatchFailed
            raise refused(f"dispatch to {self._repository}: status {answer.status_code}")

"""Signed calls to a state plane (HTTP Message Signatures, version 2 of spec state-plane-protocol 2)."""

from __future__ import annotations

import json
import os
import secrets
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from moorage.protocols.jobs.errors import Refused

if TYPE_CHECKING:
    import httpx

SECRETS = {"webhook": "CLAWSWEEPER_WEBHOOK_SECRET", "operator": "EXACT_REVIEW_OPERATOR_SECRET"}
"""Environment variables of the two keys."""

TIMEOUT_SECONDS = 30.0
ATTEMPTS = 4


class RemoteError(Exception):
    """The state plane could not be asked, or answered with something that is no answer of the queue."""


@dataclass(frozen=True, slots=True)
class Keys:
    """The two secrets; a call signs with the one that its route wants. They never show in `repr`."""

    webhook: str | None = field(default=None, repr=False)
    operator: str | None = field(default=None, repr=False)

    @classmethod
    def from_environment(cls, environ: Mapping[str, str] | None = None) -> Keys:
        """The secrets of the environment."""
        source = os.environ if environ is None else environ
        return cls(source.get(SECRETS["webhook"]) or None, source.get(SECRETS["operator"]) or None)

    def of(self, key_id: str) -> bytes:
        """The secret of a key. Raises `RemoteError` naming the variable that is missing."""
        value = self.operator if key_id == "operator" else self.webhook
        if value is None:
            raise RemoteError(f"this call is signed with the {key_id} secret; set {SECRETS[key_id]}")
        return value.encode()


class Transport:
    """A client of one state plane. `client` is replaced in tests."""

    def __init__(
        self,
        base_url: str,
        keys: Keys | None = None,
        *,
        client: httpx.Client | None = None,
        now: Callable[[], float] = time.time,
        nonce: Callable[[], str] = lambda: secrets.token_hex(16),
    ) -> None:
        import httpx

        self._client = client or httpx.Client(timeout=TIMEOUT_SECONDS)
        self._base = base_url.rstrip("/")
        self._keys = keys or Keys.from_environment()
        self._now = now
        self._nonce = nonce

    def request(
        self,
        method: str,
        path: str,
        body: bytes = b"",
        *,
        key_id: str | None = "webhook",
        timeout: float | None = None,
    ) -> httpx.Response:
        """One signed request; a connection that was refused is tried again, up to four times in all.

        Nothing is sent again once the server may have seen it: a claim that was lost on the way back is for the
        reap, not for a second claim. Raises `RemoteError`.
        """
        import httpx
        from tenacity import Retrying, retry_if_exception_type, stop_after_attempt, wait_random_exponential

        retrying = Retrying(
            retry=retry_if_exception_type((httpx.ConnectError, httpx.ConnectTimeout)),
            stop=stop_after_attempt(ATTEMPTS),
            wait=wait_random_exponential(multiplier=0.2, max=3),
            reraise=True,
        )
        try:
            response: httpx.Response = retrying(self._send, method, path, body, key_id, timeout)
        except httpx.HTTPError as error:
            raise RemoteError(f"{self._base}{path}: {error or type(error).__name__}") from error
        return response

    def _headers(self, method: str, path: str, body: bytes, key_id: str | None) -> dict[str, str]:
        headers = {"content-type": "application/json"} if body else {}
        if key_id is not None:
            from moorage.protocols.signatures import sign_request

            target, _, query = path.partition("?")
            headers |= sign_request(
                method,
                target.encode(),
                query.encode(),
                body,
                key=self._keys.of(key_id),
                key_id=key_id,
                created=int(self._now()),
                nonce=self._nonce(),
            )
        return headers

    def _send(self, method: str, path: str, body: bytes, key_id: str | None, timeout: float | None) -> httpx.Response:
        return self._client.request(
            method,
            self._base + path,
            content=body,
            headers=self._headers(method, path, body, key_id),
            timeout=TIMEOUT_SECONDS if timeout is None else timeout,
        )

    @contextmanager
    def stream(self, path: str, *, last_event: int) -> Iterator[Iterator[str]]:
        """The lines of a server-sent event stream from after `last_event`. Raises `RemoteError`."""
        import httpx

        headers = self._headers("GET", path, b"", "webhook") | {"last-event-id": str(last_event)}
        try:
            with self._client.stream("GET", self._base + path, headers=headers, timeout=None) as response:
                if response.status_code != 200:
                    response.read()
                    raise RemoteError(f"{path} answered {response.status_code}")
                yield response.iter_lines()
        except httpx.HTTPError as error:
            raise RemoteError(f"{self._base}{path}: {error or type(error).__name__}") from error

    def call(
        self, path: str, body: Mapping[str, Any], *, key_id: str | None = "webhook", timeout: float | None = None
    ) -> dict[str, Any]:
        """Posts a JSON body; the answer's object. Raises `Refused` as the server refused, else `RemoteError`."""
        response = self.request("POST", path, json.dumps(body).encode(), key_id=key_id, timeout=timeout)
        try:
            answer = response.json()
        except ValueError:
            raise RemoteError(f"{path} answered {response.status_code} and no JSON") from None
        if not isinstance(answer, dict):
            raise RemoteError(f"{path} answered {response.status_code} and no JSON object")
        if response.status_code == 200:
            return answer
        raise refusal(answer) or RemoteError(f"{path} answered {response.status_code}: {answer.get('error')}")

    def close(self) -> None:
        """Closes the connections."""
        self._client.close()


def refusal(answer: Mapping[str, Any]) -> Refused | None:
    """The refusal that an error body of the job routes spells, None for any other error."""
    code, message = answer.get("error"), answer.get("message")
    if not isinstance(code, str) or not isinstance(message, str) or not code.startswith("job_"):
        return None
    detail = {key: value for key, value in answer.items() if key not in ("error", "message")}
    try:
        return Refused(code.removeprefix("job_").replace("_", "-"), message, detail)
    except KeyError:
        return None

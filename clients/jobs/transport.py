"""Calls to the job routes of a state plane, over `clients.http`."""

from __future__ import annotations

import json
import os
import secrets
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from moorage.protocols.jobs.errors import Refused

from ..errors import ConfigurationError, RemoteError, TransportError
from ..http import DEADLINE_SECONDS, Http, Policy, check_url

if TYPE_CHECKING:
    import httpx

SECRETS = {
    "webhook": ("CLAWSWEEPER_RECORDS_SECRET", "CLAWSWEEPER_WEBHOOK_SECRET"),
    "operator": ("EXACT_REVIEW_OPERATOR_SECRET",),
}
"""Environment variables of the two keys; the first that is set counts (spec state-plane-protocol 2.3)."""

UNSIGNED = "unsigned"


@dataclass(frozen=True, slots=True)
class Keys:
    """The two secrets; a call signs with the one that its route wants. They never show in `repr`."""

    webhook: str | None = field(default=None, repr=False)
    operator: str | None = field(default=None, repr=False)

    @classmethod
    def from_environment(cls, environ: Mapping[str, str] | None = None) -> Keys:
        """The secrets of the environment."""
        source = os.environ if environ is None else environ
        found = {
            key: next((source[name] for name in names if source.get(name, "").strip()), None)
            for key, names in SECRETS.items()
        }
        return cls(found["webhook"], found["operator"])

    def of(self, key_id: str) -> str:
        """The secret of a key. Raises `ConfigurationError` naming the variable that is missing."""
        value = self.operator if key_id == "operator" else self.webhook
        if value is None:
            raise ConfigurationError(f"this call is signed with the {key_id} secret; set {SECRETS[key_id][-1]}")
        return value


class Transport:
    """A client of one state plane. `options` go to `Http`, for tests."""

    def __init__(self, base_url: str, keys: Keys | None = None, **options: Any) -> None:
        self._base = check_url(base_url)
        self._keys = keys or Keys.from_environment()
        self._options = options
        self._clients: dict[tuple[str, Policy], Http] = {}

    def _client(self, key_id: str | None, policy: Policy) -> Http:
        key = (key_id or UNSIGNED, policy)
        if key not in self._clients:
            # an unsigned call needs no secret, the client's constructor wants one
            secret = UNSIGNED if key_id is None else self._keys.of(key_id)
            self._clients[key] = Http(self._base, secret, key_id=key[0], policy=policy, **self._options)
        return self._clients[key]

    def call(
        self,
        path: str,
        body: Mapping[str, Any],
        *,
        key_id: str | None = "webhook",
        repeat: bool = True,
        wait: float = 0,
    ) -> dict[str, Any]:
        """Posts a JSON body; the answer's object. Raises `Refused` as the server refused, else `ClientError`.

        `repeat` False: nothing is sent twice, since the server may have seen it (a claim whose answer is lost is for
        the reap, not for a second claim). `wait`: seconds that the server may hold the request.
        """
        # rounded up, so that the waits of one claim share a client
        held = DEADLINE_SECONDS + 10 * -(-wait // 10)
        policy = Policy(deadline=held, attempts=4 if repeat else 1)
        try:
            return self._client(key_id, policy).json("POST", path, dict(body), signed=key_id is not None)
        except RemoteError as error:
            raise refusal(error.body) or error from None

    def record_text(self, path: str) -> str | None:
        """The content of a canonical record, None when there is none. Raises `ClientError`."""
        answer = self._client("webhook", Policy()).request("GET", path, expect=(404,))
        if answer.status == 404:
            return None
        content = answer.json_object().get("content")
        if not isinstance(content, str):
            raise RemoteError(answer.status, None, {}, what=f"GET {path}")
        return content

    @contextmanager
    def stream(self, path: str, *, last_event: int) -> Iterator[Iterator[str]]:
        """The lines of a server-sent event stream from after `last_event`. Raises `ClientError`."""
        import httpx

        from moorage.protocols.signatures import sign_request

        with httpx.Client(timeout=httpx.Timeout(DEADLINE_SECONDS, read=60.0)) as client:
            request = client.build_request("GET", self._base + path, headers={"last-event-id": str(last_event)})
            target, _, query = request.url.raw_path.partition(b"?")
            signed = sign_request(
                "GET",
                target,
                query,
                b"",
                key=self._keys.of("webhook").strip().encode(),
                key_id="webhook",
                created=int(time.time()),
                nonce=secrets.token_urlsafe(18),
            )
            request.headers.update(signed)
            try:
                response = client.send(request, stream=True)
                try:
                    if response.status_code != 200:
                        raise RemoteError(response.status_code, _code(response), {}, what=f"GET {path}")
                    yield response.iter_lines()
                finally:
                    response.close()
            except httpx.HTTPError as error:
                raise TransportError(f"GET {self._base}{path}: {type(error).__name__}") from error

    def close(self) -> None:
        """Closes the connections."""
        for client in self._clients.values():
            client.close()


def _code(response: httpx.Response) -> str | None:
    try:
        value = json.loads(response.read())
    except ValueError:
        return None
    code = value.get("error") if isinstance(value, dict) else None
    return code if isinstance(code, str) else None


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

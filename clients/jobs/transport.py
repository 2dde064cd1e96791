"""Calls to the job routes of a state plane, over `clients.http`."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from moorage.protocols.jobs.errors import Refused

from ..connection import secret_of
from ..errors import ConfigurationError, RemoteError
from ..http import DEADLINE_SECONDS, Http, Policy, check_url
from ..secret import OPERATOR_VARIABLES, SECRET_VARIABLES

SECRETS = {"webhook": SECRET_VARIABLES, "operator": OPERATOR_VARIABLES}


@dataclass(frozen=True, slots=True)
class Keys:
    """The two secrets; a call signs with the one that its route wants. They never show in `repr`."""

    webhook: str | None = field(default=None, repr=False)
    operator: str | None = field(default=None, repr=False)

    @classmethod
    def from_environment(cls, environ: Mapping[str, str] | None = None) -> Keys:
        """The secrets of the environment."""
        source = os.environ if environ is None else environ
        found: dict[str, str] = {}
        for key, names in SECRETS.items():
            try:
                found[key] = secret_of(source, names)
            except ConfigurationError:
                continue  # missed once a call wants it
        return cls(**found)

    def of(self, key_id: str) -> str:
        """The secret of a key. Raises `ConfigurationError` naming the variable that is missing."""
        value = self.operator if key_id == "operator" else self.webhook
        if value is None:
            raise ConfigurationError(f"this call is signed with the {key_id} secret; set {SECRETS[key_id][-1]}")
        return value


class Transport:
    """A client of one state plane, with as many signed clients as it has needed keys. `options` go to `Http`."""

    def __init__(self, base_url: str, keys: Keys | None = None, **options: Any) -> None:
        self._base = check_url(base_url)
        self._keys = keys or Keys.from_environment()
        self._options = options
        self._clients: dict[str | None, Http] = {}

    def _client(self, key_id: str | None) -> Http:
        if key_id not in self._clients:
            signing = {} if key_id is None else {"key_id": key_id}
            secret = None if key_id is None else self._keys.of(key_id)
            self._clients[key_id] = Http(self._base, secret, **signing, **self._options)
        return self._clients[key_id]

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
        policy = Policy(deadline=DEADLINE_SECONDS + wait, attempts=4 if repeat else 1)
        try:
            return self._client(key_id).json("POST", path, dict(body), signed=key_id is not None, policy=policy)
        except RemoteError as error:
            raise refusal(error.body) or error from None

    def record_text(self, path: str) -> str | None:
        """The content of a canonical record, None when there is none. Raises `ClientError`."""
        answer = self._client("webhook").request("GET", path, expect=(404,))
        if answer.status == 404:
            return None
        content = answer.json_object().get("content")
        if not isinstance(content, str):
            raise RemoteError(answer.status, None, {}, what=f"GET {path}")
        return content

    def stream(self, path: str, *, last_event: int) -> Iterator[str]:
        """The lines of a server-sent event stream from after `last_event`. Raises as `call` does."""
        try:
            yield from self._client("webhook").lines(path, headers={"last-event-id": str(last_event)})
        except RemoteError as error:
            raise refusal(error.body) or error from None

    def close(self) -> None:
        """Closes the connections."""
        for client in self._clients.values():
            client.close()


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

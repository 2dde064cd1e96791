"""Who signed a request: version 1 or 2, which secret, and the refusals in their order (spec state-plane-protocol
2).
"""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from moorage.protocols.signatures import NonceMemory, Refused, Request, Verified, body_hmac, verify_request
from moorage.protocols.wire import (
    InvalidSignature,
    OperatorNotConfigured,
    SignatureVersionsInvalid,
    WebhookNotConfigured,
)

from .routing import Auth
from .settings import Settings

SIGNATURE_HEADER = b"x-clawsweeper-exact-review-signature"
HUB_HEADER = b"x-hub-signature-256"
INPUT_HEADER = b"signature-input"
OFFLOAD_BYTES = 256 * 1024

# key ids that open a route, the first of which must be configured
_KEY_IDS: dict[Auth, tuple[str, ...]] = {
    Auth.NONE: (),
    Auth.WEBHOOK: ("webhook",),
    Auth.OPERATOR: ("operator",),
    Auth.WEBHOOK_OR_OPERATOR: ("webhook", "operator"),
    Auth.HUB: ("webhook",),
}


@dataclass(frozen=True, slots=True)
class Signer:
    """Whose signature was verified, and in which version."""

    key_id: str
    version: int


_SIGNERS = {key_id: Signer(key_id, 1) for key_id in ("webhook", "operator")}


def check_configured(settings: Settings, auth: Auth) -> None:
    """Raises the 503 of a route whose secret is missing, before a byte of the body is read."""
    if auth is Auth.NONE:
        return
    if not settings.keys[_KEY_IDS[auth][0]]:
        raise OperatorNotConfigured if auth is Auth.OPERATOR else WebhookNotConfigured
    if settings.versions is None:
        raise SignatureVersionsInvalid


class Authenticator:
    """Verifies signatures; remembers the nonces of version 2 since the process started.

    `now`: seconds since 1970. It is read at construction too: a version 2 signature made before that is refused,
    so that a restart never reopens replay.
    """

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._nonces = NonceMemory(now())

    async def verify(self, settings: Settings, auth: Auth, scope: Mapping[str, Any], body: bytes) -> Signer | None:
        """Who signed the request of the ASGI `scope`; None on a route that wants nobody. Raises InvalidSignature.

        Long bodies are hashed in a thread, so that the loop goes on serving.
        """
        if auth is Auth.NONE:
            return None
        now = self._now()
        try:
            if len(body) < OFFLOAD_BYTES:
                checked = self._check(settings, auth, scope, body, now)
            else:
                checked = await asyncio.to_thread(self._check, settings, auth, scope, body, now)
            if isinstance(checked, Signer):
                return checked
            self._nonces.admit(checked.key_id, checked.nonce, checked.created, now)
        except Refused as refused:
            raise InvalidSignature(reason=refused.reason, **refused.fields) from None
        return Signer(checked.key_id, 2)

    @staticmethod
    def _check(
        settings: Settings, auth: Auth, scope: Mapping[str, Any], body: bytes, now: float
    ) -> Signer | Verified:
        """What version 1 says, or a version 2 signature that holds and whose nonce is still to be admitted."""
        key_ids = _KEY_IDS[auth]
        versions = settings.versions or frozenset()
        wanted = HUB_HEADER if auth is Auth.HUB else SIGNATURE_HEADER
        given = b""
        modern = False
        for name, value in scope["headers"]:
            if name == wanted:
                given = given + b", " + value if given else value
            elif name == INPUT_HEADER:
                modern = True
        if modern and 2 in versions and auth is not Auth.HUB:
            path = scope.get("raw_path") or scope["path"].encode("utf-8")
            request = Request(
                scope["method"], path, scope["query_string"], scope["headers"], scope.get("scheme", "http")
            )
            return verify_request(request, body, {key_id: settings.keys[key_id] for key_id in key_ids}, now)
        # the code host signs with version 1 whatever our own clients do
        if 1 in versions or auth is Auth.HUB:
            given = given.strip(b" \t")
            for key_id in key_ids:
                if body_hmac.verify(settings.keys[key_id], body, given):
                    return _SIGNERS[key_id]
        raise InvalidSignature

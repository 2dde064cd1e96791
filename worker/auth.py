"""Who signed a request: version 1 or 2, which secret, and the refusals in their order (spec state-plane-protocol
2).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from moorage.protocols import signatures
from moorage.protocols.signatures import NonceMemory, Refused, Request, body_hmac
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

    def verify(self, settings: Settings, auth: Auth, scope: Mapping[str, Any], body: bytes) -> Signer | None:
        """Who signed the request of the ASGI `scope`; None on a route that wants nobody. Raises InvalidSignature."""
        if auth is Auth.NONE:
            return None
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
            return self._verify_2(settings, key_ids, request, body)
        # the code host signs with version 1 whatever our own clients do
        if 1 in versions or auth is Auth.HUB:
            given = given.strip(b" \t")
            for key_id in key_ids:
                if body_hmac.verify(settings.keys[key_id], body, given):
                    return Signer(key_id, 1)
        raise InvalidSignature

    def _verify_2(self, settings: Settings, key_ids: tuple[str, ...], request: Request, body: bytes) -> Signer:
        keys = {key_id: settings.keys[key_id] for key_id in key_ids}
        now = self._now()
        try:
            verified = signatures.verify_request(request, body, keys, now)
            self._nonces.admit(verified.key_id, verified.nonce, verified.created, now)
        except Refused as refused:
            raise InvalidSignature(reason=refused.reason, **refused.fields) from None
        return Signer(verified.key_id, 2)

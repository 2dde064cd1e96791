"""Version 1: `sha256=<hex HMAC-SHA256 of the body>` (spec state-plane-protocol 2.1)."""

import hmac
from collections.abc import Sequence
from typing import Final

from .mac import mac

HEADER: Final = "x-clawsweeper-exact-review-signature"
_BOM: Final = b"\xef\xbb\xbf"
_BASE_LINE: Final = b'\n"@signature-params": ('


def sign(secret: bytes, body: bytes) -> str:
    """The header's value for `body`; a GET signs no bytes at all."""
    return f"sha256={mac(secret, body).hexdigest()}"


def is_signable(body: bytes) -> bool:
    """Whether version 1 verifies this body under any signature.

    The reference signs the *text* of the body: bytes that are not UTF-8 or begin with a byte-order mark do not
    survive (`auth/body-bytes`). A text that is a version 2 signature base is refused as well, since both versions
    share their secrets: else a signature seen in version 2 would open version 1. No JSON object or array begins
    with a quote.
    """
    if body.startswith(b'"') and _BASE_LINE in body:
        return False
    if body.isascii():
        return True
    if body.startswith(_BOM):
        return False
    try:
        body.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def verify(secrets: Sequence[bytes], body: bytes, value: bytes) -> bool:
    """Whether `value` signs `body` under one of `secrets`. Compares in constant time; hex must be lowercase."""
    if len(value) != 71 or not is_signable(body):
        return False
    good = False
    for secret in secrets:
        good |= hmac.compare_digest(sign(secret, body).encode(), value)
    return good

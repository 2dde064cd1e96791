"""HMAC-SHA256 under secrets that are used again and again."""

import hmac
from functools import lru_cache


@lru_cache(maxsize=16)
def _keyed(secret: bytes) -> hmac.HMAC:
    # setting up the key costs more than hashing a short message: it is done once, and copied
    return hmac.new(secret, digestmod="sha256")


def mac(secret: bytes, message: bytes) -> hmac.HMAC:
    """The HMAC-SHA256 of `message` (RFC 2104), ready for `digest()` or `hexdigest()`."""
    made = _keyed(secret).copy()
    made.update(message)
    return made

"""How a request proves who sent it.

Version 1, `body_hmac`: an HMAC-SHA256 of the body alone, as the existing clients send it (spec
state-plane-protocol 2.1). It can be replayed and moved to another path.

Version 2: HTTP Message Signatures (RFC 9421), algorithm `hmac-sha256`, over `@method`, `@path`, `@query` and
`content-digest` (RFC 9530), with `created`, `nonce` and `keyid`. `sign_request` makes the three headers,
`verify_request` checks them, `NonceMemory` remembers nonces. Time, nonce and keys are handed in.
"""

from . import body_hmac
from .message import Request
from .nonces import NonceMemory
from .refusals import Reason, Refused
from .requests import COMPONENTS, MAX_SKEW_SECONDS, Verified, sign_request, verify_request

__all__ = [
    "COMPONENTS",
    "MAX_SKEW_SECONDS",
    "NonceMemory",
    "Reason",
    "Refused",
    "Request",
    "Verified",
    "body_hmac",
    "sign_request",
    "verify_request",
]

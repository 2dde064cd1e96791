"""The `Content-Digest` field (RFC 9530)."""

import hashlib
import hmac
from typing import Final

from .refusals import Reason, Refused
from .structured import Item, Malformed, parse_dictionary, serialize_bare

_HASHES: Final = {"sha-256": hashlib.sha256, "sha-512": hashlib.sha512}


def content_digest(body: bytes) -> str:
    """The field's value for `body`: `sha-256=:<base64>:`."""
    return f"sha-256={serialize_bare(hashlib.sha256(body).digest())}"


def check_content_digest(value: str, body: bytes) -> None:
    """Raises Refused unless `value` holds a sha-256 or sha-512 digest and every such digest is that of `body`.

    Other algorithms are skipped (RFC 9530 section 2).
    """
    try:
        members = parse_dictionary(value)
    except Malformed as error:
        raise Refused(Reason.MALFORMED_DIGEST, detail=str(error)) from None
    known = 0
    for name, make in _HASHES.items():
        member = members.get(name)
        if member is None:
            continue
        if not isinstance(member, Item) or not isinstance(member.value, bytes):
            raise Refused(Reason.MALFORMED_DIGEST, detail=f"{name} is not a byte sequence")
        if not hmac.compare_digest(make(body).digest(), member.value):
            raise Refused(Reason.DIGEST_MISMATCH)
        known += 1
    if not known:
        raise Refused(Reason.MALFORMED_DIGEST, detail="sha-256 or sha-512 is needed")

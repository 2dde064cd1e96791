"""Signature values as the recorded sequences spoil them. Made here on their own, not by the code under test."""

import base64
import hashlib
import hmac
from collections.abc import Callable
from typing import Any


def _hex(secret: str, body: bytes, algorithm: Callable[..., Any] = hashlib.sha256) -> str:
    return hmac.new(secret.encode(), body, algorithm).hexdigest()


def signature_value(form: str, secret: str, body: bytes) -> str:
    """The header's value in the given form, `valid` among them. Raises KeyError for an unknown form."""
    good = _hex(secret, body)
    return {
        "valid": f"sha256={good}",
        "upper_hex": f"sha256={good.upper()}",
        "upper_prefix": f"SHA256={good}",
        "sha1": f"sha1={_hex(secret, body, hashlib.sha1)}",
        "sha1_as_sha256": f"sha256={_hex(secret, body, hashlib.sha1)}",
        "no_prefix": good,
        "truncated": f"sha256={good[:63]}",
        "extended": f"sha256={good}0",
        "inner_space": f"sha256= {good}",
        "outer_space": f"  sha256={good}  ",
        "prefix_only": "sha256=",
        "blank": "",
        "other_body": f"sha256={_hex(secret, body + b' ')}",
        "empty_body": f"sha256={_hex(secret, b'')}",
        "last_digit": f"sha256={good[:-1]}{'0' if good[-1] != '0' else '1'}",
        "base64": "sha256=" + base64.b64encode(bytes.fromhex(good)).decode(),
        "twice": f"sha256={good}, sha256={good}",
    }[form]

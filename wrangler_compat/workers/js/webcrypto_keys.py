"""Keys of `js.crypto.subtle`: `CryptoKey`, names of algorithms, and the checks that every operation begins with.

Errors are the standard's (Web Cryptography API): NotSupportedError for an algorithm, InvalidAccessError for a key
that may not do it, SyntaxError for usages, DataError for key material, OperationError for what fails in the work.
"""

from __future__ import annotations

import base64
from collections.abc import Collection, Iterable
from typing import Any

from moorage.durable_objects.runtime.web import JsList, js_string, to_platform

from .binary import ArrayBuffer, buffer_bytes, is_buffer
from .errors import DOMException, JsTypeError

HASHES = {"SHA-1": "sha1", "SHA-256": "sha256", "SHA-384": "sha384", "SHA-512": "sha512"}
USAGES = ("encrypt", "decrypt", "sign", "verify", "deriveKey", "deriveBits", "wrapKey", "unwrapKey")


class CryptoKey:
    """A key: `type` is `secret`, `public` or `private`; its material leaves by `exportKey` alone."""

    __slots__ = ("_material", "algorithm", "extractable", "type", "usages")

    def __init__(self, kind: str, extractable: bool, algorithm: dict[str, Any], usages: Iterable[str], material: Any):
        self.type = kind
        self.extractable = extractable
        self.algorithm = to_platform(algorithm)
        self.usages = JsList(usages)
        self._material = material

    def __repr__(self) -> str:
        return f"CryptoKey({self.type}, {self.algorithm.get('name')})"


def material_of(key: Any) -> Any:
    return key._material


def fail(name: str, text: str) -> DOMException:
    return DOMException(text, name)


def members(algorithm: Any) -> dict[str, Any]:
    """An algorithm as a dictionary: a name alone is one with that name."""
    if isinstance(algorithm, str):
        return {"name": algorithm}
    if isinstance(algorithm, dict) and algorithm.get("name") is not None:
        return dict(algorithm)
    raise JsTypeError("An algorithm is a name or an object with a `name`.")


def hash_of(algorithm: dict[str, Any]) -> str:
    """The platform's name of the member `hash`."""
    given = algorithm.get("hash")
    if given is None:
        raise JsTypeError('The algorithm needs the member "hash".')
    name = js_string(members(given)["name"]).upper()
    if name not in HASHES:
        raise fail("NotSupportedError", f"Unrecognized or unimplemented hash algorithm {name!r}.")
    return name


def needed(algorithm: dict[str, Any], member: str) -> Any:
    value = algorithm.get(member)
    if value is None:
        raise JsTypeError(f'The algorithm {algorithm["name"]} needs the member "{member}".')
    return value


def needed_bytes(algorithm: dict[str, Any], member: str) -> bytes:
    return data_bytes(needed(algorithm, member), member)


def data_bytes(value: Any, what: str = "data") -> bytes:
    if not is_buffer(value):
        raise JsTypeError(f"{what} must be an ArrayBuffer or a view of one, not {type(value).__name__}")
    return buffer_bytes(value)


def checked_usages(given: Any, allowed: Collection[str]) -> list[str]:
    """The usages in the platform's order. SyntaxError for one that the algorithm does not have."""
    wanted = [js_string(usage) for usage in given or ()]
    for usage in wanted:
        if usage not in allowed:
            known = ", ".join(sorted(allowed)) or "none"
            raise fail("SyntaxError", f"Unsupported key usage {usage!r}; known here: {known}.")
    return [usage for usage in USAGES if usage in wanted]


def some_usages(usages: list[str]) -> list[str]:
    if not usages:
        raise fail("SyntaxError", "A secret or private key needs at least one usage.")
    return usages


def checked_key(key: Any, name: str, usage: str) -> Any:
    """The material of `key`. InvalidAccessError unless it is of that algorithm and has that usage."""
    if not isinstance(key, CryptoKey):
        raise JsTypeError(f"The key must be a CryptoKey, not {type(key).__name__}")
    if key.algorithm["name"] != name:
        raise fail("InvalidAccessError", f"The key is for {key.algorithm['name']}, not for {name}.")
    if usage not in key.usages:
        raise fail("InvalidAccessError", f"The key does not permit {usage}.")
    return key._material


def buffer(data: bytes) -> ArrayBuffer:
    return ArrayBuffer(data)


def url_base64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def from_url_base64(text: Any) -> bytes:
    if not isinstance(text, str):
        raise fail("DataError", "The JSON Web Key lacks a member.")
    try:
        return base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except ValueError as error:
        raise fail("DataError", f"A member of the JSON Web Key is no base64url: {error}") from None

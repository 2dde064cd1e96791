"""`js.crypto`: random bytes, and the Web Cryptography API as `subtle`, over the package `cryptography`."""

from __future__ import annotations

import hashlib
import hmac
import json
import secrets
import uuid
from typing import Any

from moorage.durable_objects.runtime.web import js_string, to_platform

from .binary import ArrayBuffer
from .errors import DOMException, JsTypeError
from .webcrypto_keys import HASHES, CryptoKey, buffer, checked_key, data_bytes, fail, members
from .webcrypto_pairs import Curve, Edwards, Rsa
from .webcrypto_secret import Aes, Derivation, Hmac

_SORTS: tuple[Any, ...] = (
    Hmac(),
    *map(Aes, ("AES-CBC", "AES-CTR", "AES-GCM", "AES-KW")),
    *map(Derivation, ("PBKDF2", "HKDF")),
    *map(Rsa, ("RSASSA-PKCS1-v1_5", "RSA-PSS", "RSA-OAEP")),
    *map(Curve, ("ECDSA", "ECDH")),
    *map(Edwards, ("Ed25519", "X25519")),
)
_BY_NAME = {sort.name.upper(): sort for sort in _SORTS}


def _sort(algorithm: dict[str, Any], operation: str) -> Any:
    name = js_string(algorithm["name"])
    found = _BY_NAME.get(name.upper())
    if found is None or not hasattr(found, operation):
        raise fail("NotSupportedError", f"Unrecognized or unimplemented algorithm {name!r} for {operation}.")
    algorithm["name"] = found.name
    return found


class SubtleCrypto:
    """`digest`, `sign`, `verify`, `encrypt`, `decrypt`, `generateKey`, `importKey`, `exportKey`, `deriveKey`,
    `deriveBits`, `wrapKey`, `unwrapKey`, and the platform's `timingSafeEqual`.

    Bytes come back as an `ArrayBuffer`. Errors are `JsException` with the standard's names.
    """

    async def digest(self, algorithm: Any, data: Any) -> ArrayBuffer:
        name = js_string(members(algorithm)["name"]).upper()
        kind = {**HASHES, "MD5": "md5"}.get(name)
        if kind is None:
            raise fail("NotSupportedError", f"Unrecognized or unimplemented digest algorithm {name!r}.")
        return buffer(hashlib.new(kind, data_bytes(data), usedforsecurity=kind != "md5").digest())

    async def sign(self, algorithm: Any, key: Any, data: Any) -> ArrayBuffer:
        given = members(algorithm)
        sort = _sort(given, "sign")
        checked_key(key, sort.name, "sign")
        return buffer(sort.sign(given, key, data_bytes(data)))

    async def verify(self, algorithm: Any, key: Any, signature: Any, data: Any) -> bool:
        given = members(algorithm)
        sort = _sort(given, "verify")
        checked_key(key, sort.name, "verify")
        return bool(sort.verify(given, key, data_bytes(signature, "signature"), data_bytes(data)))

    async def encrypt(self, algorithm: Any, key: Any, data: Any) -> ArrayBuffer:
        return buffer(_crypt("encrypt", "encrypt", algorithm, key, data_bytes(data)))

    async def decrypt(self, algorithm: Any, key: Any, data: Any) -> ArrayBuffer:
        return buffer(_crypt("decrypt", "decrypt", algorithm, key, data_bytes(data)))

    async def generateKey(self, algorithm: Any, extractable: bool, usages: Any) -> Any:
        """A `CryptoKey`, or `publicKey` and `privateKey`."""
        given = members(algorithm)
        return _sort(given, "generate").generate(given, bool(extractable), usages)

    async def importKey(self, form: str, data: Any, algorithm: Any, extractable: bool, usages: Any) -> CryptoKey:
        return _load(form, data, algorithm, extractable, usages)

    async def exportKey(self, form: str, key: Any) -> Any:
        """An `ArrayBuffer` for `raw`, `spki` and `pkcs8`, a dictionary for `jwk`."""
        exported = _dump(form, key)
        return to_platform(exported) if isinstance(exported, dict) else buffer(exported)

    async def deriveBits(self, algorithm: Any, key: Any, length: int | None = None) -> ArrayBuffer:
        return buffer(_bits(algorithm, key, length, "deriveBits"))

    async def deriveKey(self, algorithm: Any, key: Any, derived: Any, extractable: bool, usages: Any) -> CryptoKey:
        target = members(derived)
        sort = _sort(target, "load")
        length = sort.length(target) if hasattr(sort, "length") else None
        return _load("raw", _bits(algorithm, key, length, "deriveKey"), target, extractable, usages)

    async def wrapKey(self, form: str, key: Any, wrapping: Any, algorithm: Any) -> ArrayBuffer:
        exported = _dump(form, key)
        data = json.dumps(exported).encode() if isinstance(exported, dict) else exported
        return buffer(_crypt("encrypt", "wrapKey", algorithm, wrapping, data))

    async def unwrapKey(
        self, form: str, wrapped: Any, unwrapping: Any, algorithm: Any, target: Any, extractable: bool, usages: Any
    ) -> CryptoKey:
        data: Any = _crypt("decrypt", "unwrapKey", algorithm, unwrapping, data_bytes(wrapped, "wrappedKey"))
        if form == "jwk":
            try:
                data = json.loads(data)
            except ValueError as error:
                raise fail("DataError", f"The wrapped key is no JSON Web Key: {error}") from error
        return _load(form, data, target, extractable, usages)

    def timingSafeEqual(self, left: Any, right: Any) -> bool:
        """Whether two buffers of one length are equal, in a time that does not tell where they differ."""
        first, second = data_bytes(left), data_bytes(right)
        if len(first) != len(second):
            raise JsTypeError("Input buffers must have the same byte length.")
        return hmac.compare_digest(first, second)


def _load(form: Any, data: Any, algorithm: Any, extractable: Any, usages: Any) -> CryptoKey:
    given = members(algorithm)
    key: CryptoKey = _sort(given, "load").load(js_string(form), data, given, bool(extractable), usages)
    return key


def _dump(form: Any, key: Any) -> Any:
    if not isinstance(key, CryptoKey):
        raise JsTypeError(f"The key must be a CryptoKey, not {type(key).__name__}")
    if not key.extractable:
        raise fail("InvalidAccessError", "Attempt to export non-extractable key.")
    exported = _sort({"name": key.algorithm["name"]}, "dump").dump(js_string(form), key)
    if isinstance(exported, dict):
        return {**exported, "key_ops": list(key.usages), "ext": True}
    return exported


def _crypt(work: str, usage: str, algorithm: Any, key: Any, data: bytes) -> bytes:
    given = members(algorithm)
    sort = _sort(given, work)
    checked_key(key, sort.name, usage)
    done: bytes = getattr(sort, work)(given, key, data)
    return done


def _bits(algorithm: Any, key: Any, length: Any, usage: str) -> bytes:
    given = members(algorithm)
    sort = _sort(given, "derive_bits")
    checked_key(key, sort.name, usage)
    if length is None and sort.name in {"PBKDF2", "HKDF"}:
        raise fail("OperationError", f"{sort.name} needs a length.")
    derived: bytes = sort.derive_bits(given, key, None if length is None else int(length))
    return derived


class Crypto:
    subtle = SubtleCrypto()

    def getRandomValues(self, array: Any) -> Any:
        """Fills a `Uint8Array` (or another writable buffer of whole numbers) and returns it."""
        view = memoryview(array) if isinstance(array, bytearray | memoryview) else array.to_memoryview().cast("B")
        if len(view) > 65_536:
            raise DOMException("getRandomValues() takes at most 65536 bytes.", "QuotaExceededError")
        view[:] = secrets.token_bytes(len(view))
        return array

    def randomUUID(self) -> str:
        return str(uuid.uuid4())


__all__ = ["Crypto", "CryptoKey", "SubtleCrypto"]

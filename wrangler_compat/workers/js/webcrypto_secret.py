"""Secret-key algorithms of `js.crypto.subtle`: HMAC, AES in four modes, and derivation by PBKDF2 and HKDF."""

from __future__ import annotations

import hmac
import secrets
from typing import Any

from .errors import DOMException, JsTypeError
from .webcrypto_keys import (
    HASHES,
    CryptoKey,
    checked_usages,
    data_bytes,
    fail,
    from_url_base64,
    hash_of,
    material_of,
    needed,
    needed_bytes,
    some_usages,
    url_base64,
)

_BLOCKS = {"SHA-1": 64, "SHA-256": 64, "SHA-384": 128, "SHA-512": 128}
_MOST_ITERATIONS = 100_000
"""The platform's limit for PBKDF2: more would hold everybody up."""


class Secret:
    """What the algorithms with raw bytes as a key share: import and export."""

    name = ""
    usages: tuple[str, ...] = ()

    def described(self, algorithm: dict[str, Any], key: bytes) -> dict[str, Any]:
        return {"name": self.name}

    def check(self, key: bytes) -> None:
        """Raises DataError for bytes that are no key."""

    def load(self, form: str, data: Any, algorithm: dict[str, Any], extractable: bool, usages: Any) -> CryptoKey:
        if form == "raw":
            key = data_bytes(data, "keyData")
        elif form == "jwk":
            key = self._jwk(data)
        else:
            raise fail("NotSupportedError", f"{self.name} keys have no form {form!r}.")
        self.check(key)
        return CryptoKey(
            "secret",
            extractable,
            self.described(algorithm, key),
            some_usages(checked_usages(usages, self.usages)),
            key,
        )

    def _jwk(self, data: Any) -> bytes:
        if not isinstance(data, dict) or data.get("kty") != "oct":
            raise fail("DataError", 'A secret key as a JSON Web Key has "kty": "oct".')
        return from_url_base64(data.get("k"))

    def dump(self, form: str, key: CryptoKey) -> Any:
        data: bytes = material_of(key)
        if form == "raw":
            return data
        if form == "jwk":
            return {"kty": "oct", "k": url_base64(data), "alg": self.jwk_name(key)}
        raise fail("NotSupportedError", f"{self.name} keys have no form {form!r}.")

    def jwk_name(self, key: CryptoKey) -> str:
        return self.name


class Hmac(Secret):
    name = "HMAC"
    usages = ("sign", "verify")

    def described(self, algorithm: dict[str, Any], key: bytes) -> dict[str, Any]:
        return {"name": self.name, "hash": {"name": hash_of(algorithm)}, "length": len(key) * 8}

    def check(self, key: bytes) -> None:
        if not key:
            raise fail("DataError", "An HMAC key has at least one byte.")

    def generate(self, algorithm: dict[str, Any], extractable: bool, usages: Any) -> CryptoKey:
        return self.load("raw", secrets.token_bytes(self.length(algorithm) // 8), algorithm, extractable, usages)

    def length(self, algorithm: dict[str, Any]) -> int:
        bits = int(algorithm.get("length") or _BLOCKS[hash_of(algorithm)] * 8)
        if bits <= 0 or bits % 8:
            raise fail("OperationError", "The length of an HMAC key is a number of whole bytes.")
        return bits

    def jwk_name(self, key: CryptoKey) -> str:
        kind: str = key.algorithm["hash"]["name"]
        return "HS" + kind.removeprefix("SHA-")

    def sign(self, algorithm: dict[str, Any], key: CryptoKey, data: bytes) -> bytes:
        return hmac.digest(material_of(key), data, HASHES[key.algorithm["hash"]["name"]])

    def verify(self, algorithm: dict[str, Any], key: CryptoKey, signature: bytes, data: bytes) -> bool:
        return hmac.compare_digest(self.sign(algorithm, key, data), signature)


class Aes(Secret):
    """AES-CBC, AES-CTR, AES-GCM; AES-KW wraps keys alone."""

    def __init__(self, name: str) -> None:
        self.name = name
        wraps = ("wrapKey", "unwrapKey")
        self.usages = wraps if name == "AES-KW" else ("encrypt", "decrypt", *wraps)

    def described(self, algorithm: dict[str, Any], key: bytes) -> dict[str, Any]:
        return {"name": self.name, "length": len(key) * 8}

    def check(self, key: bytes) -> None:
        if len(key) not in {16, 24, 32}:
            raise fail("DataError", "An AES key has 128, 192 or 256 bits.")

    def length(self, algorithm: dict[str, Any]) -> int:
        bits = int(needed(algorithm, "length"))
        if bits not in {128, 192, 256}:
            raise fail("OperationError", "An AES key has 128, 192 or 256 bits.")
        return bits

    def generate(self, algorithm: dict[str, Any], extractable: bool, usages: Any) -> CryptoKey:
        return self.load("raw", secrets.token_bytes(self.length(algorithm) // 8), algorithm, extractable, usages)

    def jwk_name(self, key: CryptoKey) -> str:
        return f"A{key.algorithm['length']}{self.name.removeprefix('AES-')}"

    def encrypt(self, algorithm: dict[str, Any], key: CryptoKey, data: bytes) -> bytes:
        return self._work(algorithm, material_of(key), data, encrypting=True)

    def decrypt(self, algorithm: dict[str, Any], key: CryptoKey, data: bytes) -> bytes:
        return self._work(algorithm, material_of(key), data, encrypting=False)

    def _work(self, algorithm: dict[str, Any], key: bytes, data: bytes, *, encrypting: bool) -> bytes:
        try:
            if self.name == "AES-GCM":
                return _gcm(algorithm, key, data, encrypting)
            if self.name == "AES-CBC":
                return _cbc(algorithm, key, data, encrypting)
            if self.name == "AES-CTR":
                return _ctr(algorithm, key, data)
            return _wrapped(key, data, encrypting)
        except DOMException:
            raise
        except Exception as error:
            # the library has an error of its own for each way in which bytes are not what the key made
            raise fail("OperationError", f"{self.name} failed: {str(error) or type(error).__name__}") from error


def _gcm(algorithm: dict[str, Any], key: bytes, data: bytes, encrypting: bool) -> bytes:
    from cryptography.hazmat.primitives.ciphers import Cipher
    from cryptography.hazmat.primitives.ciphers.algorithms import AES
    from cryptography.hazmat.primitives.ciphers.modes import GCM

    vector = needed_bytes(algorithm, "iv")
    tag_bits = int(algorithm.get("tagLength") or 128)
    if tag_bits not in {32, 64, 96, 104, 112, 120, 128}:
        raise fail("OperationError", f"tagLength {tag_bits} is none of AES-GCM.")
    size = tag_bits // 8
    extra = algorithm.get("additionalData")
    known = b"" if extra is None else data_bytes(extra, "additionalData")
    if encrypting:
        encryptor = Cipher(AES(key), GCM(vector)).encryptor()
        encryptor.authenticate_additional_data(known)
        return encryptor.update(data) + encryptor.finalize() + encryptor.tag[:size]
    if len(data) < size:
        raise fail("OperationError", "The data is shorter than its tag.")
    decryptor = Cipher(AES(key), GCM(vector, data[-size:], min_tag_length=4)).decryptor()
    decryptor.authenticate_additional_data(known)
    return decryptor.update(data[:-size]) + decryptor.finalize()


def _cbc(algorithm: dict[str, Any], key: bytes, data: bytes, encrypting: bool) -> bytes:
    from cryptography.hazmat.primitives.ciphers import Cipher
    from cryptography.hazmat.primitives.ciphers.algorithms import AES
    from cryptography.hazmat.primitives.ciphers.modes import CBC
    from cryptography.hazmat.primitives.padding import PKCS7

    cipher = Cipher(AES(key), CBC(needed_bytes(algorithm, "iv")))
    padding = PKCS7(128)
    if encrypting:
        padder, encryptor = padding.padder(), cipher.encryptor()
        return encryptor.update(padder.update(data) + padder.finalize()) + encryptor.finalize()
    decryptor, unpadder = cipher.decryptor(), padding.unpadder()
    padded = decryptor.update(data) + decryptor.finalize()
    return bytes(unpadder.update(padded) + unpadder.finalize())


def _ctr(algorithm: dict[str, Any], key: bytes, data: bytes) -> bytes:
    """Only the last `length` bits of the counter count: beyond them it begins again at zero."""
    from cryptography.hazmat.primitives.ciphers import Cipher
    from cryptography.hazmat.primitives.ciphers.algorithms import AES
    from cryptography.hazmat.primitives.ciphers.modes import CTR

    counter = needed_bytes(algorithm, "counter")
    bits = int(needed(algorithm, "length"))
    if len(counter) != 16 or not 1 <= bits <= 128:
        raise fail("OperationError", "AES-CTR takes a counter of 16 bytes, and a length of 1 to 128 bits of it.")
    blocks = -(-len(data) // 16)
    if blocks > 1 << bits:
        raise fail("OperationError", "The counter is too short for the data.")
    start = int.from_bytes(counter)
    until_wrap = (1 << bits) - (start & ((1 << bits) - 1))
    pieces = [(counter, data[: until_wrap * 16])]
    if blocks > until_wrap:
        pieces.append(((start >> bits << bits).to_bytes(16), data[until_wrap * 16 :]))
    done = b""
    for first, piece in pieces:
        worker = Cipher(AES(key), CTR(first)).encryptor()
        done += worker.update(piece) + worker.finalize()
    return done


def _wrapped(key: bytes, data: bytes, encrypting: bool) -> bytes:
    from cryptography.hazmat.primitives.keywrap import aes_key_unwrap, aes_key_wrap

    return aes_key_wrap(key, data) if encrypting else aes_key_unwrap(key, data)


class Derivation(Secret):
    """PBKDF2 and HKDF: a secret that keys and bits are made of. It cannot be exported."""

    usages = ("deriveKey", "deriveBits")

    def __init__(self, name: str) -> None:
        self.name = name

    def load(self, form: str, data: Any, algorithm: dict[str, Any], extractable: bool, usages: Any) -> CryptoKey:
        if form != "raw":
            raise fail("NotSupportedError", f"{self.name} keys have no form {form!r}.")
        if extractable:
            raise fail("SyntaxError", f"{self.name} keys cannot be extractable.")
        return super().load(form, data, algorithm, extractable, usages)

    def derive_bits(self, algorithm: dict[str, Any], key: CryptoKey, bits: int) -> bytes:
        if bits <= 0 or bits % 8:
            raise fail("OperationError", "The length is a number of whole bytes, in bits.")
        name = hash_of(algorithm)
        secret: bytes = material_of(key)
        salt = needed_bytes(algorithm, "salt")
        if self.name == "PBKDF2":
            return _pbkdf2(name, secret, salt, int(needed(algorithm, "iterations")), bits // 8)
        from cryptography.hazmat.primitives import hashes
        from cryptography.hazmat.primitives.kdf.hkdf import HKDF

        kind = getattr(hashes, HASHES[name].upper())
        try:
            return HKDF(kind(), bits // 8, salt, needed_bytes(algorithm, "info")).derive(secret)
        except ValueError as error:
            raise fail("OperationError", str(error)) from error


def _pbkdf2(name: str, secret: bytes, salt: bytes, iterations: int, size: int) -> bytes:
    import hashlib

    if iterations < 1:
        raise JsTypeError("PBKDF2 needs at least one iteration.")
    if iterations > _MOST_ITERATIONS:
        raise fail(
            "NotSupportedError",
            f"Pbkdf2 failed: iteration counts above {_MOST_ITERATIONS} are not supported (requested {iterations}).",
        )
    return hashlib.pbkdf2_hmac(HASHES[name], secret, salt, iterations, size)

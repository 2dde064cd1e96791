"""Key pairs of `js.crypto.subtle`: RSA in three uses, ECDSA, ECDH, Ed25519 and X25519."""

from __future__ import annotations

from typing import Any, ClassVar

from moorage.durable_objects.runtime.web import JsDict

from .errors import DOMException
from .webcrypto_keys import (
    HASHES,
    CryptoKey,
    checked_usages,
    data_bytes,
    fail,
    hash_of,
    material_of,
    needed,
    some_usages,
)


def _hash(name: str) -> Any:
    from cryptography.hazmat.primitives import hashes

    return getattr(hashes, HASHES[name].upper())()


class Pair:
    """What all of them share: the forms of keys, and which half may do what."""

    name = ""
    public_usages: tuple[str, ...] = ()
    private_usages: tuple[str, ...] = ()
    raw = False
    """Whether a public key may be its bytes alone."""

    def described(self, algorithm: dict[str, Any], key: Any) -> dict[str, Any]:
        """The member `algorithm` of a key. DataError for a key of another kind."""
        raise NotImplementedError

    def make(self, algorithm: dict[str, Any]) -> Any:
        raise NotImplementedError

    def from_raw(self, algorithm: dict[str, Any], data: bytes) -> Any:
        raise fail("NotSupportedError", f"{self.name} keys have no form 'raw'.")

    def to_raw(self, key: Any) -> bytes:
        raise fail("NotSupportedError", f"{self.name} keys have no form 'raw'.")

    def jwk_algorithm(self) -> Any:
        raise fail("NotSupportedError", f"{self.name} keys have no form 'jwk' here.")

    def load(self, form: str, data: Any, algorithm: dict[str, Any], extractable: bool, usages: Any) -> CryptoKey:
        try:
            key = self._read(form, data, algorithm)
        except DOMException:
            raise
        except Exception as error:
            # whatever the library says of bytes that are no key
            raise fail("DataError", f"This is no {self.name} key in the form {form}: {error}") from error
        return self.wrap(key, algorithm, extractable, usages)

    def _read(self, form: str, data: Any, algorithm: dict[str, Any]) -> Any:
        from cryptography.hazmat.primitives import serialization

        if form == "spki":
            return serialization.load_der_public_key(data_bytes(data, "keyData"))
        if form == "pkcs8":
            return serialization.load_der_private_key(data_bytes(data, "keyData"), None)
        if form == "jwk":
            if not isinstance(data, dict):
                raise fail("DataError", "A JSON Web Key is an object.")
            return self.jwk_algorithm().from_jwk(dict(data))
        if form == "raw":
            return self.from_raw(algorithm, data_bytes(data, "keyData"))
        raise fail("NotSupportedError", f"{self.name} keys have no form {form!r}.")

    def wrap(self, key: Any, algorithm: dict[str, Any], extractable: bool, usages: Any) -> CryptoKey:
        private = hasattr(key, "private_bytes")
        allowed = checked_usages(usages, self.private_usages if private else self.public_usages)
        if private:
            some_usages(allowed)
        kind = "private" if private else "public"
        return CryptoKey(kind, extractable, self.described(algorithm, key), allowed, key)

    def generate(self, algorithm: dict[str, Any], extractable: bool, usages: Any) -> JsDict:
        wanted = checked_usages(usages, {*self.public_usages, *self.private_usages})
        key = self.make(algorithm)
        return JsDict(
            publicKey=self.wrap(
                key.public_key(), algorithm, True, [usage for usage in wanted if usage in self.public_usages]
            ),
            privateKey=self.wrap(
                key, algorithm, extractable, [usage for usage in wanted if usage in self.private_usages]
            ),
        )

    def dump(self, form: str, key: CryptoKey) -> Any:
        from cryptography.hazmat.primitives import serialization as forms

        held = material_of(key)
        if form == "spki" and key.type == "public":
            return held.public_bytes(forms.Encoding.DER, forms.PublicFormat.SubjectPublicKeyInfo)
        if form == "pkcs8" and key.type == "private":
            return held.private_bytes(forms.Encoding.DER, forms.PrivateFormat.PKCS8, forms.NoEncryption())
        if form == "jwk":
            described: dict[str, Any] = self.jwk_algorithm().to_jwk(held, as_dict=True)
            return described
        if form == "raw" and key.type == "public":
            return self.to_raw(held)
        raise fail("InvalidAccessError", f"A {key.type} {self.name} key has no form {form!r}.")


class Rsa(Pair):
    def __init__(self, name: str) -> None:
        self.name = name
        sealing = name == "RSA-OAEP"
        self.public_usages = ("encrypt", "wrapKey") if sealing else ("verify",)
        self.private_usages = ("decrypt", "unwrapKey") if sealing else ("sign",)

    def described(self, algorithm: dict[str, Any], key: Any) -> dict[str, Any]:
        from cryptography.hazmat.primitives.asymmetric import rsa

        if not isinstance(key, rsa.RSAPublicKey | rsa.RSAPrivateKey):
            raise fail("DataError", "This is no RSA key.")
        public = key if isinstance(key, rsa.RSAPublicKey) else key.public_key()
        exponent = public.public_numbers().e
        return {
            "name": self.name,
            "modulusLength": key.key_size,
            "publicExponent": exponent.to_bytes((exponent.bit_length() + 7) // 8),
            "hash": {"name": hash_of(algorithm)},
        }

    def make(self, algorithm: dict[str, Any]) -> Any:
        from cryptography.hazmat.primitives.asymmetric import rsa

        exponent = int.from_bytes(data_bytes(needed(algorithm, "publicExponent"), "publicExponent"))
        try:
            return rsa.generate_private_key(exponent, int(needed(algorithm, "modulusLength")))
        except ValueError as error:
            raise fail("OperationError", str(error)) from error

    def jwk_algorithm(self) -> Any:
        from jwt.algorithms import RSAAlgorithm

        return RSAAlgorithm

    def _padding(self, algorithm: dict[str, Any], key: CryptoKey) -> Any:
        from cryptography.hazmat.primitives.asymmetric import padding

        kind = _hash(key.algorithm["hash"]["name"])
        if self.name == "RSASSA-PKCS1-v1_5":
            return padding.PKCS1v15()
        if self.name == "RSA-PSS":
            return padding.PSS(padding.MGF1(kind), int(needed(algorithm, "saltLength")))
        label = algorithm.get("label")
        return padding.OAEP(padding.MGF1(kind), kind, None if label is None else data_bytes(label, "label"))

    def sign(self, algorithm: dict[str, Any], key: CryptoKey, data: bytes) -> bytes:
        signature: bytes = material_of(key).sign(
            data, self._padding(algorithm, key), _hash(key.algorithm["hash"]["name"])
        )
        return signature

    def verify(self, algorithm: dict[str, Any], key: CryptoKey, signature: bytes, data: bytes) -> bool:
        return _holds(
            material_of(key).verify,
            signature,
            data,
            self._padding(algorithm, key),
            _hash(key.algorithm["hash"]["name"]),
        )

    def encrypt(self, algorithm: dict[str, Any], key: CryptoKey, data: bytes) -> bytes:
        return _attempt(material_of(key).encrypt, data, self._padding(algorithm, key))

    def decrypt(self, algorithm: dict[str, Any], key: CryptoKey, data: bytes) -> bytes:
        return _attempt(material_of(key).decrypt, data, self._padding(algorithm, key))


class Curve(Pair):
    """ECDSA and ECDH over the NIST curves."""

    raw = True
    _CURVES: ClassVar = {"P-256": "SECP256R1", "P-384": "SECP384R1", "P-521": "SECP521R1"}

    def __init__(self, name: str) -> None:
        self.name = name
        self.public_usages = ("verify",) if name == "ECDSA" else ()
        self.private_usages = ("sign",) if name == "ECDSA" else ("deriveKey", "deriveBits")

    def _curve(self, algorithm: dict[str, Any]) -> Any:
        from cryptography.hazmat.primitives.asymmetric import ec

        name = needed(algorithm, "namedCurve")
        if name not in self._CURVES:
            raise fail("NotSupportedError", f"Unrecognized or unimplemented curve {name!r}.")
        return getattr(ec, self._CURVES[name])()

    def described(self, algorithm: dict[str, Any], key: Any) -> dict[str, Any]:
        curve = self._curve(algorithm)
        if getattr(getattr(key, "curve", None), "name", None) != curve.name:
            raise fail("DataError", f"This is no key of the curve {algorithm['namedCurve']}.")
        return {"name": self.name, "namedCurve": algorithm["namedCurve"]}

    def make(self, algorithm: dict[str, Any]) -> Any:
        from cryptography.hazmat.primitives.asymmetric import ec

        return ec.generate_private_key(self._curve(algorithm))

    def from_raw(self, algorithm: dict[str, Any], data: bytes) -> Any:
        from cryptography.hazmat.primitives.asymmetric import ec

        return ec.EllipticCurvePublicKey.from_encoded_point(self._curve(algorithm), data)

    def to_raw(self, key: Any) -> bytes:
        from cryptography.hazmat.primitives import serialization as forms

        point: bytes = key.public_bytes(forms.Encoding.X962, forms.PublicFormat.UncompressedPoint)
        return point

    def jwk_algorithm(self) -> Any:
        from jwt.algorithms import ECAlgorithm

        return ECAlgorithm

    def sign(self, algorithm: dict[str, Any], key: CryptoKey, data: bytes) -> bytes:
        """Both numbers one after the other, each of the curve's size."""
        from cryptography.hazmat.primitives.asymmetric import ec, utils

        held = material_of(key)
        first, second = utils.decode_dss_signature(held.sign(data, ec.ECDSA(_hash(hash_of(algorithm)))))
        size = (held.curve.key_size + 7) // 8
        return first.to_bytes(size) + second.to_bytes(size)

    def verify(self, algorithm: dict[str, Any], key: CryptoKey, signature: bytes, data: bytes) -> bool:
        from cryptography.hazmat.primitives.asymmetric import ec, utils

        held = material_of(key)
        size = (held.curve.key_size + 7) // 8
        if len(signature) != 2 * size:
            return False
        numbers = int.from_bytes(signature[:size]), int.from_bytes(signature[size:])
        return _holds(held.verify, utils.encode_dss_signature(*numbers), data, ec.ECDSA(_hash(hash_of(algorithm))))

    def derive_bits(self, algorithm: dict[str, Any], key: CryptoKey, bits: int | None) -> bytes:
        from cryptography.hazmat.primitives.asymmetric import ec

        other = _other_half(algorithm, key)
        return _cut(_attempt(material_of(key).exchange, ec.ECDH(), other), bits)


class Edwards(Pair):
    """Ed25519 signatures and X25519 agreement."""

    raw = True

    def __init__(self, name: str) -> None:
        self.name = name
        self.public_usages = ("verify",) if name == "Ed25519" else ()
        self.private_usages = ("sign",) if name == "Ed25519" else ("deriveKey", "deriveBits")

    def _classes(self) -> tuple[Any, Any]:
        from cryptography.hazmat.primitives.asymmetric import ed25519, x25519

        module: Any = ed25519 if self.name == "Ed25519" else x25519
        return getattr(module, f"{self.name}PublicKey"), getattr(module, f"{self.name}PrivateKey")

    def described(self, algorithm: dict[str, Any], key: Any) -> dict[str, Any]:
        if not isinstance(key, self._classes()):
            raise fail("DataError", f"This is no {self.name} key.")
        return {"name": self.name}

    def make(self, algorithm: dict[str, Any]) -> Any:
        return self._classes()[1].generate()

    def from_raw(self, algorithm: dict[str, Any], data: bytes) -> Any:
        return self._classes()[0].from_public_bytes(data)

    def to_raw(self, key: Any) -> bytes:
        raw: bytes = key.public_bytes_raw()
        return raw

    def jwk_algorithm(self) -> Any:
        if self.name != "Ed25519":
            return super().jwk_algorithm()
        from jwt.algorithms import OKPAlgorithm

        return OKPAlgorithm

    def sign(self, algorithm: dict[str, Any], key: CryptoKey, data: bytes) -> bytes:
        signature: bytes = material_of(key).sign(data)
        return signature

    def verify(self, algorithm: dict[str, Any], key: CryptoKey, signature: bytes, data: bytes) -> bool:
        return _holds(material_of(key).verify, signature, data)

    def derive_bits(self, algorithm: dict[str, Any], key: CryptoKey, bits: int | None) -> bytes:
        return _cut(_attempt(material_of(key).exchange, _other_half(algorithm, key)), bits)


def _other_half(algorithm: dict[str, Any], key: CryptoKey) -> Any:
    other = needed(algorithm, "public")
    if not isinstance(other, CryptoKey) or other.type != "public" or other.algorithm != key.algorithm:
        raise fail("InvalidAccessError", "The member `public` is a public key of the same algorithm.")
    return material_of(other)


def _cut(secret: bytes, bits: int | None) -> bytes:
    if bits is None:
        return secret
    if bits % 8 or bits // 8 > len(secret):
        raise fail("OperationError", f"{bits} bits cannot be taken of a secret of {len(secret) * 8}.")
    return secret[: bits // 8]


def _holds(verify: Any, *args: Any) -> bool:
    from cryptography.exceptions import InvalidSignature

    try:
        verify(*args)
    except InvalidSignature:
        return False
    return True


def _attempt(work: Any, *args: Any) -> bytes:
    try:
        result: bytes = work(*args)
    except Exception as error:
        raise fail("OperationError", str(error) or type(error).__name__) from error
    return result

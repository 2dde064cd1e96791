"""`js.crypto`: published test vectors, round trips, and the standard's errors."""

from typing import Any

import pytest

from moorage.wrangler_compat.workers import js
from moorage.wrangler_compat.workers.pyodide.ffi import JsException, to_js

subtle = js.crypto.subtle
encode = js.TextEncoder.new().encode


def key_of(name: str, data: bytes, *usages: str, **more: Any) -> Any:
    return subtle.importKey("raw", data, {"name": name, **more}, True, list(usages))


def refused(name: str) -> Any:
    return pytest.raises(JsException, match=f"^{name}: ")


async def test_random_and_digests() -> None:
    array = js.crypto.getRandomValues(js.Uint8Array.new(32))
    assert len(array) == 32
    assert any(array)
    assert js.crypto.getRandomValues(js.Uint32Array.new(4)).length == 4
    with refused("QuotaExceededError"):
        js.crypto.getRandomValues(js.Uint8Array.new(65_537))
    assert len(js.crypto.randomUUID()) == 36
    for algorithm in ("SHA-256", "sha-256", to_js({"name": "SHA-256"}, dict_converter=js.Object.fromEntries)):
        assert bytes(await subtle.digest(algorithm, encode("abc"))).hex().startswith("ba7816bf")
    with refused("NotSupportedError"):
        await subtle.digest("SHA-9", b"")
    with refused("TypeError"):
        await subtle.digest("SHA-1", "text")


async def test_hmac() -> None:
    """RFC 4231, test case 2."""
    key = await key_of("HMAC", b"Jefe", "sign", "verify", hash="SHA-256")
    data = b"what do ya want for nothing?"
    mac = await subtle.sign("HMAC", key, data)
    assert bytes(mac).hex() == "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"
    assert await subtle.verify("HMAC", key, mac, data) is True
    assert await subtle.verify({"name": "hmac"}, key, mac, b"other") is False
    assert await subtle.verify("HMAC", key, b"", data) is False
    assert (key.type, key.algorithm.hash.name, key.algorithm.length) == ("secret", "SHA-256", 32)
    assert (await subtle.exportKey("jwk", key)).to_py() == {
        "kty": "oct", "k": "SmVmZQ", "alg": "HS256", "key_ops": ["sign", "verify"], "ext": True,
    }  # fmt: skip
    made = await subtle.generateKey({"name": "HMAC", "hash": {"name": "SHA-512"}}, True, ["sign"])
    assert (await subtle.exportKey("raw", made)).byteLength == 128


GCM = {
    "name": "AES-GCM",
    "iv": bytes.fromhex("cafebabefacedbaddecaf888"),
    "additionalData": bytes.fromhex("feedfacedeadbeeffeedfacedeadbeefabaddad2"),
}
CTR = {"name": "AES-CTR", "counter": bytes.fromhex("f0f1f2f3f4f5f6f7f8f9fafbfcfdfeff"), "length": 128}
CBC = {"name": "AES-CBC", "iv": bytes(range(16))}


@pytest.mark.parametrize(
    ("algorithm", "key", "plain", "sealed"),
    [
        # NIST, GCM test case 4
        (
            GCM,
            "feffe9928665731c6d6a8f9467308308",
            "d9313225f88406e5a55909c5aff5269a86a7a9531534f7da2e4c303d8a318a72"
            "1c3c0c95956809532fcf0e2449a6b525b16aedf5aa0de657ba637b39",
            "42831ec2217774244b7221b784d0d49ce3aa212f2c02a4e035c17e2329aca12e"
            "21d514b25466931c7d8f6a5aac84aa051ba30b396a0aac973d58e0915bc94fbc"
            "3221a5db94fae95ae7121a47",
        ),
        # SP 800-38A F.5.1
        (
            CTR,
            "2b7e151628aed2a6abf7158809cf4f3c",
            "6bc1bee22e409f96e93d7e117393172aae2d8a571e03ac9c9eb76fac45af8e51",
            "874d6191b620e3261bef6864990db6ce9806f66b7970fdff8617187bb9fffdff",
        ),
        # SP 800-38A F.2.1, and the padding behind it
        (
            CBC,
            "2b7e151628aed2a6abf7158809cf4f3c",
            "6bc1bee22e409f96e93d7e117393172a",
            "7649abac8119b246cee98e9b12e9197d8964e0b149c10b7b682e6e39aaeb731c",
        ),
    ],
)
async def test_aes(algorithm: dict[str, Any], key: str, plain: str, sealed: str) -> None:
    held = await key_of(algorithm["name"], bytes.fromhex(key), "encrypt", "decrypt")
    assert bytes(await subtle.encrypt(algorithm, held, bytes.fromhex(plain))).hex() == sealed
    assert bytes(await subtle.decrypt(algorithm, held, bytes.fromhex(sealed))).hex() == plain


async def test_a_counter_begins_again_within_its_length() -> None:
    held = await key_of("AES-CTR", bytes(16), "encrypt", "decrypt")
    wrapping = {"name": "AES-CTR", "counter": bytes(15) + b"\xff", "length": 8}
    sealed = bytes(await subtle.encrypt(wrapping, held, bytes(32)))
    again = bytes(await subtle.encrypt({**wrapping, "counter": bytes(16)}, held, bytes(16)))
    assert sealed[16:] == again
    with refused("OperationError"):
        await subtle.encrypt({**wrapping, "length": 1}, held, bytes(48))


async def test_what_was_changed_is_not_opened() -> None:
    key = await subtle.generateKey({"name": "AES-GCM", "length": 256}, False, ["encrypt", "decrypt"])
    algorithm = {"name": "AES-GCM", "iv": js.crypto.getRandomValues(js.Uint8Array.new(12)), "tagLength": 96}
    sealed = bytearray(await subtle.encrypt(algorithm, key, b"secret"))
    assert len(sealed) == 6 + 12
    assert bytes(await subtle.decrypt(algorithm, key, sealed)) == b"secret"
    sealed[0] ^= 1
    with refused("OperationError"):
        await subtle.decrypt(algorithm, key, sealed)
    with refused("OperationError"):
        await subtle.decrypt(algorithm, key, b"short")
    with refused("InvalidAccessError"):
        await subtle.exportKey("raw", key)


async def test_key_wrap() -> None:
    """RFC 3394 4.1."""
    wrapping = await key_of("AES-KW", bytes(range(16)), "wrapKey", "unwrapKey")
    key = await key_of("AES-CBC", bytes.fromhex("00112233445566778899aabbccddeeff"), "encrypt")
    wrapped = await subtle.wrapKey("raw", key, wrapping, "AES-KW")
    assert bytes(wrapped).hex() == "1fa68b0a8112b447aef34bd8fb5a7b829d3e862371d2cfe5"
    back = await subtle.unwrapKey("raw", wrapped, wrapping, "AES-KW", "AES-CBC", True, ["decrypt"])
    assert bytes(await subtle.exportKey("raw", back)).hex() == "00112233445566778899aabbccddeeff"
    sealing = await subtle.generateKey({"name": "AES-GCM", "length": 128}, False, ["wrapKey", "unwrapKey"])
    algorithm = {"name": "AES-GCM", "iv": bytes(12)}
    wrapped = await subtle.wrapKey("jwk", key, sealing, algorithm)
    back = await subtle.unwrapKey("jwk", wrapped, sealing, algorithm, "AES-CBC", True, ["decrypt"])
    assert bytes(await subtle.exportKey("raw", back)).hex() == "00112233445566778899aabbccddeeff"


async def test_derivation() -> None:
    """RFC 6070, case 2, and RFC 5869 A.1."""
    password = await subtle.importKey("raw", encode("password"), "PBKDF2", False, ["deriveBits", "deriveKey"])
    stretched = {"name": "PBKDF2", "salt": b"salt", "iterations": 2, "hash": "SHA-1"}
    bits = await subtle.deriveBits(stretched, password, 160)
    assert bytes(bits).hex() == "ea6c014dc72d6f8ccd1ed92ace1d41f0d8de8957"
    key = await subtle.deriveKey(stretched, password, {"name": "AES-GCM", "length": 256}, True, ["encrypt"])
    assert (await subtle.exportKey("raw", key)).byteLength == 32
    mac = await subtle.deriveKey(stretched, password, {"name": "HMAC", "hash": "SHA-256"}, True, ["sign"])
    assert mac.algorithm.length == 512
    with refused("NotSupportedError"):
        await subtle.deriveBits({**stretched, "iterations": 100_001}, password, 160)
    secret = await subtle.importKey("raw", b"\x0b" * 22, "HKDF", False, ["deriveBits"])
    expanded = {
        "name": "HKDF", "hash": "SHA-256", "salt": bytes(range(13)), "info": bytes.fromhex("f0f1f2f3f4f5f6f7f8f9"),
    }  # fmt: skip
    assert (
        bytes(await subtle.deriveBits(expanded, secret, 42 * 8)).hex().startswith("3cb25f25faacd57a90434f64d0362f2a")
    )
    with refused("InvalidAccessError"):
        await subtle.deriveKey(expanded, secret, {"name": "AES-GCM", "length": 256}, True, ["encrypt"])


@pytest.mark.parametrize(
    ("algorithm", "signing"),
    [
        ({"name": "RSASSA-PKCS1-v1_5", "hash": "SHA-256"}, {"name": "RSASSA-PKCS1-v1_5"}),
        ({"name": "RSA-PSS", "hash": "SHA-256"}, {"name": "RSA-PSS", "saltLength": 32}),
        ({"name": "ECDSA", "namedCurve": "P-256"}, {"name": "ECDSA", "hash": "SHA-256"}),
        ({"name": "ECDSA", "namedCurve": "P-521"}, {"name": "ECDSA", "hash": {"name": "SHA-512"}}),
        ({"name": "Ed25519"}, {"name": "Ed25519"}),
    ],
)
async def test_signatures_survive_export_and_import(algorithm: dict[str, Any], signing: dict[str, Any]) -> None:
    if algorithm["name"].startswith("RSA"):
        algorithm = {**algorithm, "modulusLength": 2048, "publicExponent": js.Uint8Array.new([1, 0, 1])}
    pair = await subtle.generateKey(algorithm, True, ["sign", "verify"])
    assert (pair.publicKey.usages, pair.privateKey.usages) == (["verify"], ["sign"])
    signature = await subtle.sign(signing, pair.privateKey, b"data")
    for public, private in (("spki", "pkcs8"), ("jwk", "jwk")):
        exported = await subtle.exportKey(public, pair.publicKey)
        verifier = await subtle.importKey(public, exported, algorithm, True, ["verify"])
        exported = await subtle.exportKey(private, pair.privateKey)
        signer = await subtle.importKey(private, exported, algorithm, True, ["sign"])
        assert (verifier.type, signer.type) == ("public", "private")
        assert await subtle.verify(signing, verifier, signature, b"data") is True
        assert await subtle.verify(signing, verifier, signature, b"else") is False
        assert await subtle.verify(signing, pair.publicKey, await subtle.sign(signing, signer, b"x"), b"x") is True
    with refused("InvalidAccessError"):
        await subtle.sign(signing, pair.publicKey, b"data")


async def test_ed25519_by_its_published_vector() -> None:
    """RFC 8032 7.1, test 2."""
    public = bytes.fromhex("3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c")
    signature = bytes.fromhex(
        "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da"
        "085ac1e43e15996e458f3613d0f11d8c387b2eaeb4302aeeb00d291612bb0c00"
    )
    key = await subtle.importKey("raw", public, "Ed25519", True, ["verify"])
    assert await subtle.verify("Ed25519", key, signature, b"\x72") is True
    assert bytes(await subtle.exportKey("raw", key)) == public


@pytest.mark.parametrize("algorithm", [{"name": "ECDH", "namedCurve": "P-256"}, {"name": "X25519"}])
async def test_both_sides_agree(algorithm: dict[str, Any]) -> None:
    ours = await subtle.generateKey(algorithm, False, ["deriveBits", "deriveKey"])
    theirs = await subtle.generateKey(algorithm, False, ["deriveBits"])
    public = await subtle.importKey("raw", await subtle.exportKey("raw", theirs.publicKey), algorithm, True, [])
    one = await subtle.deriveBits({**algorithm, "public": public}, ours.privateKey, 256)
    other = await subtle.deriveBits({**algorithm, "public": ours.publicKey}, theirs.privateKey)
    assert bytes(one) == bytes(other)
    target = {"name": "AES-GCM", "length": 128}
    key = await subtle.deriveKey({**algorithm, "public": public}, ours.privateKey, target, True, ["encrypt"])
    assert bytes(await subtle.exportKey("raw", key)) == bytes(one)[:16]
    with refused("InvalidAccessError"):
        await subtle.deriveBits({**algorithm, "public": theirs.privateKey}, ours.privateKey)


async def test_rsa_oaep() -> None:
    algorithm = {"name": "RSA-OAEP", "hash": "SHA-256", "modulusLength": 2048, "publicExponent": b"\x01\x00\x01"}
    pair = await subtle.generateKey(algorithm, True, ["encrypt", "decrypt"])
    labelled = {"name": "RSA-OAEP", "label": b"for you"}
    sealed = await subtle.encrypt(labelled, pair.publicKey, b"secret")
    assert bytes(await subtle.decrypt(labelled, pair.privateKey, sealed)) == b"secret"
    with refused("OperationError"):
        await subtle.decrypt("RSA-OAEP", pair.privateKey, sealed)


async def test_what_is_no_key_or_may_not_do_it() -> None:
    key = await key_of("HMAC", b"k", "sign", hash="SHA-256")
    with refused("InvalidAccessError"):
        await subtle.verify("HMAC", key, b"", b"")
    with refused("InvalidAccessError"):
        await subtle.encrypt({"name": "AES-GCM", "iv": bytes(12)}, key, b"")
    with refused("NotSupportedError"):
        await subtle.sign("AES-GCM", key, b"")
    with refused("NotSupportedError"):
        await key_of("DES", b"k", "sign")
    with refused("SyntaxError"):
        await key_of("HMAC", b"k", "encrypt", hash="SHA-256")
    with refused("SyntaxError"):
        await key_of("HMAC", b"k", hash="SHA-256")
    with refused("TypeError"):
        await key_of("HMAC", b"k", "sign")
    with refused("DataError"):
        await key_of("AES-GCM", b"short", "encrypt")
    with refused("DataError"):
        await subtle.importKey("spki", b"no key", {"name": "ECDSA", "namedCurve": "P-256"}, True, ["verify"])
    with refused("DataError"):
        await subtle.importKey("jwk", {"kty": "oct", "k": "*"}, {"name": "HMAC", "hash": "SHA-1"}, True, ["sign"])
    with refused("NotSupportedError"):
        await subtle.importKey("pkcs8", b"", {"name": "HMAC", "hash": "SHA-1"}, True, ["sign"])
    with refused("TypeError"):
        await subtle.exportKey("raw", b"bytes")


def test_equal_in_constant_time() -> None:
    assert subtle.timingSafeEqual(b"abc", bytearray(b"abc")) is True
    assert subtle.timingSafeEqual(b"abc", b"abd") is False
    with refused("TypeError"):
        subtle.timingSafeEqual(b"a", b"ab")

"""`js.crypto` (spec python-workers-api 1 and 6)."""

import pytest

from moorage.wrangler_compat.workers import js
from moorage.wrangler_compat.workers.pyodide.ffi import (
    JsException,
)


async def test_crypto() -> None:
    array = js.crypto.getRandomValues(js.Uint8Array.new(32))
    assert len(array) == 32
    assert any(array)
    assert len(js.crypto.randomUUID()) == 36
    digest = await js.crypto.subtle.digest("SHA-256", js.TextEncoder.new().encode("abc"))
    assert bytes(digest).hex().startswith("ba7816bf")
    with pytest.raises(JsException, match="NotSupportedError"):
        await js.crypto.subtle.digest("SHA-9", b"")

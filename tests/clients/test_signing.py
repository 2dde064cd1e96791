"""What the client signs, and what it does when a service has just started."""

import httpx
import pytest

from moorage.clients.errors import Unauthorized
from moorage.clients.http import AsyncHttp
from moorage.protocols.signatures import Request, verify_request
from tests.support.http import PlaneTransport, Script
from tests.support.plane import SIGNATURE, START_MS, WEBHOOK_SECRET, Plane, sign

from .http_client import NOW, SECRET, URL, Sleeps, client, ok


class TestSigning:
    async def test_version_2_by_default(self) -> None:
        script = Script([ok()])
        async with client(script) as http:
            await http.json("POST", "/a/b?x=%20y", {"k": 1})
        (request,) = script.seen
        verified = verify_request(
            Request("POST", b"/a/b", b"x=%20y", [(name.lower(), value) for name, value in request.headers.raw]),
            b'{"k":1}',
            {"webhook": [SECRET.encode()]},
            NOW,
        )
        assert (verified.key_id, verified.created) == ("webhook", int(NOW))
        assert len(verified.nonce) >= 16
        assert SIGNATURE not in request.headers
        assert request.headers["content-type"] == "application/json"

    async def test_version_1_on_request(self) -> None:
        script = Script([ok()])
        async with client(script, signature_version=1) as http:
            await http.json("GET", "/a")
        assert script.seen[0].headers[SIGNATURE] == sign(SECRET, b"")
        assert "signature" not in script.seen[0].headers
        assert "content-type" not in script.seen[0].headers

    async def test_every_attempt_has_a_nonce_of_its_own(self) -> None:
        script = Script([httpx.Response(503), httpx.Response(503), ok()])
        async with client(script) as http:
            await http.json("GET", "/a")
        assert len({request.headers["signature-input"] for request in script.seen}) == 3

    async def test_unsigned_requests(self) -> None:
        script = Script([ok()])
        async with client(script) as http:
            await http.json("GET", "/a", signed=False)
        assert "signature" not in script.seen[0].headers

    async def test_a_service_that_has_just_started_says_from_when_on_it_accepts(self) -> None:
        async with Plane(start_ms=START_MS + 3500) as plane:
            transport = PlaneTransport(plane)
            async with AsyncHttp(URL, WEBHOOK_SECRET, transport=transport, now=lambda: NOW, sleep=Sleeps()) as http:
                found = await http.json("GET", "/internal/state/cursors/audit")
                await http.json("GET", "/internal/state/cursors/audit")
        assert found["ok"] is True
        assert len(transport.seen) == 3

    async def test_it_does_not_follow_a_service_into_the_future(self) -> None:
        refused = {"error": "invalid_signature", "reason": "created_before_start", "not_before": int(NOW) + 1000}
        script = Script([httpx.Response(401, json=refused)])
        async with client(script) as http:
            with pytest.raises(Unauthorized, match="created_before_start"):
                await http.json("GET", "/a")

    async def test_it_signs_again_once(self) -> None:
        refused = {"error": "invalid_signature", "reason": "created_before_start", "not_before": int(NOW) + 5}
        script = Script([httpx.Response(401, json=refused), httpx.Response(401, json=refused)])
        async with client(script) as http:
            with pytest.raises(Unauthorized):
                await http.json("GET", "/a")
        assert len(script.seen) == 2

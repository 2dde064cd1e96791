"""The application: order of checks, one shape for every error, bounded bodies, what is logged and counted."""

import asyncio
import dataclasses
import json
import logging
import re
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from moorage.protocols.signatures import sign_request
from moorage.protocols.wire import RequestBodyTimeout, WireError, catalogue
from moorage.worker.answers import CORS, encode, refusal, send_answer
from moorage.worker.app import StatePlane
from moorage.worker.reading import read_body
from moorage.worker.routes import all_routes
from moorage.worker.routing import Answer, Auth, Call, Raw, Result, Route, Style
from tests.support.asgi import call
from tests.support.plane import OPERATOR_SECRET, SIGNATURE, START_MS, WEBHOOK_SECRET, Plane, sign

NOW = START_MS // 1000
CURSOR = "/internal/state/cursors/audit"
ROUTES = list(all_routes())


def concrete(route: Route) -> tuple[str, str]:
    """A method and a path that the route takes."""
    known = {"mode": "audit", "slug": "acme-widgets", "number": "1"}
    path = re.sub(r"\{(\w+)\}", lambda found: known.get(found[1], "default"), route.path)
    return (route.methods[0] if route.methods else "GET"), path


def v2(method: str, path: str, body: bytes = b"", **more: Any) -> dict[str, str]:
    bare, _, query = path.partition("?")
    options: dict[str, Any] = {
        "key": WEBHOOK_SECRET.encode(),
        "key_id": "webhook",
        "created": NOW + 1,
        "nonce": "n",
        **more,
    }
    return sign_request(method, bare.encode(), query.encode(), body, **options)


class TestEveryRoute:
    @pytest.mark.parametrize("route", ROUTES, ids=lambda route: f"{'/'.join(route.methods)} {route.path}")
    async def test_unsigned_is_refused_in_the_one_shape(self, route: Route) -> None:
        async with Plane() as plane:
            method, path = concrete(route)
            answer = await plane.request(method, path, body=b"{}")
        if route.auth is Auth.NONE:
            assert answer.status != 401
            return
        assert (answer.status, answer.json()) == (401, {"error": "invalid_signature"})
        assert answer.headers["content-type"] == "application/json; charset=utf-8"

    @pytest.mark.parametrize("route", ROUTES, ids=lambda route: f"{'/'.join(route.methods)} {route.path}")
    async def test_a_handler_that_breaks_shows_nothing(self, route: Route, caplog: pytest.LogCaptureFixture) -> None:
        async def broken(call: Call) -> Result:
            raise RuntimeError("internals: /etc/passwd")

        broken_route = dataclasses.replace(
            route, handler=broken, auth=Auth.NONE, queue=False, bucket=None, accepts=None
        )
        app = StatePlane([broken_route])
        method, path = concrete(route)
        with caplog.at_level(logging.CRITICAL):
            answer = await call(app, method, path, body=b"{}", env=SimpleNamespace())
        assert answer.status == route.failure.status >= 500
        assert answer.json() == {"error": route.failure.code}

    def test_no_two_routes_claim_the_same_place(self) -> None:
        with pytest.raises(ValueError, match="declared twice"):
            StatePlane([ROUTES[0], ROUTES[0]])


class TestEveryError:
    @pytest.mark.parametrize("kind", catalogue(), ids=lambda kind: f"{kind.code}-{kind.status}")
    async def test_maps_to_http(self, kind: type[WireError]) -> None:
        async def refuse(call: Call) -> Result:
            raise kind(more="d")

        app = StatePlane([Route(("GET",), "/x", refuse, auth=Auth.NONE)])
        answer = await call(app, "GET", "/x")
        assert answer.status == kind.status
        body = answer.json()
        assert next(iter(body.items())) == ("error", kind.code)
        assert body["more"] == "d"
        assert kind.retryable is False or kind.status == 429 or kind.status >= 500
        assert "\n" not in str(kind())

    def test_headers_travel(self) -> None:
        error = catalogue()[0](headers={"retry-after": "7"})
        assert refusal(error).headers == {"retry-after": "7"}


class TestRouting:
    @pytest.mark.parametrize(
        ("method", "path"),
        [
            ("GET", "/"),
            ("GET", ""),
            ("GET", "/nothing"),
            ("DELETE", CURSOR),
            ("HEAD", CURSOR),
            ("POST", CURSOR),
            ("GET", "/internal/state/cursors/"),
            ("GET", "/internal/state/cursors/x\0"),
            ("GET", "/internal/state/cursors/%00"),
            ("GET", "/internal/state/cursors/..%2faudit"),
            ("GET", "/internal/state/cursors/a/b"),
            ("GET", "/internal/state/cursors/CON"),
            ("GET", "//internal/state/cursors/audit"),
            ("BREW", CURSOR),
            ("GET", "/" + "a" * 60_000),
            ("GET", "/api/health/"),
        ],
    )
    async def test_what_is_not_there(self, method: str, path: str) -> None:
        async with Plane() as plane:
            answer = await plane.request(method, path)
        assert answer.status == 404
        assert answer.headers["content-type"] == "application/json; charset=utf-8"
        if method == "HEAD":
            assert answer.body == b""
            assert int(answer.headers["content-length"]) > 0
        else:
            assert answer.body == b'{\n  "error": "not_found"\n}'

    @pytest.mark.parametrize("path", ["/", CURSOR, "/nothing", "/api/health"])
    async def test_preflight(self, path: str) -> None:
        answer = await call(StatePlane(), "OPTIONS", path)
        assert (answer.status, answer.body) == (204, b"")
        assert answer.headers == {name.decode(): value.decode() for name, value in CORS}

    async def test_ingest_host(self) -> None:
        app = StatePlane()
        for host in ("state-ingest.example.test", "STATE-INGEST.example.test:8787"):
            assert (await call(app, "GET", CURSOR, headers={"host": host})).status == 404
            assert (await call(app, "GET", "/api/x/../health", headers={"host": host})).status == 200
            for path, status in ((CURSOR, 404), ("/api/events", 204)):
                assert (await call(app, "OPTIONS", path, headers={"host": host})).status == status
        assert (await call(app, "GET", CURSOR, headers={"host": "ingest.example.test"})).status == 503

    async def test_head_of_health_has_no_body(self) -> None:
        answer = await call(StatePlane(), "HEAD", "/api/health")
        assert (answer.status, answer.body, answer.headers["content-length"]) == (200, b"", "77")

    async def test_lifespan_and_websockets(self) -> None:
        app = StatePlane()
        sent: list[Any] = []
        events = iter([{"type": "lifespan.startup"}, {"type": "lifespan.shutdown"}])

        async def receive() -> Any:
            return next(events)

        async def send(message: Any) -> None:
            sent.append(message["type"])

        await app({"type": "lifespan", "env": SimpleNamespace()}, receive, send)
        assert sent == ["lifespan.startup.complete", "lifespan.shutdown.complete"]
        sent.clear()
        connects = iter([{"type": "websocket.connect"}])

        async def connect() -> Any:
            return next(connects)

        await app({"type": "websocket"}, connect, send)
        assert sent == ["websocket.close"]


class TestBodies:
    route = Route(("POST",), "/x", lambda call: echo(call), auth=Auth.NONE, transport_cap=10)

    async def test_whole_and_in_chunks(self) -> None:
        app = StatePlane([self.route])
        assert (await call(app, "POST", "/x", body=b"0123456789")).json() == {"bytes": 10}
        for version in ("1.1", "2"):
            answer = await call(app, "POST", "/x", body=[b"01", b"", b"234"], http_version=version)
            assert answer.json() == {"bytes": 5}

    async def test_of_a_request_that_another_worker_made(self) -> None:
        from moorage.wrangler_compat.workers import Request, asgi

        request = Request("https://plane/x", method="POST", body=b"01234")
        answer = await asgi.fetch(StatePlane([self.route]), request, SimpleNamespace())
        assert await answer.json() == {"bytes": 5}

    @pytest.mark.parametrize("body", [b"0" * 11, [b"0" * 6, b"0" * 6], [b"0" * 11, b"0" * 1_000_000]])
    async def test_beyond_the_cap(self, body: Any) -> None:
        answer = await call(StatePlane([self.route]), "POST", "/x", body=body)
        assert (answer.status, answer.json()) == (413, {"error": "request_body_too_large", "maxBytes": 10})
        assert answer.headers["connection"] == "close"

    @pytest.mark.parametrize("length", ["11", "9" * 40])
    async def test_an_announced_length_is_refused_unread(self, length: str) -> None:
        answer = await call(StatePlane([self.route]), "POST", "/x", headers={"content-length": length}, body=[])
        assert answer.status == 413

    async def test_a_client_that_goes_away_gets_no_answer(self) -> None:
        answer = await call(StatePlane([self.route]), "POST", "/x", body=[b"01"], disconnect=True)
        assert answer.status == 0

    @pytest.mark.parametrize("limits", [{"idle": 0.01}, {"whole": 0.01}])
    async def test_a_body_that_does_not_come(self, limits: dict[str, float]) -> None:
        pieces = iter([{"type": "http.request", "body": b"0", "more_body": True}])

        async def receive() -> Any:
            for piece in pieces:
                return piece
            return await asyncio.get_running_loop().create_future()

        for headers in ([(b"content-length", b"5")], [(b"transfer-encoding", b"chunked")]):
            with pytest.raises(RequestBodyTimeout) as caught:
                await read_body(receive, headers, 10, idle=limits.get("idle", 60), whole=limits.get("whole", 60))
            assert caught.value.headers == {"connection": "close"}

    async def test_the_cap_lies_above_every_limit_of_a_route(self) -> None:
        for route in ROUTES:
            assert route.transport_cap >= 1024 * 1024

    async def test_ten_thousand_headers(self) -> None:
        headers = [(f"x-{place}", "v") for place in range(10_000)]
        assert (await call(StatePlane([self.route]), "POST", "/x", headers=headers, body=b"1")).json() == {"bytes": 1}


async def echo(call: Call) -> Result:
    return {"bytes": len(call.body)}


class TestAnswers:
    async def test_styles(self) -> None:
        value: dict[str, Any] = {"a": [], "b": {}, "c": [1, "é\u2028"], "d": None}
        assert encode(value, Style.COMPACT) == json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()
        assert encode(value, Style.INDENTED) == json.dumps(value, indent=2, ensure_ascii=False).encode()

    async def test_a_route_may_choose(self) -> None:
        async def compact(call: Call) -> Result:
            return Answer({"a": 1}, 201, {"X-More": "1"}, Style.COMPACT)

        answer = await call(StatePlane([Route(("GET",), "/x", compact, auth=Auth.NONE)]), "GET", "/x")
        assert (answer.status, answer.body, answer.headers["x-more"]) == (201, b'{"a":1}', "1")
        assert "access-control-allow-origin" not in answer.headers

    async def test_streams_are_closed_when_the_client_is_gone(self) -> None:
        closed = []

        async def chunks() -> Any:
            try:
                while True:
                    yield b"x"
            finally:
                closed.append(True)

        sent = 0

        async def send(message: Any) -> None:
            nonlocal sent
            sent += 1
            if sent == 3:
                raise OSError("gone")

        with pytest.raises(OSError, match="gone"):
            await send_answer(send, Raw(chunks(), 206, {"content-type": "x/y"}, 100), Style.COMPACT)
        assert closed == [True]


class TestSignatures:
    async def test_version_2(self) -> None:
        async with Plane() as plane:
            await plane.advance(1000)
            answer = await plane.request("GET", CURSOR, headers=v2("GET", CURSOR))
            assert answer.status == 200
            replay = await plane.request("GET", CURSOR, headers=v2("GET", CURSOR))
            assert (replay.status, replay.json()) == (401, {"error": "invalid_signature", "reason": "nonce_replayed"})

    async def test_version_2_covers_query_path_method_and_body(self) -> None:
        async with Plane() as plane:
            await plane.advance(1000)
            target = f"{CURSOR}?a=%20b"
            good = await plane.request("GET", target, headers=v2("GET", target, nonce="a"))
            assert good.status == 200
            for method, path, body in (
                ("PUT", target, b""),
                ("GET", f"{CURSOR}?a=b", b""),
                ("GET", "/internal/state/cursors/hot-intake?a=%20b", b""),
                ("GET", target, b"x"),
            ):
                moved = await plane.request(method, path, headers=v2("GET", target, nonce="b"), body=body)
                assert moved.status == 401, (method, path)

    async def test_a_restart_does_not_reopen_replay(self) -> None:
        headers = v2("GET", CURSOR, created=NOW - 1)
        async with Plane(start_ms=START_MS - 10_000) as before:
            await before.advance(9_500)
            assert (await before.request("GET", CURSOR, headers=headers)).status == 200
        async with Plane(start_ms=START_MS) as after:
            answer = await after.request("GET", CURSOR, headers=headers)
            assert answer.json() == {
                "error": "invalid_signature",
                "reason": "created_before_start",
                "not_before": NOW,
            }

    @pytest.mark.parametrize("version", [1, 2])
    async def test_long_bodies_are_verified_too(self, version: int) -> None:
        body = b" " * 300_000 + b'{"next_cursor":1,"expected_revision":0}'
        async with Plane() as plane:
            await plane.advance(1000)
            for sent, status in ((body, 202), (body + b" ", 401)):
                headers = {SIGNATURE: sign(WEBHOOK_SECRET, body)}
                if version == 2:
                    headers = v2("PUT", CURSOR, body, nonce=str(status))
                assert (await plane.request("PUT", CURSOR, headers=headers, body=sent)).status == status

    async def test_a_failed_signature_does_not_use_up_the_nonce(self) -> None:
        async with Plane() as plane:
            await plane.advance(1000)
            assert (await plane.request("GET", CURSOR, headers=v2("GET", CURSOR, key=b"wrong"))).status == 401
            assert (await plane.request("GET", CURSOR, headers=v2("GET", CURSOR))).status == 200

    async def test_key_ids(self) -> None:
        async with Plane() as plane:
            await plane.advance(1000)
            operator = v2("GET", CURSOR, key=OPERATOR_SECRET.encode(), key_id="operator")
            answer = await plane.request("GET", CURSOR, headers=operator)
            assert answer.json() == {"error": "invalid_signature", "reason": "unknown_keyid"}
            confused = v2("GET", CURSOR, key=OPERATOR_SECRET.encode())
            assert (await plane.request("GET", CURSOR, headers=confused)).status == 401

    @pytest.mark.parametrize("version", [1, 2])
    async def test_previous_key(self, version: int) -> None:
        async with Plane({"CLAWSWEEPER_WEBHOOK_SECRET_PREVIOUS": " old \n"}) as plane:
            await plane.advance(1000)
            for secret in (WEBHOOK_SECRET, "old"):
                headers = v2("GET", CURSOR, key=secret.encode(), nonce=secret)
                if version == 1:
                    headers = {SIGNATURE: sign(secret, b"")}
                assert (await plane.request("GET", CURSOR, headers=headers)).status == 200

    @pytest.mark.parametrize(
        ("setting", "first", "second"),
        [("1", 200, 401), ("2", 401, 200), (" 1 , 2 ", 200, 200), ("", 200, 200), ("2,3", 503, 503), ("x", 503, 503)],
    )
    async def test_accepted_versions(self, setting: str, first: int, second: int) -> None:
        async with Plane({"SIGNATURE_VERSIONS": setting}) as plane:
            await plane.advance(1000)
            assert (await plane.signed("GET", CURSOR)).status == first
            assert (await plane.request("GET", CURSOR, headers=v2("GET", CURSOR))).status == second

    async def test_with_both_headers_version_2_decides(self) -> None:
        async with Plane() as plane:
            await plane.advance(1000)
            headers = {**v2("GET", CURSOR, key=b"wrong"), SIGNATURE: sign(WEBHOOK_SECRET, b"")}
            assert (await plane.request("GET", CURSOR, headers=headers)).status == 401

    async def test_a_captured_version_2_signature_does_not_open_version_1(self) -> None:
        headers = v2("GET", CURSOR)
        base = (
            f'"@method": GET\n"@path": {CURSOR}\n"@query": ?\n"content-digest": {headers["content-digest"]}\n'
            f'"@signature-params": {headers["signature-input"].removeprefix("moorage=")}'
        )
        import base64

        mac = base64.b64decode(headers["signature"].removeprefix("moorage=:").removesuffix(":")).hex()
        assert sign(WEBHOOK_SECRET, base.encode()) == f"sha256={mac}"
        async with Plane() as plane:
            answer = await plane.request("GET", CURSOR, headers={SIGNATURE: f"sha256={mac}"}, body=base.encode())
            assert answer.status == 401

    async def test_order_of_refusals(self) -> None:
        async with Plane({"CLAWSWEEPER_WEBHOOK_SECRET": " "}, without=["queue"]) as plane:
            assert (await plane.signed("GET", CURSOR)).json() == {"error": "webhook_not_configured"}
        async with Plane(without=["queue"]) as plane:
            assert (await plane.request("GET", CURSOR)).json() == {"error": "invalid_signature"}
            assert (await plane.signed("GET", CURSOR)).json() == {"error": "exact_review_queue_not_configured"}

    async def test_a_repeated_header_is_one_value(self) -> None:
        good = sign(WEBHOOK_SECRET, b"")
        async with Plane() as plane:
            answer = await call(
                plane.app, "GET", CURSOR, headers=[(SIGNATURE, good), (SIGNATURE, good)], env=plane.env
            )
        assert answer.status == 401

    @settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
    @given(
        st.dictionaries(
            st.sampled_from([SIGNATURE, "signature", "signature-input", "content-digest", "x-hub-signature-256"]),
            st.text(st.characters(min_codepoint=32, max_codepoint=255), max_size=80),
        ),
        st.binary(max_size=60),
    )
    def test_whatever_is_sent_is_refused(self, headers: dict[str, str], body: bytes) -> None:
        async def go() -> None:
            async with Plane() as plane:
                answer = await plane.request("PUT", CURSOR, headers=headers, body=body)
                assert answer.status == 401

        asyncio.run(go())


class TestBrokenAnswers:
    async def test_a_stream_that_fails_cuts_the_connection(self, caplog: pytest.LogCaptureFixture) -> None:
        async def chunks() -> Any:
            yield b"x"
            raise OSError("disk /var/lib")

        async def broken(call: Call) -> Result:
            return Raw(chunks(), 206, {"content-type": "x/y"}, 100)

        with caplog.at_level(logging.INFO, "moorage.worker"), pytest.raises(OSError, match="disk"):
            await call(StatePlane([Route(("GET",), "/x", broken, auth=Auth.NONE)]), "GET", "/x")
        line = next(record for record in caplog.records if record.name == "moorage.worker.access")
        assert (line.status, line.error) == (500, "answer_broke_off")  # type: ignore[attr-defined]


class TestObservation:
    @pytest.fixture
    def records(self) -> Iterator[list[logging.LogRecord]]:
        found: list[logging.LogRecord] = []

        class Keep(logging.Handler):
            def emit(self, record: logging.LogRecord) -> None:
                found.append(record)

        logger = logging.getLogger("moorage.worker")
        handler = Keep()
        before = logger.level
        logger.addHandler(handler)
        logger.setLevel(logging.INFO)
        yield found
        logger.removeHandler(handler)
        logger.setLevel(before)

    async def test_one_line_for_each_request(self, records: list[logging.LogRecord]) -> None:
        async with Plane() as plane:
            body = b'{"next_cursor":1,"expected_revision":0,"note":"PRIVATE"}'
            await plane.signed("PUT", CURSOR, body)
            await plane.signed("PUT", CURSOR, body)
            await plane.request("GET", "/private/path?token=PRIVATE")
        lines = [record for record in records if record.name == "moorage.worker.access"]
        assert [
            (line.method, line.route, line.status, line.key_id, line.signature_version, line.error)  # type: ignore[attr-defined]
            for line in lines
        ] == [
            ("PUT", "/internal/state/cursors/{mode}", 202, "webhook", 1, None),
            ("PUT", "/internal/state/cursors/{mode}", 409, "webhook", 1, "fanout_cursor_revision_conflict"),
            ("GET", "(none)", 404, None, None, "not_found"),
        ]
        everything = " ".join(str(record.__dict__) for record in records)
        for private in (WEBHOOK_SECRET, OPERATOR_SECRET, "PRIVATE", "private/path", sign(WEBHOOK_SECRET, body)):
            assert private not in everything

    async def test_what_an_operator_is_told_at_start(self, records: list[logging.LogRecord]) -> None:
        app = StatePlane()
        env = SimpleNamespace(CLAWSWEEPER_WEBHOOK_SECRET="s")
        for _ in range(3):
            await call(app, "GET", "/api/health", env=env)
        texts = [record.getMessage() for record in records if record.levelno == logging.WARNING]
        assert len(texts) == 2
        assert any("EXACT_REVIEW_OPERATOR_SECRET is not set" in text for text in texts)
        assert any("SIGNATURE_VERSIONS=2" in text for text in texts)
        records.clear()
        await call(app, "GET", "/api/health", env=SimpleNamespace(SIGNATURE_VERSIONS="2"))
        assert not [record for record in records if "replayed" in record.getMessage()]

    async def test_metrics(self) -> None:
        from prometheus_client import REGISTRY

        def value(status: str) -> float:
            labels = {"method": "GET", "route": "/internal/state/cursors/{mode}", "status": status}
            return REGISTRY.get_sample_value("moorage_state_plane_requests_total", labels) or 0.0

        before = value("200")
        async with Plane() as plane:
            await plane.signed("GET", CURSOR)
            await plane.request("NONSENSE", "/never")
        assert value("200") == before + 1
        seconds = "moorage_state_plane_request_seconds"
        route = {"route": "/internal/state/cursors/{mode}"}
        counted = REGISTRY.get_sample_value(f"{seconds}_count", route)
        assert counted is not None
        assert counted >= 1
        assert REGISTRY.get_sample_value(f"{seconds}_bucket", {**route, "le": "+Inf"}) == counted
        assert REGISTRY.get_sample_value(f"{seconds}_bucket", {**route, "le": "30.0"}) == counted
        assert 0 < (REGISTRY.get_sample_value(f"{seconds}_sum", route) or 0) < 30 * counted
        names = {
            sample.labels["method"]
            for metric in REGISTRY.collect()
            for sample in metric.samples
            if "method" in sample.labels
        }
        assert "NONSENSE" not in names

    def test_settings_do_not_show_secrets(self) -> None:
        from moorage.worker.settings import Settings

        shown = repr(
            Settings.of(SimpleNamespace(CLAWSWEEPER_WEBHOOK_SECRET="hush", EXACT_REVIEW_OPERATOR_SECRET="hush"))
        )
        assert "hush" not in shown

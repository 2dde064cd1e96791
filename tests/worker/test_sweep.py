"""Shared sweeps over HTTP: statuses and codes, who may ask, what bodies are refused, and the OpenAPI document."""

import re
from typing import Any

import pytest

from moorage.clients.http import AsyncHttp
from moorage.protocols.sweep.shared import MAX_BATCH, MAX_DOCUMENT_BYTES, VERBS
from moorage.protocols.wire import catalogue
from moorage.protocols.wire import sweep as errors
from moorage.worker.routes.sweep_api import REFUSALS

from ..support.http import PlaneTransport
from ..support.openapi import Contract
from ..support.plane import OPERATOR_SECRET, WEBHOOK_SECRET
from ..support.sweep_plane import URL, SweepPlane

NOW = "2026-07-02T12:00:00+00:00"
STATE = 'schema_version: 1\nsources:\n  s:\n    cursor: "5"\nitems:\n  "s:1":\n    status: "closed"\n'
BODIES: dict[str, dict[str, Any]] = {
    "read": {},
    "validate": {},
    "upsert-item": {"source": "s", "id": "1", "item": {}, "writer": "w"},
    "upsert-items": {"writer": "w", "items": []},
    "cursor-get": {"source": "s"},
    "cursor-advance": {"source": "s", "to": "1", "past_item": "1", "writer": "w"},
    "lease-acquire": {"writer": "w"},
    "lease-release": {"writer": "w"},
    "run-record": {"writer": "w", "outcome": "failed", "counts": {}, "timestamp": "t"},
    "import-legacy": {"text": None},
    "export": {},
    "import": {"document": STATE},
}


def test_every_verb_has_a_body_here() -> None:
    assert set(BODIES) == set(VERBS) == set(REFUSALS)


class Driven:
    """Calls verbs with the secret each wants, and holds bodies and answers against the OpenAPI document."""

    def __init__(self, plane: SweepPlane) -> None:
        self._plane = plane
        self._contract = Contract()
        self.answered: set[tuple[str, int]] = set()

    async def __call__(self, verb: str, body: Any, status: int = 200) -> Any:
        path = f"/internal/sweeps/{{sweep}}/{verb}"
        if status != 400:
            self._contract.check_body(path, body)
        secret = OPERATOR_SECRET if VERBS[verb].who == "operator" else WEBHOOK_SECRET
        found, answer = await self._plane.verb(verb, body, secret=secret)
        assert found == status, (verb, answer)
        self._contract.check_answer(path, status, answer)
        self.answered.add((verb, status))
        return answer


async def test_every_route_as_the_document_says() -> None:
    async with SweepPlane() as plane:
        plane.stand_at(NOW)
        call = Driven(plane)
        for verb in ("read", "export"):
            assert (await call(verb, {}, 404))["word"] == "NO-STATE"
        assert (await call("lease-release", {"writer": "w"}))["word"] == "OK"
        await call("import", {"document": STATE})
        assert (await call("import", {"document": "schema_version: 1\n"}, 409))["error"] == "sweep_exists"
        assert "line 1" in (await call("import", {"document": "plain"}, 422))["reason"]
        assert (await call("validate", {}))["payload"] == {"downgraded": ["s:1"]}
        assert (await call("cursor-get", {"source": "s"}))["payload"] == {"cursor": "5"}
        for verb in ("upsert-item", "upsert-items", "cursor-advance"):
            assert (await call(verb, BODIES[verb], 409))["word"] == "LEASE-LOST"
        taken = await call("lease-acquire", {"writer": "w", "ttl_minutes": 5})
        assert taken["lease"] == {"writer": "w", "timestamp": NOW, "ttl_minutes": 5}
        token = taken["token"]
        locked = await call("lease-acquire", {"writer": "v"}, 423)
        assert (locked["error"], locked["lease"]) == ("sweep_locked", taken["lease"])
        assert (await call("lease-release", {"writer": "v"}, 409))["word"] == "LEASE-LOST"
        upsert = {**BODIES["upsert-item"], "token": token}
        await call("upsert-item", {**upsert, "item": {"n": 1}})
        assert (await call("upsert-item", {**upsert, "item": [1]}, 422))["word"] == "ERROR"
        many = [{"source": "s", "id": str(number), "item": {}} for number in range(MAX_BATCH)]
        await call("upsert-items", {"writer": "w", "token": token, "items": many})
        spoiled = [*many[:5], {"source": "s", "id": "x", "item": None}]
        assert (
            "items[5]"
            in (await call("upsert-items", {"writer": "w", "token": token, "items": spoiled}, 422))["reason"]
        )
        await call("upsert-items", {"writer": "w", "token": token, "items": [*many, many[0]]}, 400)
        advance = {"source": "s", "to": "6", "past_item": "1", "writer": "w", "token": token}
        await call("cursor-advance", advance)
        assert (await call("cursor-advance", {**advance, "to": "5"}, 409))["word"] == "REFUSED"
        assert (await call("cursor-advance", {**advance, "past_item": "none"}, 409))[
            "error"
        ] == "sweep_cursor_refused"
        await call("run-record", BODIES["run-record"])
        answer = await call("run-record", {**BODIES["run-record"], "counts": "x" * 1_100_000}, 422)
        assert answer["reason"].startswith('"last_run" would be larger')
        legacy = {"text": '{"channels": {"C": {"cursor": 7}}}', "source_map": {"C": "c"}}
        assert (await call("import-legacy", legacy))["payload"] == {"cursors_imported": 1, "items_imported": 0}
        await call("import-legacy", {"text": '{"items": {"a": {"title": Infinity}}}'}, 422)
        await plane.advance(5 * 60_000 + 1)
        reclaimed = await call("lease-acquire", {"writer": "v", "fenced": False})
        assert (reclaimed["word"], reclaimed["token"]) == ("STALE-RECLAIMED", token + 1)
        await call("lease-release", {"writer": "v"})
        document = (await call("read", {}))["payload"]
        assert len(document["items"]) == MAX_BATCH
        text = (await call("export", {}))["document"]
        await call("import", {"document": text, "replace": True})
        assert (await call("export", {}))["document"] == text
        await call(
            "import", {"document": 'schema_version: 1\nsources:\n  s: "x"\nitems:\n  "s:1": 1\n', "replace": True}
        )
        token = (await call("lease-acquire", {"writer": "w"}))["token"]
        await call("cursor-advance", {**advance, "token": token}, 422)
        for verb in VERBS:
            await call(verb, {**BODIES[verb], "more": 1}, 400)
        told = {(verb, kind.status) for verb, kinds in REFUSALS.items() for kind in kinds}
        assert call.answered == told | {(verb, status) for verb in VERBS for status in (200, 400)}


@pytest.mark.parametrize("verb", list(VERBS))
async def test_who_may_ask(verb: str) -> None:
    async with SweepPlane() as plane:
        right = OPERATOR_SECRET if VERBS[verb].who == "operator" else WEBHOOK_SECRET
        wrong = WEBHOOK_SECRET if VERBS[verb].who == "operator" else OPERATOR_SECRET
        assert (await plane.verb(verb, BODIES[verb], secret=wrong))[0] == 401
        assert (await plane.request("POST", f"/internal/sweeps/x/{verb}", body=b"{}")).status == 401
        assert (await plane.verb("read"))[0] == 404
        assert (await plane.verb(verb, BODIES[verb], secret=right))[0] != 401
        for method in ("GET", "PUT", "DELETE"):
            assert (await plane.signed(method, f"/internal/sweeps/x/{verb}", secret=right)).status == 404


@pytest.mark.parametrize("name", ["", "-x", ".x", "a/b", "a%2Fb", "ü", "x" * 101, "a b"])
async def test_names_of_another_form_are_no_route(name: str) -> None:
    async with SweepPlane() as plane:
        answer = await plane.signed("POST", f"/internal/sweeps/{name}/read", b"{}")
        assert (answer.status, answer.json()["error"]) == (404, "not_found")


async def test_names_are_states_of_their_own() -> None:
    async with SweepPlane() as plane:
        assert (await plane.verb("lease-acquire", {"writer": "a"}, sweep="one"))[0] == 200
        assert (await plane.verb("lease-acquire", {"writer": "b"}, sweep="two"))[0] == 200
        assert (await plane.verb("read", sweep="two"))[1]["payload"]["lease"]["writer"] == "b"


@pytest.mark.parametrize(
    ("verb", "body", "reason"),
    [
        ("cursor-get", b"", "missing required field `source`"),
        ("cursor-get", b"[]", "Expected `object`"),
        ("cursor-get", b'{"source": 5}', r"Expected `str`, got `int` - at `\$\.source`"),
        ("cursor-get", b"{", "not JSON"),
        ("cursor-get", b"[" * 100_000, "nested too deeply"),
        ("upsert-item", b'{"source":"s","id":"1","writer":"w","item":{"a":NaN}}', "NaN is no JSON"),
        ("upsert-item", b'{"source":"s","id":"1","writer":"w","item":{"a":1e999}}', "too large"),
        ("upsert-item", b'{"source":"s","id":"1","writer":"w","item":{},"token":"1"}', r"\$\.token"),
        ("lease-acquire", b'{"writer":"w","ttl_minutes":1.5}', r"\$\.ttl_minutes"),
        ("run-record", b'{"writer":"w","outcome":"done","counts":{},"timestamp":"t"}', r"\$\.outcome"),
        ("read", b'{"now":"2026"}', "unknown field `now`"),
    ],
)
async def test_a_body_that_is_refused_names_its_member(verb: str, body: bytes, reason: str) -> None:
    async with SweepPlane() as plane:
        answer = await plane.signed("POST", f"/internal/sweeps/x/{verb}", body)
        assert (answer.status, answer.json()["error"]) == (400, "sweep_usage")
        assert re.search(reason, answer.json()["reason"])
        assert (await plane.verb("read", sweep="x"))[0] == 404


async def test_a_body_that_is_no_utf_8() -> None:
    """Version 1 of the signature never verifies such a body."""
    async with SweepPlane() as plane:
        clock = plane.clock
        http = AsyncHttp(URL, WEBHOOK_SECRET, transport=PlaneTransport(plane), now=lambda: clock.now() / 1000)
        async with http:
            answer = await http.request("POST", "/internal/sweeps/x/read", b"\xff", expect=(400,))
        assert "byte 0 is not UTF-8" in answer.json_object()["reason"]


async def test_numbers_go_out_as_they_came_in() -> None:
    async with SweepPlane() as plane:
        await plane.verb("lease-acquire", {"writer": "w", "fenced": False})
        text = b'{"big":123456789012345678901234567890,"f":1.0,"nz":-0.0,"e":1e22,"s":"\\ud800\\u00e9"}'
        body = b'{"source":"s","id":"1","writer":"w","item":' + text + b"}"
        assert (await plane.signed("POST", "/internal/sweeps/default/upsert-item", body)).status == 200
        answer = await plane.signed("POST", "/internal/sweeps/default/read", b"")
        for part in (b"123456789012345678901234567890", b":1.0", b":-0.0", b":1e+22", b"\\ud800\\u00e9"):
            assert part in answer.body
        assert answer.headers["content-type"] == "application/json"
        assert answer.headers["cache-control"] == "no-store"


async def test_missing_binding_and_broken_object() -> None:
    async with SweepPlane() as plane:
        namespace = plane.env.SWEEP_STATE

        class Broken:
            def getByName(self, name: str) -> Any:
                raise RuntimeError("secret detail")

        plane.env.SWEEP_STATE = Broken()
        status, answer = await plane.verb("read")
        assert (status, answer) == (500, {"error": "sweep_state_unavailable"})
        del plane.env.SWEEP_STATE
        status, answer = await plane.verb("read")
        assert (status, answer["error"]) == (503, "sweep_state_not_configured")
        plane.env.SWEEP_STATE = namespace
        assert (await plane.verb("read"))[0] == 404


async def test_a_body_beyond_the_cap_is_not_read() -> None:
    async with SweepPlane() as plane:
        headers = {"content-length": str(MAX_DOCUMENT_BYTES + 1)}
        answer = await plane.request("POST", "/internal/sweeps/x/import", headers=headers)
        assert answer.status == 413


def test_every_refusal_has_its_word() -> None:
    kinds = [kind for kind in catalogue() if issubclass(kind, errors.SweepRefusal)]
    assert len(kinds) == 8
    for kind in kinds:
        assert kind().body() == {"error": kind.code, "word": kind.word, "reason": ""}


@pytest.mark.parametrize(("writer", "ttl"), [("\ud800", 5), ("w", 10**30), ("é", 60)])
async def test_a_lease_of_any_kind_is_shown_to_who_is_locked_out(writer: str, ttl: int) -> None:
    async with SweepPlane() as plane:
        assert (await plane.verb("lease-acquire", {"writer": writer, "ttl_minutes": ttl}))[0] == 200
        status, answer = await plane.verb("lease-acquire", {"writer": "other"})
        assert (status, answer["error"], answer["word"]) == (423, "sweep_locked", "LOCKED")
        assert (answer["lease"]["writer"], answer["lease"]["ttl_minutes"]) == (writer, ttl)


async def test_half_a_character_where_none_is_wanted_is_misuse() -> None:
    async with SweepPlane() as plane:
        status, answer = await plane.verb("lease-acquire", {"writer": "w", "ttl_minutes": "\ud800"})
        assert (status, answer["error"]) == (400, "sweep_usage")
        assert "surrogate" in answer["reason"]

"""The session routes: leases with fencing, objects, the pointer; every route held against the OpenAPI document."""

import base64
import json
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from moorage.protocols.sessions import commits, shared
from moorage.protocols.sessions.commits import CommittedArtifact, Place, Source, sha256
from moorage.protocols.sessions.identities import shared_prefix
from moorage.protocols.sessions.strict_json import document
from moorage.protocols.wire import catalogue
from moorage.worker.routes import sessions as routes

from ..support.openapi import Contract
from ..support.plane import OPERATOR_SECRET
from ..support.sessions_plane import SessionsPlane

PLACE = Place(campaign="north", session_id="s01", prefix=shared_prefix("north", "s01"))


class Driven:
    """Calls verbs and holds bodies and answers against the document."""

    def __init__(self, plane: SessionsPlane) -> None:
        self._plane = plane
        self._contract = Contract()
        self.answered: set[tuple[str, int]] = set()

    async def __call__(self, verb: str, body: Any, status: int = 200) -> Any:
        path = f"{shared.TEMPLATE}{verb}"
        if status != 400:
            self._contract.check_body(path, body)
        found, answer = await self._plane.verb(verb, body)
        assert found == status, (verb, found, answer)
        self._contract.check_answer(path, status, answer)
        self.answered.add((verb, status))
        return answer


def made(data: bytes, path: str = "artifacts/a.txt", run_id: str = "r1") -> dict[str, Any]:
    return {
        "run_id": run_id, "path": path, "sha256": sha256(data), "contentBase64": base64.b64encode(data).decode(),
    }  # fmt: skip


async def committed(call: Driven, run_id: str = "r1") -> str:
    """A run with one artifact and its commit; the text of the pointer that binds it."""
    stored = await call("object-create", made(b"one", run_id=run_id), 201)
    artifact = CommittedArtifact(
        source=Source(type="stage_output", id="a"),
        key=PLACE.artifact_key(run_id, "a.txt"),
        sha256=sha256(b"one"),
        size=3,
        generation=stored["generation"],
    )
    data = commits.encode(commits.build(PLACE, run_id, [artifact]))
    commit = await call("object-create", made(data, "commit.json", run_id), 201)
    return commits.encode(commits.point(PLACE, run_id, data, commit["generation"])).decode()


async def test_every_route() -> None:
    async with SessionsPlane() as plane:
        call = Driven(plane)
        pointer = await committed(call)
        lease = await call("lease-acquire", {"holder": "a"})
        assert lease == {"holder": "a", "token": 1, "expires_at": plane.clock.now() + 120_000}
        await call("lease-acquire", {"holder": "b"}, 423)
        held = {"holder": "a", "token": 1}
        assert (await call("lease-renew", {**held, "ttl_seconds": 600}))["expires_at"] == plane.clock.now() + 600_000
        moved = await call("pointer-move", {**held, "document": pointer, "expect": None})
        await call("pointer-move", {**held, "document": pointer, "expect": None}, 412)
        stat = await call("object-stat", {"key": shared.POINTER})
        assert (stat["etag"], stat["generation"]) == (moved["etag"], moved["generation"])
        headers, data = await call("object-read", {"key": shared.POINTER})
        assert data.decode() == pointer
        assert headers["x-moorage-object-generation"] == moved["generation"]
        assert (await call("object-read", {"key": shared.POINTER, "offset": 5, "length": 3}))[1] == data[5:8]
        assert (await call("object-read", {"key": shared.POINTER, "offset": 9999}))[1] == b""
        for verb in ("object-stat", "object-read"):
            await call(verb, {"key": "runs/r1/none"}, 404)
        await call("object-create", made(b"two"), 409)
        await call("object-create", made(b"x" * (shared.PART_BYTES * 4 + 1), "artifacts/large"), 413)
        place = {"run_id": "r1", "path": "artifacts/big"}
        whole = {"sha256": sha256(b"big"), "size": 3}
        begun = await call("upload-start", {**place, **whole}, 201)
        part = {**place, "upload_id": begun["upload_id"], "number": 1}
        receipt = await call("upload-part", {**part, "contentBase64": base64.b64encode(b"big").decode()})
        complete = {**place, **whole, "upload_id": begun["upload_id"], "parts": [receipt]}
        await call("upload-complete", complete, 201)
        # repeated, as after a lost answer
        await call("upload-complete", complete, 409)
        await call("upload-start", {**place, **whole}, 409)
        large = base64.b64encode(b"x" * (shared.PART_BYTES + 1)).decode()
        await call("upload-part", {**part, "contentBase64": large}, 413)
        await call("lease-release", held)
        await call("lease-renew", held, 409)
        await call("lease-release", held, 409)
        await call("pointer-move", {**held, "document": pointer, "expect": moved["etag"]}, 409)
        assert {verb for verb, status in call.answered if status < 300} == set(shared.VERBS)


async def test_every_refusal_has_a_class_and_every_documented_status_is_possible() -> None:
    statuses = {kind.status for kind in catalogue() if kind.code.startswith("session_")}
    assert {code for _, _, refusals in routes._ANSWERS.values() for code in refusals} <= statuses


async def test_a_holder_that_slept_past_its_expiry_is_fenced_off() -> None:
    """A takes the lease and is stopped; it runs out, B publishes; A goes on and is refused, by its token."""
    async with SessionsPlane() as plane:
        call = Driven(plane)
        a, b = await committed(call, "rA"), await committed(call, "rB")
        first = await call("lease-acquire", {"holder": "a", "ttl_seconds": 60})
        await plane.clock.advance(60_000)
        # nobody took it yet, and it is over all the same
        stale = {"holder": "a", "token": first["token"], "document": a, "expect": None}
        assert "ran out" in (await call("pointer-move", stale, 409))["reason"]
        second = await call("lease-acquire", {"holder": "b", "ttl_seconds": 60})
        assert second["token"] == first["token"] + 1
        moved = await call("pointer-move", {"holder": "b", "token": second["token"], "document": b, "expect": None})
        # also when it names the present etag, or the present holder
        for change in ({"expect": moved["etag"]}, {"holder": "b", "expect": moved["etag"]}):
            assert "is over" in (await call("pointer-move", {**stale, **change}, 409))["reason"]
        await call("lease-renew", {"holder": "a", "token": first["token"]}, 409)
        await call("lease-release", {"holder": "a", "token": first["token"]}, 409)
        _, data = await call("object-read", {"key": shared.POINTER})
        assert data.decode() == b
        # a lease survives a restart of its object
        await plane.restart()
        await call("lease-acquire", {"holder": "c"}, 423)


async def test_one_holder_twice_is_two_tokens() -> None:
    async with SessionsPlane() as plane:
        call = Driven(plane)
        pointer = await committed(call)
        await call("lease-acquire", {"holder": "a"})
        assert (await call("lease-acquire", {"holder": "a"}))["token"] == 2
        await call("pointer-move", {"holder": "a", "token": 1, "document": pointer, "expect": None}, 409)
        # another session is another object
        assert (await plane.verb("lease-acquire", {"holder": "b"}, session="north/s02"))[0] == 200


@pytest.mark.parametrize(
    ("change", "kind"),
    [
        (lambda value: value.update(extra=1), "malformed"),
        (lambda value: value.update(session_id="s02"), "identity-mismatch"),
        (lambda value: value.update(schema_version="v2"), "unsupported-version"),
        (lambda value: value["commit"].update(generation="other"), "binding-mismatch"),
        (lambda value: value["commit"].update(sha256="0" * 64), "binding-mismatch"),
    ],
)
async def test_the_pointer_moves_to_a_whole_commit_only(change: Any, kind: str) -> None:
    async with SessionsPlane() as plane:
        call = Driven(plane)
        value = json.loads(await committed(call))
        change(value)
        await call("lease-acquire", {"holder": "a"})
        text = document(value).decode()
        body = {"holder": "a", "token": 1, "document": text, "expect": None}
        assert (await call("pointer-move", body, 422))["kind"] == kind
        await call("object-stat", {"key": shared.POINTER}, 404)


async def test_a_commit_with_a_missing_artifact_is_refused() -> None:
    async with SessionsPlane() as plane:
        call = Driven(plane)
        pointer = await committed(call)
        await plane.bucket.delete(PLACE.artifact_key("r1", "a.txt"))
        await call("lease-acquire", {"holder": "a"})
        body = {"holder": "a", "token": 1, "document": pointer, "expect": None}
        assert (await call("pointer-move", body, 422))["kind"] == "missing-object"


UNKNOWN = {
    "run_id": "r1", "path": "artifacts/b", "upload_id": "0" * 32 + ".none", "sha256": "0" * 64, "size": 1,
    "parts": [{"number": 1, "etag": "e"}],
}  # fmt: skip
PART = {"run_id": "r", "path": "artifacts/a", "number": 1, "contentBase64": "YQ=="}


@pytest.mark.parametrize(
    ("verb", "body", "reason"),
    [
        ("lease-acquire", {}, "holder"),
        ("lease-acquire", {"holder": ""}, "holder"),
        ("lease-acquire", {"holder": "a", "ttl_seconds": 0}, "ttl_seconds"),
        ("lease-acquire", {"holder": "a", "extra": 1}, "extra"),
        ("lease-renew", {"holder": "a", "token": "1"}, "token"),
        ("object-stat", {"key": "../x"}, "key"),
        ("object-stat", {"key": "current/other"}, "key"),
        ("object-stat", {"key": "runs/r1"}, "key"),
        ("object-stat", {"key": "runs/../x/y"}, "key"),
        ("object-read", {"key": shared.POINTER, "offset": -1}, "offset"),
        ("object-create", {**made(b"x"), "path": "other"}, "path"),
        ("object-create", {**made(b"x"), "path": "artifacts/../commit.json"}, "path"),
        ("object-create", {**made(b"x"), "run_id": "a/b"}, "run_id"),
        ("object-create", {**made(b"x"), "sha256": "0" * 64}, "sha256"),
        ("object-create", {**made(b"x"), "contentBase64": "!"}, "base64"),
        ("upload-part", {**PART, "upload_id": "x"}, "upload_id"),
        ("upload-part", {**PART, "upload_id": "0" * 32 + ".none"}, "upload_id"),
        ("pointer-move", {"holder": "a", "token": 1, "document": "{}"}, "expect"),
        ("object-stat", {"key": f"runs/r/{'é' * 600}"}, "1024 bytes"),
        ("object-create", {**made(b"x"), "path": f"artifacts/{'é' * 600}"}, "1024 bytes"),
        ("upload-complete", UNKNOWN, "no such upload"),
        ("upload-complete", {**UNKNOWN, "parts": [{"number": 1, "etag": "e"}] * 2}, "named twice"),
        ("lease-acquire", b'{"holder": "a", "ttl_seconds": "\\ud800"}', "surrogate"),
        ("lease-acquire", b'{"holder": "\\udc00"}', "surrogate"),
        ("pointer-move", b"[]", "object"),
        ("pointer-move", b'{"a": 1, "a": 1}', "twice"),
    ],
)  # fmt: skip
async def test_what_is_wrong_with_a_body_is_named(verb: str, body: Any, reason: str) -> None:
    async with SessionsPlane() as plane:
        answer = await Driven(plane)(verb, body, 400)
        assert answer["error"] == "session_usage"
        assert reason in answer["reason"]


async def test_an_upload_that_is_not_what_was_said_leaves_nothing() -> None:
    async with SessionsPlane() as plane:
        call = Driven(plane)
        for changed in ({"sha256": "0" * 64}, {"size": 4}):
            place = {"run_id": "r1", "path": "artifacts/big"}
            whole = {"sha256": sha256(b"big"), "size": 3, **changed}
            begun = await call("upload-start", {**place, **whole}, 201)
            part = {**place, "upload_id": begun["upload_id"], "number": 1, "contentBase64": "Ymln"}
            receipt = await call("upload-part", part)
            complete = {**place, **whole, "upload_id": begun["upload_id"], "parts": [receipt]}
            await call("upload-complete", complete, 400)
        listed = await plane.bucket.list({"prefix": PLACE.prefix})
        assert [found.key for found in listed.objects] == []


async def test_who_may_ask() -> None:
    async with SessionsPlane() as plane:
        for secret in (None, OPERATOR_SECRET, "wrong"):
            for verb in shared.VERBS:
                assert (await plane.verb(verb, {}, secret=secret))[0] == 401
        for session in ("north/.s", "north/con", "-x/s01", "north/s01%2f"):
            assert (await plane.verb("lease-acquire", {"holder": "a"}, session=session))[0] == 404
        assert (await plane.request("GET", "/internal/sessions/north/s01/object-stat")).status == 404
        del plane.env.SESSION_COMMITS
        assert (await plane.verb("lease-acquire", {"holder": "a"}))[1]["error"] == "session_commits_not_configured"
        del plane.env.STATE_SNAPSHOTS
        assert (await plane.verb("object-stat", {"key": shared.POINTER}))[0] == 503


class LeaseMachine(RuleBasedStateMachine):
    """At any time at most one pair of holder and token passes, and only while the lease lives."""

    def __init__(self) -> None:
        super().__init__()
        self.lease = shared.Lease()
        self.now = 0
        self.given: list[tuple[str, int]] = []

    @rule(holder=st.sampled_from("abc"), ttl=st.integers(1, 30))
    def acquire(self, holder: str, ttl: int) -> None:
        found = self.lease.acquired(holder, ttl, self.now)
        if found is None:
            assert self.lease.live(self.now)
            assert self.lease.holder != holder
            return
        assert found.token == self.lease.token + 1
        self.lease = found
        self.given.append((holder, found.token))

    @rule(seconds=st.integers(0, 20))
    def time_passes(self, seconds: int) -> None:
        self.now += seconds * 1000

    @rule()
    def release(self) -> None:
        self.lease = shared.Lease(self.lease.token, None, 0)

    @invariant()
    def one_passes_at_most(self) -> None:
        passing = [pair for pair in self.given if self.lease.refusal(*pair, self.now) is None]
        assert passing == ([self.given[-1]] if self.given and self.lease.live(self.now) else [])


TestLease = LeaseMachine.TestCase
TestLease.settings = settings(max_examples=40, deadline=None)

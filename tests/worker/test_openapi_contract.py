"""Every route of the OpenAPI document is driven with what it must refuse: no signature, the wrong key, no object as a
body, a name of another form. What each accepts is in the tests of its subject."""

import json
import re
from typing import Any

import pytest

from moorage.durable_objects.objects.ledger_index import LedgerIndex
from moorage.durable_objects.objects.sessions import SessionCommits
from moorage.durable_objects.objects.sweep_state import SweepState
from moorage.worker import openapi

from ..support.asgi import Response
from ..support.jobs_plane import JobsPlane
from ..support.openapi import Contract
from ..support.plane import OPERATOR_SECRET, SIGNATURE, WEBHOOK_SECRET, sign

NAMES = {"queue": "q", "sweep": "s", "campaign": "north", "session": "s01"}
SECRETS = {"webhook": WEBHOOK_SECRET, "operator": OPERATOR_SECRET}
ROUTES = [
    (method, path, operation)
    for path, item in openapi.document()["paths"].items()
    for method, operation in item.items()
]
POSTS = [(path, operation) for method, path, operation in ROUTES if method == "post"]


class EverythingPlane(JobsPlane):
    """A state plane with every binding that a described route needs."""

    async def __aenter__(self) -> "EverythingPlane":
        for name, cls in (
            ("SWEEP_STATE", SweepState),
            ("SESSION_COMMITS", SessionCommits),
            ("LEDGER_INDEX", LedgerIndex),
        ):
            setattr(self.env, name, self.runtime.namespace(f"state-plane-{cls.__name__}", cls, self.env))
        await super().__aenter__()
        return self

    async def ask(self, method: str, path: str, body: bytes, secret: str | None) -> Response:
        headers = {} if secret is None else {SIGNATURE: sign(secret, body)}
        return await self.request(method.upper(), path, headers=headers, body=body)


def key_of(operation: Any) -> str | None:
    return next((name for entry in operation["security"] for name in entry), None)


def secret_of(operation: Any) -> str | None:
    key = key_of(operation)
    return None if key is None else SECRETS[key]


def test_every_parameter_has_a_name_here() -> None:
    described = {
        entry["name"]
        for _, _, operation in ROUTES
        for entry in operation.get("parameters", [])
        if entry["in"] == "path"
    }
    assert described <= set(NAMES)


def test_the_pattern_of_a_name_is_what_routes_take() -> None:
    for _, path, operation in ROUTES:
        for entry in operation.get("parameters", []):
            if entry["in"] == "path":
                pattern = entry["schema"]["pattern"]
                assert re.search(pattern, NAMES[entry["name"]]), path
                assert not any(re.search(pattern, name) for name in BAD_NAMES), path


async def test_only_the_right_key_opens_a_route() -> None:
    contract = Contract()
    async with EverythingPlane() as plane:
        for method, path, operation in ROUTES:
            key = key_of(operation)
            if key is None:
                continue
            for secret in (None, SECRETS["operator" if key == "webhook" else "webhook"]):
                answer = await plane.ask(method, path.format(**NAMES), b"{}" if method == "post" else b"", secret)
                assert (answer.status, json.loads(answer.body)["error"]) == (401, "invalid_signature"), path
                contract.check_answer(path, 401, json.loads(answer.body), method)


@pytest.mark.parametrize("body", [b"[]", b"5", b"null", b'"text"', b"{", b'{"a": 1', b"\xff", b"{}{}", b"[" * 5000])
async def test_a_body_that_is_no_object_is_refused_as_described(body: bytes) -> None:
    contract = Contract()
    async with EverythingPlane() as plane:
        for path, operation in POSTS:
            answer = await plane.ask("post", path.format(**NAMES), body, secret_of(operation))
            if body == b"\xff" and key_of(operation) is not None:
                assert answer.status == 401, path  # version 1 never verifies what is not UTF-8
                continue
            assert answer.status == 400, (path, answer.body)
            contract.check_answer(path, 400, json.loads(answer.body))


@pytest.mark.parametrize("value", [{"id": []}, {"verb": None, "extension": 5, "writer": {}, "holder": [], "key": 1}])
async def test_wrong_types_are_refused_or_ignored_as_described(value: Any) -> None:
    contract = Contract()
    async with EverythingPlane() as plane:
        for path, operation in POSTS:
            body = json.dumps(value).encode()
            answer = await plane.ask("post", path.format(**NAMES), body, secret_of(operation))
            assert answer.status < 500, (path, answer.body)
            contract.check_answer(path, answer.status, json.loads(answer.body))


BAD_NAMES = ["a b", "%2e%2e", "a%2Fb", "é", "x" * 300, "%00", "-" * 200 + "/"]


@pytest.mark.parametrize("name", BAD_NAMES)
async def test_names_of_another_form_are_no_routes(name: str) -> None:
    contract = Contract()
    async with EverythingPlane() as plane:
        for method, path, operation in ROUTES:
            if "{" not in path:
                continue
            given = path.format(**dict.fromkeys(NAMES, name))
            body = b"{}" if method == "post" else b""
            answer = await plane.ask(method, given, body, secret_of(operation))
            assert (answer.status, json.loads(answer.body)["error"]) == (404, "not_found"), (given, answer.body)
            contract.check_answer(path, 404, json.loads(answer.body), method)
        assert not any(
            namespace.live for key, namespace in plane.runtime.namespaces.items() if not key.endswith("EtagCache")
        )


async def test_a_missing_secret_or_binding_is_said_as_described() -> None:
    contract = Contract()
    async with JobsPlane({"EXACT_REVIEW_OPERATOR_SECRET": None}) as plane:
        del plane.env.JOB_QUEUE
        for method, path, operation in ROUTES:
            body = b"{}" if method == "post" else b""
            secret = secret_of(operation)
            headers = {} if secret is None else {SIGNATURE: sign(secret, body)}
            answer = await plane.request(method.upper(), path.format(**NAMES), headers=headers, body=body)
            if answer.status == 400 and "sessions" in path:
                continue  # what needs the bucket alone, which is there
            assert answer.status == 503, (path, answer.body)
            contract.check_answer(path, 503, json.loads(answer.body), method)


async def test_a_body_above_the_limit_is_refused_as_described() -> None:
    contract = Contract()
    async with EverythingPlane() as plane:
        for path, operation in POSTS:
            body = b" " * (65 * 1024 * 1024)
            secret = secret_of(operation)
            headers = {"content-length": str(len(body)), **({} if secret is None else {SIGNATURE: "sha256=0"})}
            answer = await plane.request("POST", path.format(**NAMES), headers=headers, body=body)
            assert answer.status == 413, (path, answer.body)
            contract.check_answer(path, 413, json.loads(answer.body))


async def test_other_methods_are_no_routes() -> None:
    async with EverythingPlane() as plane:
        for method, path, operation in ROUTES:
            other = "get" if method == "post" else "post"
            answer = await plane.ask(other, path.format(**NAMES), b"", secret_of(operation))
            assert answer.status == 404, path

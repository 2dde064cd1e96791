"""A signed write in system calls: the object's `-wal` is synced after its last write and before the answer."""

import hashlib
import hmac
import json
import shutil
from pathlib import Path

import httpx
import pytest

from tests.support.serving import ServedProcess

from .powercut import Call, calls, descriptor_path, strings

pytestmark = pytest.mark.skipif(shutil.which("strace") is None, reason="strace is not installed")

SECRET = "trace-secret"
TRACED = "openat,pwrite64,fdatasync,fsync,write,writev,sendto,sendmsg"


def put(client: httpx.Client, value: int, revision: int) -> httpx.Response:
    body = json.dumps({"next_cursor": value, "expected_revision": revision}).encode()
    mac = hmac.new(SECRET.encode(), body, hashlib.sha256).hexdigest()
    headers = {"x-clawsweeper-exact-review-signature": f"sha256={mac}"}
    return client.put("/internal/state/cursors/audit", content=body, headers=headers)


def sent(call: Call) -> bool:
    """Whether the call sends the head of a 202 answer."""
    if call.name not in {"write", "writev", "sendto", "sendmsg"}:
        return False
    return any(text.startswith(b"HTTP/1.1 202") for text in strings(call.arguments))


def test_the_sync_comes_between_the_write_and_the_answer(tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    server = ServedProcess(
        tmp_path,
        ["--log-level", "error"],
        environ={"CLAWSWEEPER_WEBHOOK_SECRET": SECRET, "EXACT_REVIEW_OPERATOR_SECRET": "operator"},
        prefix=["strace", "-f", "-xx", "-y", "-s", "100000", "-e", f"trace={TRACED}", "-o", str(trace)],
    )
    try:
        server.wait(60)
    except AssertionError as error:
        if "ptrace" in str(error):
            pytest.skip("this machine does not let processes be traced")
        raise
    writes = 20
    with httpx.Client(base_url=server.url, timeout=30) as client:
        for revision in range(writes):
            assert put(client, revision * 3 + 1, revision).status_code == 202
    server.stop()
    written: dict[str, int] = {}  # -wal file: index of its last write
    synced: dict[str, int] = {}
    answers = 0
    for index, call in enumerate(calls(trace)):
        path = descriptor_path(call.arguments) or ""
        if call.name == "pwrite64" and path.endswith("-wal"):
            written[path] = index
        elif call.name in {"fdatasync", "fsync"}:
            synced[path] = index
        elif sent(call):
            answers += 1
            objects = {name: last for name, last in written.items() if _is_object(name)}
            assert objects, "an answer left before anything was written"
            for name, last in objects.items():
                assert synced.get(name, -1) > last, f"answer {answers} left before the sync of {name}"
    assert answers == writes


def _is_object(path: str) -> bool:
    # No alarm was set: what is in the index's WAL is its empty table, and nothing depends on it.
    return "ExactReviewQueue" in path and not path.endswith("alarms.sqlite-wal")

"""A bucket call of an object leaves only when what the object wrote before is durable (semantics 5.5)."""

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from moorage.durable_objects.runtime import DurableObject, Runtime, RuntimeSettings
from moorage.durable_objects.runtime.outgoing import gate_open
from moorage.durable_objects.runtime.testing import ControlledLog, settle
from moorage.r2 import Bucket
from moorage.r2.backends.memory import MemoryBackend
from moorage.wrangler_compat.host.bindings import Buckets, build_env
from moorage.wrangler_compat.host.values import PLAIN_VALUES


class Writer(DurableObject):
    """Writes to its storage, then calls the bucket."""

    async def act(self, method: str, *arguments: Any) -> str:
        await self.ctx.storage.put("mark", 1)
        upload = self.env.resumeMultipartUpload("k", "u")
        target = upload if hasattr(upload, method) else self.env
        try:
            await getattr(target, method)(*arguments)
        except Exception as error:
            return type(error).__name__
        return "called"


class Noting:
    """A store that notes which calls arrive."""

    def __init__(self) -> None:
        self.store = MemoryBackend()
        self.arrived: list[str] = []

    def __getattr__(self, name: str) -> Any:
        self.arrived.append(name)
        return getattr(self.store, name)


CALLS = [
    ("head", "k"),
    ("get", "k"),
    ("put", "k", "x"),
    ("delete", "k"),
    ("list",),
    ("createMultipartUpload", "k"),
    ("uploadPart", 1, "x"),
    ("complete", [{"partNumber": 1, "etag": "e"}]),
    ("abort",),
]


@pytest.mark.parametrize("call", CALLS, ids=lambda call: call[0])
async def test_no_call_leaves_before_the_sync(tmp_path: Path, call: tuple[Any, ...]) -> None:
    log = ControlledLog()
    backend = Noting()
    runtime = Runtime(tmp_path, settings=RuntimeSettings(), log=log)
    namespace = runtime.namespace("w-Writer", Writer, env=Bucket(cast(Any, backend), before=gate_open))
    await runtime.start()
    try:
        log.hold()
        acting = asyncio.ensure_future(namespace.getByName("one").act(*call))
        for _ in range(20):
            await settle()
        assert backend.arrived == []
        log.release()
        await acting
        assert len(backend.arrived) == 1

        backend.arrived.clear()
        log.fail(OSError("the disk is gone"))
        with pytest.raises(Exception, match=r"."):
            await namespace.getByName("two").act(*call)
        assert backend.arrived == []
    finally:
        await runtime.close()


@pytest.mark.parametrize("flags", [[], [PLAIN_VALUES]], ids=["platform values", "plain values"])
async def test_the_host_binds_buckets_behind_the_gate(tmp_path: Path, flags: list[str]) -> None:
    config = SimpleNamespace(
        name="w",
        compatibility_flags=flags,
        durable_objects=[],
        r2_buckets=[SimpleNamespace(storage_name="b", binding="FILES")],
    )
    buckets = Buckets("memory", tmp_path, {})
    env = await build_env(cast(Any, config), {}, {}, buckets, {}, {})
    assert env.FILES._before is gate_open
    await buckets.close()

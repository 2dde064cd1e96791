"""The sweep object on the runtime: all or nothing, what outlives it, and its cost among many items."""

import json
from pathlib import Path
from typing import Any

from moorage.durable_objects.objects.sweep_state import SweepState, instant_of
from moorage.durable_objects.runtime import Runtime
from moorage.durable_objects.runtime.testing import ManualClock, memory_runtime
from moorage.protocols.sweep import emit

NOW_MS = 1_782_993_600_000
UPSERT = {"source": "s", "id": "1", "item": {"status": "ingested"}, "writer": "w"}


async def ask(stub: Any, verb: str, body: Any = None) -> tuple[int, Any]:
    answer = await stub.call(verb, "" if body is None else json.dumps(body))
    value = answer["value"]
    return answer["status"], json.loads(value) if isinstance(value, str) else value


def test_instants_are_those_of_the_file_engine() -> None:
    assert instant_of(NOW_MS) == "2026-07-02T12:00:00+00:00"
    assert instant_of(NOW_MS + 1) == "2026-07-02T12:00:00.001000+00:00"
    assert instant_of(0) == "1970-01-01T00:00:00+00:00"


async def test_a_batch_is_written_whole_or_not_at_all() -> None:
    clock = ManualClock()
    runtime = memory_runtime(clock=clock)
    namespace = runtime.namespace("plane-SweepState", SweepState)
    await runtime.start()
    stub = namespace.getByName("a")
    _, taken = await ask(stub, "lease-acquire", {"writer": "w"})
    before = await ask(stub, "export")
    await clock.advance(1000)
    rows = [{"source": "s", "id": str(number), "item": {}} for number in range(10)]
    body = {"writer": "w", "token": taken["token"], "items": [*rows, {"source": "s", "id": "x", "item": 1}]}
    status, answer = await ask(stub, "upsert-items", body)
    assert (status, answer["word"]) == (422, "ERROR")
    # neither the items before the wrong one nor the stamp
    assert await ask(stub, "export") == before
    await runtime.close()


async def test_everything_outlives_a_restart(tmp_path: Path) -> None:
    async def started() -> tuple[Runtime, Any]:
        runtime = Runtime(tmp_path)
        namespace = runtime.namespace("plane-SweepState", SweepState)
        await runtime.start()
        return runtime, namespace.getByName("a")

    runtime, stub = await started()
    _, taken = await ask(stub, "lease-acquire", {"writer": "w", "ttl_minutes": 5})
    assert taken["token"] == 1
    assert (await ask(stub, "upsert-item", {**UPSERT, "token": 1}))[0] == 200
    exported = await ask(stub, "export")
    await runtime.close()

    runtime, stub = await started()
    assert await ask(stub, "export") == exported
    # the fence too: without the token, and with another, the lease does not open
    assert (await ask(stub, "upsert-item", UPSERT))[0] == 409
    assert (await ask(stub, "upsert-item", {**UPSERT, "token": 2}))[0] == 409
    assert (await ask(stub, "lease-release", {"writer": "w", "token": 1}))[0] == 200
    assert (await ask(stub, "lease-acquire", {"writer": "w"}))[1]["token"] == 2
    await runtime.close()


async def test_an_upsert_touches_the_rows_of_its_item_alone() -> None:
    """Its cost does not grow with the number of items: no statement of it reads more than a row."""
    runtime = memory_runtime()
    namespace = runtime.namespace("plane-SweepState", SweepState)
    await runtime.start()
    stub = namespace.getByName("a")
    document = {"schema_version": 1, "sources": {}, "items": {f"s:{number}": {"n": number} for number in range(3000)}}
    assert (await ask(stub, "import", {"document": emit(document)}))[0] == 200
    await ask(stub, "lease-acquire", {"writer": "w", "fenced": False})
    instance = next(iter(namespace.live.values()))
    database = instance.database.connection
    statements: list[str] = []
    database.set_trace_callback(statements.append)
    assert (await ask(stub, "upsert-item", UPSERT))[0] == 200
    database.set_trace_callback(None)
    selects = [text for text in statements if text.lstrip().upper().startswith("SELECT") and "sweep_" in text]
    assert selects
    assert all("WHERE name =" in text or "sweep_fence" in text for text in selects)
    await runtime.close()

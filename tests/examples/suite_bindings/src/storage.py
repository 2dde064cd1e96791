"""`ctx.storage`: keys, lists, transactions, alarms, synchronous keys, bookmarks. Steps run inside an object."""

import datetime
import itertools
import time

from pyodide.ffi import to_js
from refused import refused, refused_later

_numbers = itertools.count()


def inside(step):
    """A check that runs `step(probe)` in a fresh object."""

    async def check(env):
        await env.PROBES.getByName(f"storage-{next(_numbers)}").run("storage", step)

    return check


async def _put_and_get(probe):
    storage = probe.ctx.storage
    assert await storage.get("missing") is None
    for value in ("text", 1, 2.5, True, None, [1, [2]], {"a": {"b": 1}}, datetime.datetime(2026, 1, 1)):
        await storage.put("key", value)
        assert await storage.get("key") == value
    await storage.put("bytes", b"\x00\xff")
    assert bytes(await storage.get("bytes")) == b"\x00\xff"
    assert await storage.get("key", None) == datetime.datetime(2026, 1, 1)


async def _many(probe):
    storage = probe.ctx.storage
    await storage.put({"a": 1, "b": 2, "c": 3})
    got = await storage.get(["c", "a", "missing"])
    assert dict(got) == {"a": 1, "c": 3}
    assert len(got) == 2
    assert await storage.delete(["a", "missing", "b"]) == 2
    assert await storage.delete("c") is True
    assert await storage.delete("c") is False


async def _older_generation(probe):
    storage = probe.ctx.storage
    await storage.put("key", to_js({"n": [1]}))
    value = await storage.get("key")
    assert value.to_py() == {"n": [1]}
    assert value.n[0] == 1
    await storage.put(to_js({"x": 1, "y": 2}))
    assert await storage.get("y") == 2


async def _values_are_copies(probe):
    storage = probe.ctx.storage
    value = {"list": [1]}
    await storage.put("key", value)
    value["list"].append(2)
    assert await storage.get("key") == {"list": [1]}
    got = await storage.get("key")
    got["list"].append(3)
    assert await storage.get("key") == {"list": [1]}
    await refused_later(Exception, storage.put("function", lambda: None))


async def _list(probe):
    storage = probe.ctx.storage
    await storage.deleteAll()
    await storage.put({f"k{number}": number for number in range(6)} | {"other": 9})
    listed = await storage.list()
    assert list(listed) == ["k0", "k1", "k2", "k3", "k4", "k5", "other"]
    assert len(listed) == 7
    assert list(await storage.list({"prefix": "k", "limit": 2})) == ["k0", "k1"]
    assert list(await storage.list({"start": "k2", "end": "k4"})) == ["k2", "k3"]
    assert list(await storage.list({"startAfter": "k3", "prefix": "k"})) == ["k4", "k5"]
    assert list(await storage.list({"prefix": "k", "reverse": True, "limit": 1})) == ["k5"]
    assert list(await storage.list(prefix="k", limit=1)) == ["k0"]
    assert [(key, value) for key, value in (await storage.list({"prefix": "o"})).items()] == [("other", 9)]
    await refused_later(TypeError, storage.list({"limit": 0}))


async def _delete_all(probe):
    storage = probe.ctx.storage
    await storage.put("a", 1)
    storage.sql.exec("CREATE TABLE t(x)")
    await storage.setAlarm(4_000_000_000_000)
    await storage.deleteAll()
    assert len(await storage.list()) == 0
    assert storage.sql.exec("SELECT name FROM sqlite_master WHERE name='t'").toArray() == []
    assert await storage.getAlarm() is None


async def _transaction(probe):
    storage = probe.ctx.storage

    async def keep(txn):
        await txn.put("a", 1)
        assert await txn.get("a") == 1
        return "kept"

    assert await storage.transaction(keep) == "kept"

    async def lose(txn):
        await txn.put("a", 2)
        raise ValueError("undone")

    await refused_later(ValueError, storage.transaction(lose), "undone")

    async def roll_back(txn):
        await txn.put("a", 3)
        txn.rollback()

    await storage.transaction(roll_back)
    assert await storage.get("a") == 1


async def _transaction_sync(probe):
    storage = probe.ctx.storage
    storage.sql.exec("CREATE TABLE t(x)")

    def keep():
        storage.sql.exec("INSERT INTO t VALUES(1)")
        return storage.sql.exec("SELECT count(*) AS n FROM t").one()["n"]

    def lose():
        storage.sql.exec("INSERT INTO t VALUES(2)")
        raise LookupError("undone")

    assert storage.transactionSync(keep) == 1
    refused(LookupError, lambda: storage.transactionSync(lose))
    assert storage.sql.exec("SELECT count(*) AS n FROM t").one().n == 1


async def _sync(probe):
    await probe.ctx.storage.put("a", 1)
    assert await probe.ctx.storage.sync() is None


async def _alarm(probe):
    storage = probe.ctx.storage
    assert await storage.getAlarm() is None
    moment = int(time.time() * 1000) + 3_600_000
    await storage.setAlarm(moment)
    assert await storage.getAlarm() == moment
    await storage.setAlarm(datetime.datetime.fromtimestamp(moment // 1000 + 60, datetime.UTC))
    assert await storage.getAlarm() == (moment // 1000 + 60) * 1000
    await storage.deleteAlarm()
    assert await storage.getAlarm() is None
    await refused_later(TypeError, storage.setAlarm(-1))


async def check_an_alarm_fires(env):
    import asyncio

    stub = env.PROBES.getByName("rings")
    await stub.run("storage", "_ring")
    for _ in range(200):
        if (found := await stub.run("storage", "_rang")) is not None:
            assert found == {"retry": False, "count": 0}
            return
        await asyncio.sleep(0.01)
    raise AssertionError("the alarm did not fire")


async def _ring(probe):
    await probe.ctx.storage.setAlarm(int(time.time() * 1000) + 20)


async def _rang(probe):
    return await probe.ctx.storage.get("alarm")


async def check_an_alarm_without_a_handler(env):
    """Taken, as the platform takes it of a Python class; when it is due, its failure is logged."""
    assert await env.OTHERS.getByName("no alarm").set_alarm() == 2_000_000_000_000


async def _synchronous_keys(probe):
    kv = probe.ctx.storage.kv
    assert kv.get("k") is None
    kv.put("k", {"n": 1})
    kv.put("l", [1])
    assert kv.get("k") == {"n": 1}
    assert await probe.ctx.storage.get("k") == {"n": 1}
    assert [(key, value) for key, value in kv.list({"prefix": "k"})] == [("k", {"n": 1})]
    assert [key for key, _ in kv.list() if key in "kl"] == ["k", "l"]
    assert kv.delete("k") is True
    assert kv.delete("k") is False


async def _bookmarks(probe):
    storage = probe.ctx.storage
    await storage.put("a", 1)
    first = await storage.getCurrentBookmark()
    await storage.put("a", 2)
    second = await storage.getCurrentBookmark()
    assert first < second
    undo = await storage.onNextSessionRestoreBookmark(first)
    assert isinstance(undo, str)


async def _wrong_arguments(probe):
    storage = probe.ctx.storage
    for awaitable in (storage.get(), storage.put("only a key"), storage.delete()):
        await refused_later(TypeError, awaitable)


check_put_and_get = inside("_put_and_get")
check_many_keys = inside("_many")
check_to_js_and_to_py = inside("_older_generation")
check_values_are_copies = inside("_values_are_copies")
check_list = inside("_list")
check_delete_all = inside("_delete_all")
check_transaction = inside("_transaction")
check_transaction_sync = inside("_transaction_sync")
check_sync = inside("_sync")
check_alarm_times = inside("_alarm")
check_synchronous_keys = inside("_synchronous_keys")
check_bookmarks = inside("_bookmarks")
check_wrong_arguments = inside("_wrong_arguments")

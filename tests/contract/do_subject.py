"""The interpreter of the programs that the Durable Object vectors send to their objects."""

import asyncio
import inspect
import json
import re
from collections.abc import Callable
from typing import Any

from moorage.durable_objects.runtime import RpcTarget
from moorage.durable_objects.runtime.outgoing import outgoing

from .do_values import ERRORS, JavaScriptOnly, MyError, decode, drain, flags, fold


class Shared:
    """What outlives instances: the logs, remembered times, and programs for later constructors and alarms."""

    def __init__(self, clock: Any, case: str) -> None:
        self.clock = clock
        self.case = case
        self.logs: dict[str, list[tuple[int, str]]] = {}
        self.instances: dict[str, int] = {}
        self.alarms: dict[str, list[Any]] = {}
        self.alarm_runs: dict[str, int] = {}
        self.constructors: dict[str, list[Any]] = {}
        self.variables: dict[str, Any] = {}
        self.namespace: Any = None
        self.stubs: dict[str, Any] = {}

    def stub(self, name: str, *, fresh: bool = False) -> Any:
        """One stub per name is kept for the whole case."""
        if fresh or name not in self.stubs:
            self.stubs[name] = self.namespace.getByName(f"{self.case}/{name}")
        return self.stubs[name]

    def log(self, key: str, text: str) -> None:
        self.logs.setdefault(key, []).append((self.clock.now(), text))


class Nested(RpcTarget):
    """What `nested()` returns: adds up."""

    def __init__(self) -> None:
        self._total = 0

    def add(self, number: int) -> int:
        self._total += number
        return self._total

    @property
    def total(self) -> int:
        return self._total


class SubjectMixin:
    """The interpreter. `env` is the `Shared` of the case."""

    ctx: Any
    env: Shared

    def _begin(self) -> None:
        self._key = str(self.ctx.id)
        self._memory: dict[str, Any] = {}
        self._held: dict[str, Any] = {}
        self._cursors: dict[str, Any] = {}
        self.visible = "own property"
        self.vars = {"x": 1}
        self.replies_to_close = False
        shared = self.env
        shared.instances[self._key] = shared.instances.get(self._key, 0) + 1
        shared.log(self._key, "constructor")
        program = shared.constructors.get(self._key)
        if program is not None:
            for operation in program:
                self._construct(operation)

    def _construct(self, operation: dict[str, Any]) -> None:
        # Constructors are synchronous here: an operation acts when it is called; blocks and background tasks later.
        if operation["op"] == "throw":
            raise ERRORS.get(operation.get("name", "Error"), Exception)(operation["args"][0])
        if operation["op"] == "background":
            self._background(operation)
        elif operation["op"] == "blockConcurrencyWhile" or operation.get("block"):
            self.ctx.blockConcurrencyWhile(lambda: self._program(operation["run"]))
        else:
            coroutine = self._run_one(operation, None)
            try:
                coroutine.send(None)
            except StopIteration:
                return
            raise AssertionError(f"the constructor's {operation['op']} waits")

    def _background(self, operation: dict[str, Any]) -> None:
        task = asyncio.ensure_future(self._program(operation["run"]))
        task.add_done_callback(lambda done: done.cancelled() or done.exception())

    async def run(self, text: str) -> Any:
        """Runs a program and returns its outcomes as JSON text can not: as Python values."""
        return await self._program(json.loads(text) if isinstance(text, str) else text)

    async def _program(self, program: list[Any], txn: Any = None) -> list[Any]:
        results = []
        for operation in program:
            try:
                results.append(await self._outcome(operation, txn))
            except JavaScriptOnly:
                raise
            except Exception as error:
                if operation.get("fatal"):
                    raise
                results.append({"err": flags(error)})
        return results

    async def _outcome(self, operation: dict[str, Any], txn: Any) -> Any:
        value = await self._run_one(operation, txn)
        if isinstance(value, Whole):
            return value.outcome
        return {"ok": self._shown(value, operation)}

    def _shown(self, value: Any, operation: dict[str, Any]) -> Any:
        if "as" in operation and operation["op"] == "now":
            self.env.variables[operation["as"]] = value
            return None
        if "near" in operation:
            base = self.env.variables.get(operation["near"])
            if base is not None and value is not None and abs(value - base) <= operation.get("tol", 0):
                return {"$": "near", "var": operation["near"], "tol_ms": operation.get("tol", 0)}
        if "mask" in operation:
            matches = bool(re.search(operation["mask"], str(value)))
            return {"$": "masked", "type": _type_of(value), "matches": matches}
        return fold(value)

    def _decode(self, operation: dict[str, Any]) -> list[Any]:
        return [decode(argument, self.env.variables, self.env.clock) for argument in operation.get("args", [])]

    async def _run_one(self, operation: dict[str, Any], txn: Any) -> Any:
        name: str = operation["op"]
        args = self._decode(operation)
        target, _, method = name.partition(".")
        if target == "storage" and method == "transaction":
            return await self.ctx.storage.transaction(*args)
        if target in {"storage", "txn"} and method:
            holder = self.ctx.storage if target == "storage" else txn
            result = getattr(holder, method)(*args)
            if "hold" in operation:
                self._held[operation["hold"]] = result
                return None
            return await drain(result)
        if target == "kv" and method:
            result = getattr(self.ctx.storage.kv, method)(*args)
            return [list(pair) for pair in result] if method == "list" else result
        handler = getattr(self, f"_op_{name.replace('.', '_').replace('-', '_')}", None)
        if handler is None:
            raise JavaScriptOnly(f"no operation {name}")
        result = handler(operation, args, txn)
        return await result if inspect.isawaitable(result) else result

    # Operations.

    async def _op_await(self, operation: Any, args: list[Any], txn: Any) -> Any:
        return await self._held.pop(args[0])

    def _op_kv2(self, operation: Any, args: list[Any], txn: Any) -> Any:
        first = self.ctx.storage.kv.list()
        second = self.ctx.storage.kv.list()
        del second
        return next(first)

    def _op_sql(self, operation: Any, args: list[Any], txn: Any) -> Any:
        if any(type(value).__name__ == "BigInt" for value in args[1:]):
            raise JavaScriptOnly("BigInt")
        cursor = self.ctx.storage.sql.exec(*args)
        if "as" in operation:
            self._cursors[operation["as"]] = cursor
        return Whole({"reads": [_read(cursor, how) for how in operation.get("read", [])]})

    def _op_cursor(self, operation: Any, args: list[Any], txn: Any) -> Any:
        return Whole({"reads": [_read(self._cursors[operation["of"]], how) for how in operation.get("read", [])]})

    def _op_sql_databaseSize(self, operation: Any, args: list[Any], txn: Any) -> Any:
        return self.ctx.storage.sql.databaseSize

    async def _op_transaction(self, operation: Any, args: list[Any], txn: Any) -> Any:
        inner: list[Any] = []

        async def closure(inside: Any) -> Any:
            if operation.get("keep"):
                self._cursors[operation["keep"]] = inside
            inner.extend(await self._program(operation["run"], inside))
            return decode(operation.get("returns", {"$": "undefined"}), self.env.variables, self.env.clock)

        value = await self.ctx.storage.transaction(closure)
        return Whole({"inner": inner, "ok": fold(value)})

    async def _op_lateTxn(self, operation: Any, args: list[Any], txn: Any) -> Any:
        inside = self._cursors[operation["of"]]
        method, *rest = args
        return await drain(getattr(inside, method)(*rest))

    def _op_transactionSync(self, operation: Any, args: list[Any], txn: Any) -> Any:
        inner: list[Any] = []

        def closure() -> Any:
            coroutine = self._program(operation["run"], txn)
            try:
                coroutine.send(None)
            except StopIteration as stop:
                inner.extend(stop.value)
            else:
                coroutine.close()
                raise AssertionError("a synchronous transaction waits")
            return decode(operation.get("returns", {"$": "undefined"}), self.env.variables, self.env.clock)

        value = self.ctx.storage.transactionSync(closure)
        return Whole({"inner": inner, "ok": fold(value)})

    async def _op_sync_await_in_transactionSync(self, operation: Any, args: list[Any], txn: Any) -> Any:
        async def closure() -> None:
            self.ctx.storage.put("in-async", 1)
            raise Exception("async no")

        return self.ctx.storage.transactionSync(closure)

    async def _op_blockConcurrencyWhile(self, operation: Any, args: list[Any], txn: Any) -> Any:
        inner: list[Any] = []

        async def callback() -> Any:
            inner.extend(await self._program(operation["run"], txn))
            return decode(operation.get("returns", {"$": "undefined"}), self.env.variables, self.env.clock)

        value = await self.ctx.blockConcurrencyWhile(callback)
        return Whole({"inner": inner, "ok": fold(value)})

    async def _op_catchBlock(self, operation: Any, args: list[Any], txn: Any) -> Any:
        try:
            await self.ctx.blockConcurrencyWhile(lambda: self._program(operation["run"], txn))
        except Exception as error:
            return {"caught": str(error)}
        return None

    def _op_waitUntil(self, operation: Any, args: list[Any], txn: Any) -> None:
        self.ctx.waitUntil(self._program(operation["run"], txn))

    def _op_background(self, operation: Any, args: list[Any], txn: Any) -> None:
        self._background(operation)

    async def _op_all(self, operation: Any, args: list[Any], txn: Any) -> Any:
        inner = await asyncio.gather(*(self._program(program, txn) for program in operation["runs"]))
        return Whole({"inner": list(inner)})

    def _op_mem_get(self, operation: Any, args: list[Any], txn: Any) -> Any:
        return self._memory.get(args[0])

    def _op_mem_set(self, operation: Any, args: list[Any], txn: Any) -> None:
        self._memory[args[0]] = args[1]

    def _op_mem_add(self, operation: Any, args: list[Any], txn: Any) -> Any:
        self._memory[args[0]] = self._memory.get(args[0], 0) + args[1]
        return self._memory[args[0]]

    def _op_instance(self, operation: Any, args: list[Any], txn: Any) -> int:
        return self.env.instances[self._key]

    def _op_log(self, operation: Any, args: list[Any], txn: Any) -> None:
        self.env.log(self._key, args[0])

    async def _op_sleep(self, operation: Any, args: list[Any], txn: Any) -> None:
        await self.env.clock.sleep(args[0] / 1000)

    async def _op_tick(self, operation: Any, args: list[Any], txn: Any) -> None:
        await self.ctx.storage.get("tick")

    async def _op_external(self, operation: Any, args: list[Any], txn: Any) -> str:
        await outgoing(lambda: self.env.clock.sleep(args[0] / 1000))
        return f"waited {args[0]}"

    async def _op_increment(self, operation: Any, args: list[Any], txn: Any) -> int:
        count: int = (await self.ctx.storage.get(args[0])) or 0
        if "pause" in operation:
            await outgoing(lambda: self.env.clock.sleep(operation["pause"] / 1000))
        await self.ctx.storage.put(args[0], count + 1)
        return count + 1

    async def _op_putThenMutate(self, operation: Any, args: list[Any], txn: Any) -> None:
        value = {"list": [1]}
        written = self.ctx.storage.put(args[0], value)
        value["list"].append(2)
        await written

    def _op_throw(self, operation: Any, args: list[Any], txn: Any) -> None:
        raise ERRORS.get(operation.get("name", "Error"), Exception)(args[0])

    def _op_throwCustom(self, operation: Any, args: list[Any], txn: Any) -> None:
        raise MyError(*args)

    def _op_throwValue(self, operation: Any, args: list[Any], txn: Any) -> None:
        if not isinstance(args[0], str):
            raise JavaScriptOnly("a thrown value that is no error")
        raise Exception(args[0])

    def _op_abort(self, operation: Any, args: list[Any], txn: Any) -> None:
        self.ctx.abort(*args)

    def _op_onAlarm(self, operation: Any, args: list[Any], txn: Any) -> None:
        self.env.alarms[self._key] = operation["runs"]
        self.env.alarm_runs[self._key] = 0

    def _op_onConstruct(self, operation: Any, args: list[Any], txn: Any) -> None:
        self.env.constructors[self._key] = operation["run"]

    async def _op_callSelf(self, operation: Any, args: list[Any], txn: Any) -> Any:
        own = self.env.namespace.get(self.env.namespace.idFromString(str(self.ctx.id)))
        return await own.run(json.dumps(operation["run"]))

    async def _op_callOther(self, operation: Any, args: list[Any], txn: Any) -> Any:
        return await self.env.stub(operation["do"]).run(json.dumps(operation["run"]))

    def _op_now(self, operation: Any, args: list[Any], txn: Any) -> Any:
        return self.env.clock.now() if "as" in operation else None

    def _op_nowValue(self, operation: Any, args: list[Any], txn: Any) -> int:
        return int(self.env.clock.now())

    def _op_type(self, operation: Any, args: list[Any], txn: Any) -> str:
        found: Any = self
        path = args[0].split(".")
        for step in ["ctx", *path] if path[0] not in {"ctx", "env"} else path:
            try:
                found = getattr(found, step)
            except AttributeError:
                return "undefined"
        return "undefined" if found is None else _type_of(found)

    def _op_id_isHex(self, operation: Any, args: list[Any], txn: Any) -> bool:
        return bool(re.fullmatch("[0-9a-f]{64}", str(self.ctx.id)))

    def _op_id_name(self, operation: Any, args: list[Any], txn: Any) -> Any:
        return self.ctx.id.name

    def _op_id_jurisdiction(self, operation: Any, args: list[Any], txn: Any) -> Any:
        return getattr(self.ctx.id, "jurisdiction", None)

    async def _alarm(self, info: Any) -> None:
        shared = self.env
        alarm = await self.ctx.storage.getAlarm()
        shared.log(
            self._key,
            f"alarm retryCount={info.retryCount} isRetry={str(info.isRetry).lower()} "
            f"keys={','.join(sorted(info.to_py()))} getAlarm={'null' if alarm is None else alarm} "
            f"instance={shared.instances[self._key]}",
        )
        programs = shared.alarms.get(self._key, [[]])
        number = shared.alarm_runs.get(self._key, 0)
        shared.alarm_runs[self._key] = number + 1
        results = await self._program(programs[min(number, len(programs) - 1)])
        shared.log(self._key, "alarm results " + json.dumps(results, separators=(",", ":")))


class Whole:
    """An outcome that is no plain `{"ok": value}`."""

    def __init__(self, outcome: dict[str, Any]) -> None:
        self.outcome = outcome


def _type_of(value: Any) -> str:
    """What `typeof` says."""
    for kind, name in ((bool, "boolean"), (int | float, "number"), (str, "string")):
        if isinstance(value, kind):
            return name
    return "function" if callable(value) else "object"


def _type_name(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bytes):
        return "ArrayBuffer"
    return "string" if isinstance(value, str) else "number"


def _read(cursor: Any, how: str) -> dict[str, Any]:
    ways: dict[str, Callable[[], Any]] = {
        "toArray": cursor.toArray,
        "one": cursor.one,
        "next": cursor.next,
        "iterate": lambda: list(cursor),
        "raw": lambda: list(cursor.raw()),
        "rawNext": lambda: cursor.raw().next(),
        "rawToArray": lambda: cursor.raw().toArray(),
        "types": lambda: {name: _type_name(value) for name, value in next(iter(cursor)).items()},
    }
    try:
        return {"ok": fold(ways[how]() if how in ways else getattr(cursor, how))}
    except Exception as error:
        return {"err": flags(error)}


__all__ = ["Nested", "Shared", "SubjectMixin"]

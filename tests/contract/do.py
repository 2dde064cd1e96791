"""Replays the Durable Object observations on our runtime, in memory, on a hand-set clock."""

import asyncio
import itertools
import json
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from moorage.durable_objects.runtime import Runtime, undefined
from moorage.durable_objects.runtime.testing import ManualClock, SocketClient, settle

from .do_classes import CLASSES
from .do_compare import compare_case, compare_gaps
from .do_rules import RULES, UNAVAILABLE
from .do_subject import Shared
from .do_values import JavaScriptOnly, decode, drain, flags, fold
from .result import CaseResult

AREAS = (
    "alarms", "bookmarks", "failures", "gates", "ids", "kv", "kv-sync", "rpc", "sql", "transactions", "websockets",
)  # fmt: skip


class Harness:
    """One case on a runtime of its own."""

    def __init__(self, case: dict[str, Any]) -> None:
        self.case = case
        self.clock = ManualClock()
        self.shared = Shared(self.clock, case["name"] + "/0")
        self.runtime = Runtime(None, clock=self.clock, rng=random.Random(case["name"]))
        kind = case.get("class", "MAIN")
        new = not case.get("old", False)
        self.namespaces = {
            name: self.runtime.namespace(
                f"do-vectors-{name}", cls, self.shared, sqlite=name != "LEGACY", delete_all_deletes_alarm=new
            )
            for name, cls in CLASSES.items()
        }
        self.namespace = self.shared.namespace = self.namespaces[kind]
        self.remembered: dict[str, Any] = self.shared.variables
        self.spawned: dict[str, asyncio.Task[Any]] = {}
        self.ids: dict[str, Any] = {}
        self.clients: dict[str, SocketClient] = {}
        # Milliseconds between the log entries that a step shows, by the step's number.
        self.gaps: dict[str, list[int]] = {}

    async def replay(self) -> list[Any]:
        await self.runtime.start()
        try:
            return [await self.step(number, step) for number, step in enumerate(self.case["steps"])]
        finally:
            for task in self.spawned.values():
                task.cancel()
            await settle()
            await self.runtime.close()

    async def step(self, number: int, step: dict[str, Any]) -> Any:
        if "spawn" in step:
            task = asyncio.ensure_future(self.call(step))
            self.spawned[step["spawn"]] = task
            if step.get("settle"):
                await self.clock.advance(step["settle"])
            return {"spawned": step["spawn"]}
        if "join" in step:
            return await self.clock.run_until(self.spawned[step["join"]])
        if "sleep" in step:
            await self.clock.advance(step["sleep"])
            return {"slept": step["sleep"]}
        if "log" in step:
            entries = self.shared.logs.get(self.key(step["log"]), [])
            if step.get("gaps"):
                times = [moment for moment, _ in entries]
                self.gaps[str(number)] = [late - early for early, late in itertools.pairwise(times)]
            return {"log": [text for _, text in entries]}
        if "run" in step:
            return await self.clock.run_until(self.call(step))
        if "ws" in step:
            return await self.web_socket(step)
        if "rpc" in step or "rpcError" in step:
            return await self.clock.run_until(self.outcome(self.remote(step), step))
        if "ns" in step or "obj" in step:
            return await self.clock.run_until(self.outcome(self.plain(step), step))
        if "same" in step:
            first, second = (str(self.remembered[name]) for name in step["same"])
            return {"ok": first == second}
        if "nstype" in step:
            member = getattr(self.namespace, step["nstype"], None)
            return {"ok": "undefined" if member is None else "function"}
        raise JavaScriptOnly(f"step {sorted(step)}")

    async def web_socket(self, step: dict[str, Any]) -> Any:
        if "open" in step:
            opening = SocketClient.connect(self.stub(step), f"https://do{step['open']}")
            try:
                client = await self.clock.run_until(opening)
            except Exception as error:
                return {"err": flags(error)}
            self.clients[step["ws"]] = client
            return {"ok": {"status": client.status}}
        client = self.clients[step["ws"]]
        if "send" in step:
            client.send(decode(step["send"], self.remembered, self.clock))
            return {"ok": "sent"}
        if "close" in step:
            client.close(*step["close"])
            return {"ok": "closing"}
        received = await self.receive(client, step["recv"], step.get("wait", 1500))
        return {"received": [_event(item) for item in received]}

    async def receive(self, client: SocketClient, count: int, wait: int) -> list[Any]:
        """At most `count` events, as soon as they are there; what is there after `wait` ms otherwise."""
        end = self.clock.now() + wait
        while len(client.received) < count:
            for _ in range(200):
                await asyncio.sleep(0)
                if len(client.received) >= count:
                    break
            else:
                due = self.clock.next_timer()
                if self.clock.now() >= end:
                    break
                await self.clock.advance(min(end, end if due is None else due) - self.clock.now())
        taken, client.received[:] = client.received[:count], client.received[count:]
        return taken

    def key(self, name: str) -> str:
        return self.ids.get(name) or str(self.namespace.idFromName(f"{self.shared.case}/{name}"))

    def stub(self, step: dict[str, Any]) -> Any:
        name = step["do"]
        if step.get("unique"):
            object_id = self.namespace.newUniqueId()
            self.ids[name] = str(object_id)
            return self.namespace.get(object_id)
        return self.shared.stub(name, fresh=step.get("fresh", False))

    async def call(self, step: dict[str, Any]) -> Any:
        stub = self.stub(step)
        try:
            if step.get("via") == "fetch":
                response = await stub.fetch("https://do/", method="POST", body=json.dumps(step["run"]))
                return {"status": response.status, "results": json.loads(await response.text())}
            return {"results": await stub.run(json.dumps(step["run"]))}
        except JavaScriptOnly:
            raise
        except Exception as error:
            if type(error).__name__ == "RemoteError" and getattr(error, "name", "") == "JavaScriptOnly":
                raise JavaScriptOnly(str(error)) from None
            return {"err": flags(error)}

    async def outcome(self, awaitable: Any, step: dict[str, Any]) -> Any:
        try:
            return {"ok": await awaitable}
        except JavaScriptOnly:
            raise
        except Exception as error:
            if getattr(error, "name", "") == "JavaScriptOnly":
                raise JavaScriptOnly(str(error)) from None
            if "rpcError" in step:
                return {"ok": describe(error), "err": flags(error)}
            return {"err": flags(error)}

    async def remote(self, step: dict[str, Any]) -> Any:
        stub = self.stub(step)
        if "rpcError" in step:
            return await getattr(stub, step["rpcError"])(*self.arguments(step))
        name = step["rpc"][0]
        member = getattr(stub, name)
        if "args" not in step:
            return fold(await member)
        promise = member(*self.arguments(step))
        for method, *args in step.get("pipeline", []):
            promise = getattr(promise, method)(*args)
        value = await promise
        match step.get("read"):
            case "then-call":
                return [await value.add(2), await value.add(3), await value.total]
            case "length":
                return len(value)
            case "text":
                return await _stream_text(value)
        return fold(value)

    def arguments(self, step: dict[str, Any]) -> list[Any]:
        return [decode(argument, self.remembered, self.clock) for argument in step.get("args", [])]

    async def plain(self, step: dict[str, Any]) -> Any:
        if "ns" in step:
            target: Any = self.namespaces[step["class"]] if "class" in step else self.namespace
            path = [step["ns"]]
        else:
            target, path = self.remembered[step["obj"]], step["path"]
        for name in path[:-1]:
            target = getattr(target, name)
        value: Any = getattr(target, path[-1]) if "args" in step else getattr(target, path[-1], undefined)
        if "args" in step:
            value = await drain(value(*self.arguments(step)))
        if "as" in step:
            self.remembered[step["as"]] = value
        match step.get("show"):
            case "id":
                return {"hex64": len(str(value)) == 64, "name": value.name, "jurisdiction": None}
            case "stub":
                return {"name": value.name, "idName": value.id.name, "idHex64": len(str(value.id)) == 64}
        return fold(value)


def describe(error: BaseException) -> dict[str, Any]:
    """The vector form of an error's looks."""
    named = getattr(error, "name", None)
    own = sorted(key for key in vars(error) if key not in {"message", "name"} or (key == "name" and named != "Error"))
    kind = type(error).__name__
    return {
        "type": "object",
        "isError": isinstance(error, Exception),
        "ctor": {"RemoteError": "Error", "Exception": "Error", "ValueError": "RangeError"}.get(kind, kind),
        "own": own,
        "extra": getattr(error, "extra", None),
        "code": getattr(error, "code", None),
    }


def _event(item: Any) -> dict[str, Any]:
    if isinstance(item, str | bytes):
        return {"message": fold(item)}
    return {"close": [item.code, item.reason, item.wasClean]}


async def _stream_text(value: Any) -> str:
    from moorage.durable_objects.runtime.web import Response

    return str(await Response(value).text())


def replay_case(case: dict[str, Any], run: Callable[..., Any] = asyncio.run) -> tuple[str, str]:
    """Returns outcome and detail of one case; `run` runs a coroutine on the event loop of choice."""
    try:
        harness = Harness(case)
        got = run(harness.replay())
        found = [*compare_case(case, got), *compare_gaps(case, harness.gaps)]
    except JavaScriptOnly as reason:
        rule = UNAVAILABLE.get(str(reason), None)
        return ("skipped", f"{rule}: {reason}") if rule else ("failed", f"not available: {reason}")
    except Exception as error:
        return "failed", f"{type(error).__name__}: {error}"
    if not found:
        return "passed", ""
    reasons = set()
    for difference in found:
        rule_name = next((rule.name for rule in RULES if rule.allows(difference)), None)
        if rule_name is None:
            where = ".".join(str(part) for part in difference.path)
            return "failed", f"at {where}: expected {difference.expected!r}, got {difference.got!r}"
        reasons.add(rule_name)
    return "skipped", ", ".join(sorted(reasons))


def run(folder: Path, areas: list[str]) -> Iterator[CaseResult]:
    """Yields the outcome of every case in `folder/<area>.json`, for the areas given (all when empty)."""
    for area in areas or AREAS:
        path = folder / f"{area}.json"
        if not path.exists():
            continue
        for case in json.loads(path.read_text())["cases"]:
            outcome, detail = replay_case(case)
            yield CaseResult("do", area, case["name"], outcome, detail)  # type: ignore[arg-type]

"""What a module exports, and what is refused (spec python-workers-api 2)."""

from types import ModuleType
from typing import Any

import pytest

from moorage.durable_objects.runtime.base import DurableObject
from moorage.durable_objects.runtime.web import PlatformRequest, Request
from moorage.wrangler_compat.workers import WorkerEntrypoint, WorkflowEntrypoint
from moorage.wrangler_compat.workers.calling import relaxed
from moorage.wrangler_compat.workers.discovery import Compatibility, DiscoveryError, discover, exported_methods

NEW = Compatibility.of("2026-06-01")
OLD = Compatibility.of("2025-01-01")


def module(source: str = "", **names: Any) -> ModuleType:
    made = ModuleType("entry")
    vars(made).update(
        WorkerEntrypoint=WorkerEntrypoint, DurableObject=DurableObject, WorkflowEntrypoint=WorkflowEntrypoint, **names
    )
    exec(source, vars(made))
    return made


@pytest.mark.parametrize(
    ("date", "flags", "no_global_handlers", "external_sdk"),
    [
        (None, (), False, False),
        ("2025-08-13", (), False, False),
        ("2025-08-14", (), True, False),
        ("2026-04-20", (), True, False),
        ("2026-04-21", (), True, True),
        ("2026-04-21", ("disable_python_no_global_handlers", "disable_python_external_sdk"), False, False),
        ("2024-01-01", ("python_no_global_handlers", "enable_python_external_sdk"), True, True),
    ],
)
def test_rules_by_date_and_flag(
    date: str | None, flags: tuple[str, ...], no_global_handlers: bool, external_sdk: bool
) -> None:
    assert Compatibility.of(date, flags) == Compatibility(no_global_handlers, external_sdk)


def test_classes_are_found_by_their_base_and_known_by_their_own_name() -> None:
    found = discover(
        module(
            "class Default(WorkerEntrypoint):\n"
            "    def fetch(self, request): pass\n"
            "class Admin(WorkerEntrypoint): pass\n"
            "class Counter(DurableObject): pass\n"
            "class Child(Counter): pass\n"
            "class Flow(WorkflowEntrypoint): pass\n"
            "class _Hidden(DurableObject): pass\n"
            "Alias = Counter\n"
        ),
        NEW,
    )
    assert found.default is not None
    assert found.default.__name__ == "Default"
    assert set(found.named) == {"Admin"}
    assert set(found.objects) == {"Counter", "Child"}
    assert set(found.workflows) == {"Flow"}
    assert found.handles("fetch")
    assert not found.handles("scheduled")
    assert found.handler_name("fetch") == "fetch"


def test_all_names_the_exports() -> None:
    found = discover(
        module("__all__ = ['_Listed']\nclass _Listed(DurableObject): pass\nclass Other(DurableObject): pass"), NEW
    )
    assert set(found.objects) == {"_Listed"}
    with pytest.raises(DiscoveryError, match="names 'Missing'"):
        discover(module("__all__ = ['Missing']"), NEW)


def test_two_classes_of_one_name() -> None:
    first = type("Counter", (DurableObject,), {})
    second = type("Counter", (DurableObject,), {})
    with pytest.raises(DiscoveryError, match="two classes are called 'Counter'"):
        discover(module(One=first, Two=second), NEW)


def test_legacy_handlers() -> None:
    found = discover(module("def on_fetch(request): pass\ndef on_scheduled(event): pass"), OLD)
    assert set(found.legacy) == {"fetch", "scheduled"}
    assert found.handles("scheduled")
    with pytest.raises(DiscoveryError, match="disable_python_no_global_handlers"):
        discover(module("def on_fetch(request): pass"), NEW)


@pytest.mark.parametrize("rules", [NEW, OLD])
def test_legacy_handlers_beside_a_default_class_are_a_type_error(rules: Compatibility) -> None:
    source = "def on_fetch(request): pass\nclass Default(WorkerEntrypoint): pass"
    with pytest.raises(TypeError, match="on_fetch cannot stand beside the class Default"):
        discover(module(source), rules)


def test_legacy_methods_of_a_class() -> None:
    source = (
        "class Default(WorkerEntrypoint):\n    def on_fetch(self, request): pass\n    def queue(self, batch): pass"
    )
    found = discover(module(source), OLD)
    assert (found.handler_name("fetch"), found.handler_name("queue")) == ("fetch", "queue")
    assert discover(module(source), NEW).handler_name("fetch") is None


async def test_legacy_handlers_get_the_platform_s_request() -> None:
    source = """
from moorage.wrangler_compat.workers import handler

def on_fetch(request, env):
    return (request, env)

class Old(DurableObject):
    def on_fetch(self, request, env, ctx):
        return (request, env, ctx)
    async def on_alarm(self):
        return "alarm"
    def on_webSocketMessage(self, ws, message):
        return (ws, message)
    def scheduled(self):
        return "own"
    def on_scheduled(self):
        return "old"

@handler
def on_queue(request):
    return request
"""
    found = discover(module(source), OLD)
    request = Request("http://a")
    shown, env = relaxed(found.legacy["fetch"], request, "env", "ctx")
    assert isinstance(shown, PlatformRequest)
    assert (shown.message, env) == (request, "env")
    assert relaxed(found.legacy["queue"], request, "env") is request
    made: Any = found.objects["Old"]
    old = made("ctx", "env")
    shown, *rest = old.fetch(request)
    assert (shown.message, rest) == (request, ["env", "ctx"])
    assert await old.alarm({"retryCount": 0}) == "alarm"
    assert old.webSocketMessage("ws", "text") == ("ws", "text")
    assert old.scheduled() == "own"


def test_nothing_to_run() -> None:
    with pytest.raises(DiscoveryError, match="nothing to run"):
        discover(module("x = 1"), NEW)


def test_methods_that_rpc_may_call() -> None:
    class Mixin:
        def mixed(self) -> None: ...

    class Service(Mixin, WorkerEntrypoint):
        value = 1

        def own(self) -> None: ...

        async def waits(self) -> None: ...

        def _private(self) -> None: ...

        @staticmethod
        def static() -> None: ...

        @classmethod
        def of_class(cls) -> None: ...

    assert exported_methods(Service) == ["mixed", "own", "waits"]


async def test_a_legacy_class_keeps_its_arguments_without_a_base_s_init() -> None:
    source = """
class Old(DurableObject):
    def __init__(self, state, env):
        self.state = state
    def on_fetch(self, request, env, ctx):
        return (self.state, env, ctx)
"""
    found = discover(module(source), OLD)
    made: Any = found.objects["Old"]
    old = made("state", "env")
    assert old.fetch(Request("http://a")) == ("state", "env", "state")

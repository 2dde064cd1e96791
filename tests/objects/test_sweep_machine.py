"""The sweep object does what the file engine does, call for call, and its fence lets only the last holder through."""

import json
from types import SimpleNamespace
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from moorage.durable_objects.objects.sweep_state import SweepState, instant_of
from moorage.durable_objects.runtime.testing import ManualClock
from moorage.protocols.sweep import Outcome, Word, emit, load, operations
from tests.objects.sqlite_storage import Storage
from tests.support.sweep_documents import texts, values

WRITERS = st.sampled_from(["w1", "w2"])
SOURCES = st.sampled_from(["s", "s:1", "ü"])
IDS = st.sampled_from(["1", "1:1", "é", "x"])
FIELDS = st.dictionaries(
    st.one_of(st.sampled_from(["status", "body", "quote", "sensitive", "fix_ref"]), texts(8)),
    st.one_of(st.sampled_from(["closed", True, "", None]), values(nonfinite=False)),
    max_size=4,
)


class SweepMachine(RuleBasedStateMachine):
    """One state in a file's text and in an object, under the same calls at the same instants."""

    def __init__(self) -> None:
        super().__init__()
        self.clock = ManualClock(1_782_993_600_000)
        self.storage = Storage()
        context: Any = SimpleNamespace(storage=self.storage, clock=self.clock)
        self.object = SweepState(context, None)
        self.text: str | None = None
        self.token: int | None = None
        self.tokens: list[int] = []

    def teardown(self) -> None:
        self.storage.close()

    def now(self) -> str:
        return instant_of(self.clock.now())

    def ask(self, verb: str, **body: Any) -> dict[str, Any]:
        answer = self.object.call(verb, json.dumps(body))
        value = answer["value"]
        found: dict[str, Any] = json.loads(value) if isinstance(value, str) else value
        assert (answer["status"] == 200) == ("error" not in found)
        return found

    def both(self, outcome: Outcome, answer: dict[str, Any]) -> Word:
        assert answer["word"] == outcome.word.value, (answer, outcome)
        assert answer.get("payload") == outcome.payload
        if outcome.document is not None:
            self.text = emit(outcome.document)
        return outcome.word

    def state(self) -> Any:
        return load(None if self.text is None else self.text.encode())

    @rule(minutes=st.integers(0, 90))
    def time_passes(self, minutes: int) -> None:
        self.clock._now += minutes * 60_000

    @rule(writer=WRITERS, ttl=st.one_of(st.none(), st.integers(-1, 120)), fenced=st.booleans())
    def acquire(self, writer: str, ttl: int | None, fenced: bool) -> None:
        outcome = operations.lease_acquire(self.state(), writer=writer, now=self.now(), ttl_minutes=ttl)
        answer = self.ask("lease-acquire", writer=writer, ttl_minutes=ttl, fenced=fenced)
        if self.both(outcome, answer) is not Word.LOCKED:
            assert all(answer["token"] > earlier for earlier in self.tokens)
            self.tokens.append(answer["token"])
            self.token = answer["token"] if fenced else None

    @rule(writer=WRITERS)
    def release(self, writer: str) -> None:
        outcome = operations.lease_release(self.state(), writer=writer)
        self.both(outcome, self.ask("lease-release", writer=writer, token=self.token))

    @rule(writer=WRITERS, source=SOURCES, item=IDS, fields=FIELDS)
    def upsert(self, writer: str, source: str, item: str, fields: dict[str, Any]) -> None:
        outcome = operations.upsert_item(
            self.state(), source=source, item=item, text=json.dumps(fields), writer=writer, now=self.now()
        )
        body = {"source": source, "id": item, "item": fields, "writer": writer, "token": self.token}
        self.both(outcome, self.ask("upsert-item", **body))

    @rule(writer=WRITERS, source=SOURCES, item=IDS, to=st.one_of(st.integers(0, 30).map(str), texts(3)))
    def advance(self, writer: str, source: str, item: str, to: str) -> None:
        outcome = operations.cursor_advance(
            self.state(), source=source, to=to, past_item=item, writer=writer, now=self.now()
        )
        body = {"source": source, "to": to, "past_item": item, "writer": writer, "token": self.token}
        self.both(outcome, self.ask("cursor-advance", **body))

    @rule(source=SOURCES)
    def look(self, source: str) -> None:
        self.both(operations.cursor_get(self.state(), source=source), self.ask("cursor-get", source=source))
        self.both(operations.read(self.state()), self.ask("read"))

    @rule()
    def heal(self) -> None:
        self.both(operations.validate(self.state()), self.ask("validate"))

    @rule(writer=WRITERS, counts=values(nonfinite=False))
    def record(self, writer: str, counts: Any) -> None:
        arguments = {"writer": writer, "outcome": "partial", "timestamp": self.now()}
        outcome = operations.run_record(self.state(), counts=json.dumps(counts), **arguments)
        self.both(outcome, self.ask("run-record", counts=counts, **arguments))

    @rule(source=SOURCES, cursor=st.integers(0, 30), status=st.sampled_from(["closed", "ingested"]))
    def import_legacy(self, source: str, cursor: int, status: str) -> None:
        text = json.dumps({"channels": {"C": {"cursor": cursor}}, "items": {"k": {"status": status, "channel": "C"}}})
        outcome = operations.import_legacy(self.state(), text=text, source_map=json.dumps({"C": source}))
        self.both(outcome, self.ask("import-legacy", text=text, source_map={"C": source}))

    @precondition(lambda self: len(self.tokens) > 1)
    @rule(writer=WRITERS, data=st.data())
    def an_earlier_token_opens_nothing(self, writer: str, data: st.DataObject) -> None:
        token = data.draw(st.sampled_from(self.tokens[:-1]))
        calls: list[tuple[str, dict[str, Any]]] = [
            ("upsert-item", {"source": "s", "id": "1", "item": {"stale": token}}),
            ("upsert-items", {"items": [{"source": "s", "id": "1", "item": {"stale": token}}]}),
            ("cursor-advance", {"source": "s", "to": "999", "past_item": "1"}),
        ]
        for verb, body in calls:
            assert self.ask(verb, writer=writer, token=token, **body)["word"] == "LEASE-LOST"

    @precondition(lambda self: self.text is not None)
    @rule()
    def move_out_and_in(self) -> None:
        assert self.text is not None
        self.ask("import", document=self.text, replace=True)
        # whoever the file names as holder knows no token
        self.token = None

    @invariant()
    def the_export_is_the_file(self) -> None:
        answer = self.ask("export")
        assert answer.get("document") == self.text
        assert self.text is not None or answer["word"] == "NO-STATE"


TestSweepMachine = SweepMachine.TestCase
TestSweepMachine.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)

"""A sweep state shared by many machines: one `SweepState` object for each name ("one writer per repository").

The rules are those of the file engine (`moorage.protocols.sweep`); the lease needs no branch to be pushed, because an
object answers one call at a time. What is of its own: rows in place of one file, so that an upsert costs the same
among ten thousand items, and the fencing token (`moorage.protocols.sweep.shared`).

Answers are JSON texts: integers of any size and floats then arrive as they were sent.
"""

import datetime
import json
from collections.abc import Callable, Iterator
from typing import Any, Final

from moorage.protocols.sweep import Outcome, Standing, State, Word, emit, item_key, load, operations, shared
from moorage.protocols.sweep import cursors as cursor_rules
from moorage.protocols.sweep import items as item_rules
from moorage.protocols.sweep import lease as lease_rules
from moorage.protocols.sweep.document import Document, Json, fresh
from moorage.protocols.wire import Reply, WireError, reply, wire_method
from moorage.protocols.wire.sweep import (
    SweepCursorRefused,
    SweepDocumentCorrupt,
    SweepExists,
    SweepItemInvalid,
    SweepLeaseLost,
    SweepLocked,
    SweepNotFound,
    SweepUsage,
)

from ..runtime import DurableObject
from .clock import clock_of

# every column is ASCII JSON, keys included: a text of JSON may hold what no UTF-8 does
SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS sweep_head (name TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT;
CREATE TABLE IF NOT EXISTS sweep_sources (name TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT;
CREATE TABLE IF NOT EXISTS sweep_items (name TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT;
CREATE TABLE IF NOT EXISTS sweep_fence (
  singleton INTEGER PRIMARY KEY CHECK (singleton = 1),
  token INTEGER NOT NULL,
  fenced INTEGER NOT NULL
) STRICT;
"""
GET_FENCE: Final = "SELECT token, fenced FROM sweep_fence"
PUT_FENCE: Final = "INSERT OR REPLACE INTO sweep_fence (singleton, token, fenced) VALUES (1, ?1, ?2)"


class Tables:
    """The tables, made by the first write: a name that was only asked for leaves nothing behind."""

    def __init__(self, sql: Any) -> None:
        self._sql = sql
        self._made: bool | None = None
        if self.made:
            # what a later version added
            self._sql.exec(SCHEMA)

    @property
    def made(self) -> bool:
        """Whether there are."""
        if self._made is None:
            self._made = bool(self._sql.exec("SELECT 1 FROM sqlite_master WHERE name = 'sweep_head'").toArray())
        return self._made

    def make(self) -> None:
        """Makes them, in the open transaction."""
        if not self.made:
            self._sql.exec(SCHEMA)
            self._made = True

    def undone(self) -> None:
        """The transaction that may have made them was undone."""
        self._made = None


class Rows:
    """A table of names and JSON values."""

    def __init__(self, sql: Any, tables: Tables, table: str) -> None:
        self._sql = sql
        self._tables = tables
        self._get = f"SELECT value FROM {table} WHERE name = ?1"
        self._put = f"INSERT OR REPLACE INTO {table} (name, value) VALUES (?1, ?2)"
        self._delete = f"DELETE FROM {table} WHERE name = ?1"
        self._all = f"SELECT name, value FROM {table}"
        self._clear = f"DELETE FROM {table}"

    def get(self, name: str, default: Json = None) -> Json:
        """The value under `name`, or `default`."""
        rows = self._found(name)
        return json.loads(rows[0]["value"]) if rows else default

    def has(self, name: str) -> bool:
        """Whether there is a value under `name`, null included."""
        return bool(self._found(name))

    def _found(self, name: str) -> list[dict[str, Any]]:
        if not self._tables.made:
            return []
        rows: list[dict[str, Any]] = self._sql.exec(self._get, json.dumps(name)).toArray()
        return rows

    def put(self, name: str, value: Json) -> None:
        """Stores `value`. Raises ValueError for a number that is not finite, SweepItemInvalid for too large a row."""
        key, text = json.dumps(name), shared.dumps(value)
        if len(key) + len(text) > shared.MAX_ROW_BYTES:
            raise SweepItemInvalid(f"{key[:80]} would be larger than {shared.MAX_ROW_BYTES} bytes")
        self._tables.make()
        self._sql.exec(self._put, key, text)

    def delete(self, name: str) -> None:
        """Removes what is under `name`."""
        if self._tables.made:
            self._sql.exec(self._delete, json.dumps(name))

    def replace(self, values: dict[str, Json]) -> None:
        """Makes `values` everything that is there."""
        self._tables.make()
        self._sql.exec(self._clear)
        for name, value in values.items():
            self.put(name, value)

    def items(self) -> Iterator[tuple[str, Json]]:
        """Every name and value."""
        if not self._tables.made:
            return
        for name, value in self._sql.exec(self._all).raw():
            yield json.loads(name), json.loads(value)


class SweepStore:
    """A document in rows, and its fence."""

    def __init__(self, storage: Any) -> None:
        self._sql = storage.sql
        self._storage = storage
        self._tables = tables = Tables(self._sql)
        self.head = Rows(self._sql, tables, "sweep_head")
        self.sources = Rows(self._sql, tables, "sweep_sources")
        self.items = Rows(self._sql, tables, "sweep_items")

    def transact(self, work: Callable[[], Reply]) -> Reply:
        """Runs `work` in one transaction; what it raises undoes it."""
        try:
            done: Reply = self._storage.transactionSync(work)
        except BaseException:
            self._tables.undone()
            raise
        return done

    @property
    def exists(self) -> bool:
        """Whether there is a state."""
        return self.head.has("schema_version")

    def create(self) -> None:
        """Makes an empty state where there is none."""
        if not self.exists:
            self.head.put("schema_version", fresh()["schema_version"])

    def document(self) -> Document:
        """The whole document."""
        return {
            **dict(self.head.items()),
            "sources": dict(self.sources.items()),
            "items": dict(self.items.items()),
        }

    def replace(self, document: Document) -> None:
        """Makes `document` the state."""
        self.head.replace({key: value for key, value in document.items() if key not in ("sources", "items")})
        self.sources.replace(document["sources"])
        self.items.replace(document["items"])

    @property
    def fence(self) -> shared.Fence:
        """The fence."""
        rows = self._sql.exec(GET_FENCE).toArray() if self._tables.made else []
        return shared.Fence(rows[0]["token"], bool(rows[0]["fenced"])) if rows else shared.Fence()

    def put_fence(self, fence: shared.Fence) -> None:
        """Stores the fence."""
        self._tables.make()
        self._sql.exec(PUT_FENCE, fence.token, int(fence.fenced))


def instant_of(milliseconds: int) -> str:
    """An instant as ISO 8601 in UTC with its offset, as the file engine writes it."""
    epoch = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
    return (epoch + datetime.timedelta(milliseconds=milliseconds)).isoformat()


def _answer(word: Word, payload: Json = None, **more: Json) -> Reply:
    value = {"word": word.value, **({} if payload is None else {"payload": payload}), **more}
    return reply(shared.dumps(value))


class SweepState(DurableObject):
    """See the module. `call(verb, body)` runs a verb of `shared.VERBS`; its answer's value is a JSON text."""

    def __init__(self, ctx: Any, env: Any) -> None:
        super().__init__(ctx, env)
        self._now = clock_of(ctx)
        self._store = SweepStore(ctx.storage)
        self._verbs: dict[str, Callable[[Any], Reply]] = {
            "read": self._read,
            "validate": self._validate,
            "upsert-item": self._upsert_item,
            "upsert-items": self._upsert_items,
            "cursor-get": self._cursor_get,
            "cursor-advance": self._cursor_advance,
            "lease-acquire": self._lease_acquire,
            "lease-release": self._lease_release,
            "run-record": self._run_record,
            "import-legacy": self._import_legacy,
            "export": self._export,
            "import": self._import,
        }

    @wire_method
    def call(self, verb: str, body: str) -> Reply:
        """Runs a verb on a JSON text; a refusal is a reply too, and leaves nothing written."""
        try:
            parsed = shared.parse_body(shared.VERBS[verb].body, body)
        except shared.BadBody as error:
            raise SweepUsage(reason=str(error)) from None
        try:
            return self._store.transact(lambda: self._verbs[verb](parsed))
        except WireError as refused:
            # a text as every answer is: the lease of another writer may hold what no UTF-8 does
            return reply(shared.dumps(refused.body()), refused.status)

    def _instant(self) -> str:
        return instant_of(self._now())

    # -- the lease ----------------------------------------------------------------------------------------------

    def _owned(self, writer: str, token: int | None, move: lease_rules.Move) -> lease_rules.Verdict:
        verdict = lease_rules.judge(self._store.head.get("lease"), move, writer)
        if verdict.word is Word.LEASE_LOST:
            raise SweepLeaseLost(verdict.reason)
        if verdict.effect is not lease_rules.Effect.KEEP:
            refusal = self._store.fence.refusal(token)
            if refusal is not None:
                raise SweepLeaseLost(refusal)
        return verdict

    def _restamp(self) -> None:
        head = self._store.head
        head.put("lease", lease_rules.restamped(head.get("lease"), self._instant()))

    def _lease_acquire(self, body: shared.Acquire) -> Reply:
        store, now = self._store, self._instant()
        current = store.head.get("lease")
        state = State(Standing.OK, {**fresh(), **({} if current is None else {"lease": current})})
        outcome = operations.lease_acquire(state, writer=body.writer, now=now, ttl_minutes=body.ttl_minutes)
        if outcome.document is None:
            raise SweepLocked(outcome.reason, lease=current)
        fence = store.fence.after_acquisition(body.fenced)
        store.create()
        store.head.put("lease", outcome.document["lease"])
        store.put_fence(fence)
        return _answer(outcome.word, outcome.payload, token=fence.token, lease=outcome.document["lease"])

    def _lease_release(self, body: shared.Release) -> Reply:
        verdict = self._owned(body.writer, body.token, lease_rules.Move.RELEASE)
        if verdict.effect is lease_rules.Effect.REMOVE:
            self._store.head.delete("lease")
        return _answer(Word.OK)

    # -- items and cursors --------------------------------------------------------------------------------------

    def _put_item(self, upsert: shared.Upsert, where: str) -> None:
        if not isinstance(upsert.item, dict):
            raise SweepItemInvalid(f"{where} must be a JSON object")
        store = self._store
        key = item_key(upsert.source, upsert.id)
        record = item_rules.merged(store.items.get(key), upsert.item, upsert.source, upsert.id)
        record = item_rules.redacted(record, store.sources.get(upsert.source))
        store.items.put(key, record)

    def _upsert_item(self, body: shared.UpsertItem) -> Reply:
        self._owned(body.writer, body.token, lease_rules.Move.WRITE)
        self._put_item(body, "item")
        self._restamp()
        return _answer(Word.OK)

    def _upsert_items(self, body: shared.UpsertItems) -> Reply:
        self._owned(body.writer, body.token, lease_rules.Move.WRITE)
        if len(body.items) > shared.MAX_BATCH:
            raise SweepUsage(reason=f"items: at most {shared.MAX_BATCH} in one batch, not {len(body.items)}")
        for index, upsert in enumerate(body.items):
            self._put_item(upsert, f"items[{index}].item")
        self._restamp()
        return _answer(Word.OK, {"upserted": len(body.items)})

    def _cursor_get(self, body: shared.Source) -> Reply:
        return _answer(Word.OK, {"cursor": cursor_rules.cursor_of(self._store.sources.get(body.source))})

    def _cursor_advance(self, body: shared.Advance) -> Reply:
        self._owned(body.writer, body.token, lease_rules.Move.WRITE)
        key = item_key(body.source, body.past_item)
        if not self._store.items.has(key):
            raise SweepCursorRefused(f"there is no item {key!r}")
        entry = self._store.sources.get(body.source, {})
        if not isinstance(entry, dict):
            raise SweepItemInvalid(f"the entry of source {body.source!r} must be a map")
        if not cursor_rules.may_move(entry.get("cursor"), body.to):
            raise SweepCursorRefused(f"the cursor stands at {entry['cursor']!r}, which is past {body.to!r}")
        self._store.sources.put(body.source, {**entry, "cursor": body.to})
        self._restamp()
        return _answer(Word.OK)

    # -- the whole ----------------------------------------------------------------------------------------------

    def _read(self, _: shared.Body) -> Reply:
        if not self._store.exists:
            raise SweepNotFound("there is no such shared state yet")
        return _answer(Word.OK, self._store.document())

    def _validate(self, _: shared.Body) -> Reply:
        found = {key: record for key, record in self._store.items.items() if item_rules.lacks_evidence(record)}
        for key, record in found.items():
            self._store.items.put(key, item_rules.downgraded(record))
        return _answer(Word.OK, {"downgraded": sorted(found)})

    def _run_record(self, body: shared.Record) -> Reply:
        run = {
            "timestamp": body.timestamp,
            "outcome": body.outcome,
            "writer": body.writer,
            "counts": body.counts,
        }
        self._store.create()
        self._store.head.put("last_run", run)
        return _answer(Word.OK)

    def _import_legacy(self, body: shared.ImportLegacy) -> Reply:
        store = self._store
        state = State(Standing.OK, store.document()) if store.exists else State(Standing.ABSENT)
        outcome: Outcome = operations.import_legacy(state, text=body.text, source_map=shared.dumps(body.source_map))
        if outcome.document is not None:
            try:
                store.replace(outcome.document)
            except ValueError:
                raise SweepItemInvalid("the file holds a number that is not finite, which JSON cannot say") from None
        return _answer(outcome.word, outcome.payload)

    def _export(self, _: shared.Body) -> Reply:
        if not self._store.exists:
            raise SweepNotFound("there is no such shared state yet")
        return _answer(Word.OK, document=emit(self._store.document()))

    def _import(self, body: shared.Import) -> Reply:
        state = load(body.document.encode("utf-8", "surrogatepass"))
        if state.standing is not Standing.OK:
            raise SweepDocumentCorrupt(state.reason)
        document, store = state.document, self._store
        for name in ("sources", "items"):
            if not isinstance(document[name], dict):
                raise SweepDocumentCorrupt(f"{name} must be a map")
        if store.exists and not body.replace and emit(store.document()) != emit(document):
            raise SweepExists("another state is there; replace=true replaces it")
        try:
            store.replace(document)
        except ValueError:
            raise SweepDocumentCorrupt("it holds a number that is not finite, which JSON cannot say") from None
        # a holder named in the file knows no token, and earlier ones are over
        store.put_fence(store.fence.after_acquisition(False))
        return _answer(Word.OK, {"items": len(document["items"]), "sources": len(document["sources"])})

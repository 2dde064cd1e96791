"""D1 databases: statements, values, batches, sessions, errors, and what stays."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moorage.durable_objects.runtime.testing import memory_runtime
from moorage.durable_objects.runtime.web import JsBytes, JsList
from moorage.wrangler_compat.host.d1 import D1Database, D1Store
from moorage.wrangler_compat.host.d1.conversion import bound, shown
from moorage.wrangler_compat.host.server import Serving
from moorage.wrangler_compat.host.values import Presentation
from moorage.wrangler_compat.workers.js.errors import JsException
from tests.support.names import stable
from tests.support.serving import ServedProcess
from tests.support.workers_in_process import ask, host_of, lay


@pytest.fixture
async def db() -> AsyncIterator[D1Database]:
    runtime = memory_runtime()
    store = runtime.namespace("~d1", D1Store).getByName("test")
    await runtime.start()
    database = D1Database(store, runtime.clock.now, Presentation())
    await database.exec("CREATE TABLE t (id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT UNIQUE, n, r REAL, b BLOB)")
    yield database
    await runtime.close()


async def test_rows_in_every_form(db: D1Database) -> None:
    put = db.prepare("INSERT INTO t (name, n) VALUES (?, ?)")
    written = await put.bind("a", 1).run()
    assert written.success is True
    assert written["results"] == []
    await put.bind("b", None).run()
    found = await db.prepare("SELECT name, n FROM t ORDER BY id").all()
    assert found["results"] == [{"name": "a", "n": 1}, {"name": "b", "n": None}]
    assert found.results[0].name == "a"
    assert found.results.length == 2
    assert found.to_py()["success"] is True
    one = db.prepare("SELECT name, n FROM t WHERE name = ?1 OR name = ?1")
    assert await one.bind("a").first() == {"name": "a", "n": 1}
    assert await one.bind("a").first("n") == 1
    assert await one.bind("z").first() is None
    assert await one.bind("z").first("no such column, but no row either") is None
    rows = await one.bind("a").raw()
    assert isinstance(rows, JsList)
    assert rows == [["a", 1]]
    for names in (await one.bind("a").raw(columnNames=True), await one.bind("a").raw({"columnNames": True})):
        assert names == [["name", "n"], ["a", 1]]
    assert await one.bind("a").raw(None) == [["a", 1]]
    twice = db.prepare("SELECT 1 AS x, 2 AS x")
    assert (await twice.all())["results"] == [{"x": 2}]
    assert await twice.raw() == [[1, 2]]


async def test_meta(db: D1Database) -> None:
    meta = (await db.prepare("INSERT INTO t (name) VALUES ('a'), ('b')").run())["meta"]
    assert (meta["changes"], meta["last_row_id"], meta["changed_db"], meta["rows_written"]) == (2, 2, True, 2)
    assert meta["size_after"] % 4096 == 0
    assert meta["duration"] >= 0
    assert meta["rows_read"] == 0
    meta = (await db.prepare("SELECT * FROM t").run()).meta
    assert (meta.changes, meta.changed_db, meta.rows_read) == (0, False, 2)
    assert (await db.prepare("UPDATE t SET n = 1 WHERE name = 'none'").run()).meta.changed_db is False
    assert (await db.prepare("DELETE FROM t").run()).meta.changes == 2


@pytest.mark.parametrize(
    ("value", "stored", "kind"),
    [
        (True, 1, "integer"),
        (False, 0, "integer"),
        (7, 7, "integer"),
        (2**60, 2**60, "integer"),
        (1.5, 1.5, "real"),
        (float("nan"), None, "null"),
        ("é", "é", "text"),
        (None, None, "null"),
        (b"\x00\xff", [0, 255], "blob"),
        (memoryview(b"ab"), [97, 98], "blob"),
        (JsBytes(b"a"), [97], "blob"),
        ([1, 2], [1, 2], "blob"),
        ([], [], "blob"),
    ],
    ids=stable,
)
async def test_values(db: D1Database, value: Any, stored: Any, kind: str) -> None:
    column = {"integer": "id", "blob": "b", "real": "r"}.get(kind, "name")
    if kind == "null" or value is False:
        column = "n"
    await db.prepare(f"INSERT INTO t ({column}) VALUES (?)").bind(value).run()
    assert await db.prepare(f"SELECT {column} AS v FROM t").first("v") == stored
    if column == "n" and value is False:
        return  # a column without affinity keeps the number as a REAL, as on the platform
    assert await db.prepare(f"SELECT typeof({column}) AS v FROM t").first("v") == kind


@pytest.mark.parametrize("value", [{"a": 1}, [256], ["x"], object(), (1,)], ids=stable)
async def test_values_that_are_none(db: D1Database, value: Any) -> None:
    with pytest.raises(JsException, match=r"D1_TYPE_ERROR: Type '.+' not supported for value"):
        db.prepare("SELECT ?").bind(value)


async def test_a_batch_is_all_or_nothing(db: D1Database) -> None:
    put = db.prepare("INSERT INTO t (name) VALUES (?)")
    results = await db.batch([put.bind("a"), put.bind("b"), db.prepare("SELECT count(*) AS n FROM t")])
    assert [result["success"] for result in results] == [True, True, True]
    assert results[2]["results"] == [{"n": 2}]
    with pytest.raises(JsException, match=r"UNIQUE constraint failed: t\.name: SQLITE_CONSTRAINT"):
        await db.batch([put.bind("c"), put.bind("a")])
    assert await db.prepare("SELECT count(*) AS n FROM t").first("n") == 2
    assert await db.batch([]) == []
    with pytest.raises(TypeError, match=r"batch\(\) takes prepared statements, not str"):
        await db.batch(["SELECT 1"])


async def test_a_batch_keeps_deferred_foreign_keys(db: D1Database) -> None:
    await db.exec("CREATE TABLE child (t INTEGER REFERENCES t (id) DEFERRABLE INITIALLY DEFERRED)")
    await db.batch(
        [db.prepare("INSERT INTO child VALUES (9)"), db.prepare("INSERT INTO t (id, name) VALUES (9, 'x')")]
    )
    with pytest.raises(JsException, match="FOREIGN KEY constraint failed"):
        await db.exec("CREATE TABLE strict_child (t INTEGER REFERENCES t (id));INSERT INTO strict_child VALUES (8)")


async def test_exec(db: D1Database) -> None:
    text = """INSERT INTO t (name) VALUES ('a;b');
        CREATE TABLE u (
            v TEXT  -- over several lines;
        );
        CREATE TRIGGER tr AFTER INSERT ON t BEGIN INSERT INTO u VALUES (new.name); END;
        INSERT INTO t (name) VALUES ('c')
    """
    answer = await db.exec(text)
    assert answer["count"] == 4
    assert answer["duration"] >= 0
    assert await db.prepare("SELECT v FROM u").raw() == [["c"]]
    with pytest.raises(JsException) as caught:
        await db.exec("INSERT INTO t (name) VALUES ('kept');\nSELECT 1;\nINSERT INTO nowhere VALUES (1);")
    assert caught.value.message.startswith("D1_EXEC_ERROR: Error in line 3: INSERT INTO nowhere VALUES (1);: no such")
    assert await db.prepare("SELECT count(*) AS n FROM t WHERE name = 'kept'").first("n") == 1
    with pytest.raises(JsException, match="did not contain a statement"):
        await db.exec("-- nothing")


@pytest.mark.parametrize(
    ("statement", "values", "text"),
    [
        ("INVALID SQL", (), 'D1_ERROR: near "INVALID": syntax error at offset 0: SQLITE_ERROR'),
        ("SELECT * FROM nowhere", (), "D1_ERROR: no such table: nowhere"),
        ("SELECT ?", (), "D1_ERROR: Wrong number of parameter bindings for SQL query."),
        ("SELECT 1", (1,), "D1_ERROR: Wrong number of parameter bindings for SQL query."),
        ("BEGIN", (), "D1_ERROR: To execute a transaction, please use"),
        ("ATTACH 'x' AS y", (), "D1_ERROR: not authorized"),
        ("", (), "D1_ERROR: SQL code did not contain a statement."),
        ("SELECT * FROM _cf_KV", (), "D1_ERROR: "),
    ],
)
async def test_errors(db: D1Database, statement: str, values: tuple[Any, ...], text: str) -> None:
    with pytest.raises(JsException) as caught:
        await db.prepare(statement).bind(*values).run()
    assert caught.value.message.startswith(text)
    assert caught.value.cause.message in caught.value.message  # type: ignore[attr-defined]


async def test_an_unknown_column(db: D1Database) -> None:
    with pytest.raises(JsException, match=r"D1_COLUMN_NOTFOUND: Column not found \(x\)"):
        await db.prepare("SELECT 1 AS y").first("x")


async def test_sessions(db: D1Database) -> None:
    session = db.withSession()
    assert session.getBookmark() is None
    await session.batch([session.prepare("INSERT INTO t (name) VALUES ('s')")])
    first = session.getBookmark()
    assert (await session.prepare("SELECT name FROM t").all())["results"] == [{"name": "s"}]
    second = session.getBookmark()
    assert first is not None
    assert second is not None
    assert first < second
    assert db.withSession("first-primary").getBookmark() is None
    assert db.withSession(second).getBookmark() == second
    with pytest.raises(TypeError, match="a constraint or a bookmark"):
        db.withSession(5)


async def test_bindings_are_no_containers(db: D1Database) -> None:
    for value in (db, db.prepare("SELECT 1"), db.withSession()):
        binding: Any = value
        assert bool(binding)
        with pytest.raises(TypeError, match=rf"{type(binding).__name__}.*has no len"):
            len(binding)


async def test_tasks_do_not_mix_their_batches(db: D1Database) -> None:
    put = db.prepare("INSERT INTO t (name, n) VALUES (?, (SELECT count(*) FROM t))")
    await asyncio.gather(*(db.batch([put.bind(f"{task}-{place}") for place in range(5)]) for task in range(8)))
    rows = await db.prepare("SELECT name FROM t ORDER BY n").raw()
    names = [row[0] for row in rows]
    assert all(len({name.split("-")[0] for name in names[at : at + 5]}) == 1 for at in range(0, 40, 5))


scalars = st.none() | st.text(alphabet=st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=20)


@settings(deadline=None, max_examples=50)
@given(st.lists(st.one_of(scalars, st.binary(max_size=20), st.integers(-(2**63), 2**63 - 1)), min_size=1, max_size=9))
def test_what_is_bound_comes_back(values: list[Any]) -> None:
    async def play() -> None:
        runtime = memory_runtime()
        store = runtime.namespace("~d1", D1Store).getByName("test")
        await runtime.start()
        database = D1Database(store, runtime.clock.now, Presentation())
        marks = ", ".join("?" for _ in values)
        assert await database.prepare(f"SELECT {marks}").bind(*values).raw() == [[shown(bound(v)) for v in values]]
        await runtime.close()

    asyncio.run(play())


ENTRY = """
    from workers import Response, WorkerEntrypoint

    class Default(WorkerEntrypoint):
        async def fetch(self, request):
            if request.method == "POST":
                await self.env.DB.exec("CREATE TABLE IF NOT EXISTS notes (text TEXT)")
                await self.env.DB.prepare("INSERT INTO notes VALUES (?)").bind(await request.text()).run()
                return Response("stored")
            found = await self.env.DB.prepare("SELECT text FROM notes").all()
            return Response.json([row.text for row in found.results])
"""
WRANGLER = """
[[d1_databases]]
binding = "DB"
database_id = "some-id"
database_name = "notes"
"""


async def test_several_statements_in_one_text_are_all_or_nothing(db: D1Database) -> None:
    with pytest.raises(JsException, match="UNIQUE constraint failed"):
        await db.prepare("INSERT INTO t (name) VALUES ('a'); INSERT INTO t (name) VALUES ('a')").run()
    assert await db.prepare("SELECT count(*) AS n FROM t").first("n") == 0


BOTH = """
    from workers import Response, WorkerEntrypoint

    class Default(WorkerEntrypoint):
        async def fetch(self, request):
            name = request.url.rpartition("/")[2]
            await self.env.DB.exec("CREATE TABLE IF NOT EXISTS names (name TEXT PRIMARY KEY)")
            if request.method == "POST":
                put = self.env.DB.prepare("INSERT INTO names VALUES (?)")
                await self.env.DB.batch([put.bind(name), put.bind(name + "b")])
                await self.env.KV.put(name, "value of " + name)
            listed = await self.env.KV.list()
            rows = await self.env.DB.prepare("SELECT name FROM names ORDER BY name").raw()
            return Response.json([[key.name for key in listed["keys"]], [row[0] for row in rows]])
"""


def test_what_was_answered_survives_sigkill(tmp_path: Path) -> None:
    folder = lay(tmp_path / "w", BOTH, WRANGLER + '[[kv_namespaces]]\nbinding = "KV"\n')
    names: list[str] = []
    for turn in range(2):
        served = ServedProcess(folder, ready="/").wait()
        try:
            for number in range(3):
                names.append(f"{turn}{number}")
                assert httpx.post(f"{served.url}/{names[-1]}").status_code == 200
        finally:
            served.kill()
    served = ServedProcess(folder, ready="/").wait()
    try:
        assert httpx.get(f"{served.url}/").json() == [names, sorted([*names, *(f"{name}b" for name in names)])]
    finally:
        served.stop()


async def test_over_a_real_server_and_a_restart(tmp_path: Path) -> None:
    lay(tmp_path / "w", ENTRY, WRANGLER)
    for turn in range(2):
        serving = Serving(host_of(tmp_path / "state", tmp_path / "w", mode="serve"))
        await serving.start()
        async with httpx.AsyncClient(base_url=serving.url) as client:
            if turn == 0:
                assert (await client.post("/", content="first")).text == "stored"
            assert (await client.get("/")).json() == ["first"]
        await serving.stop()


SYNCHRONOUS = """
    from pyodide.ffi import run_sync
    from workers import Response, WorkerEntrypoint, wsgi

    def app(environ, start_response):
        db = environ["workers.env"].DB
        run_sync(db.exec("CREATE TABLE IF NOT EXISTS hits (path TEXT)"))
        run_sync(db.prepare("INSERT INTO hits VALUES (?)").bind(environ["PATH_INFO"]).run())
        rows = run_sync(db.prepare("SELECT path FROM hits").raw()).to_py()
        found = run_sync(db.prepare("SELECT count(*) AS n FROM hits").all())
        start_response("200 OK", [("content-type", "text/plain")])
        return [f"{rows} {found.results.to_py()} {found.meta.rows_read}".encode()]

    class Default(WorkerEntrypoint):
        async def fetch(self, request):
            return await wsgi.fetch(app, request, self.env)
"""


async def test_synchronous_code_waits_for_statements(tmp_path: Path) -> None:
    host = host_of(tmp_path / "state", lay(tmp_path / "w", SYNCHRONOUS, WRANGLER))
    await host.start()
    await ask(host, "/a")
    assert await (await ask(host, "/b")).text() == "[['/a'], ['/b']] [{'n': 2}] 1"
    await host.close()

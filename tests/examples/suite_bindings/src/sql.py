"""`ctx.storage.sql`: statements, cursors, rows, errors. Steps run inside an object."""

import itertools

from refused import refused

_numbers = itertools.count()


def inside(step):
    """A check that runs `step(probe)` in a fresh object."""

    async def check(env):
        await env.PROBES.getByName(f"sql-{next(_numbers)}").run("sql", step)

    return check


def table(probe):
    sql = probe.ctx.storage.sql
    sql.exec("CREATE TABLE people(id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, score REAL, data BLOB)")
    for name, score in (("Ada", 1.5), ("Grace", 2), ("Mary", None)):
        sql.exec("INSERT INTO people(name, score) VALUES(?, ?)", name, score)
    return sql


async def _to_array(probe):
    sql = table(probe)
    rows = sql.exec("SELECT id, name, score FROM people ORDER BY id").toArray()
    assert rows == [
        {"id": 1, "name": "Ada", "score": 1.5},
        {"id": 2, "name": "Grace", "score": 2},
        {"id": 3, "name": "Mary", "score": None},
    ]
    assert len(rows) == 3
    assert rows[0]["name"] == rows[0].name == "Ada"
    assert sql.exec("SELECT 1 WHERE 0").toArray() == []


async def _one(probe):
    sql = table(probe)
    assert sql.exec("SELECT name FROM people WHERE id = ?", 2).one()["name"] == "Grace"
    refused(Exception, lambda: sql.exec("SELECT name FROM people").one())
    refused(Exception, lambda: sql.exec("SELECT name FROM people WHERE 0").one())


async def _iteration(probe):
    sql = table(probe)
    assert [row.name for row in sql.exec("SELECT name FROM people ORDER BY id")] == ["Ada", "Grace", "Mary"]
    cursor = sql.exec("SELECT name FROM people ORDER BY id")
    assert next(iter(cursor))["name"] == "Ada"
    assert [row["name"] for row in cursor.toArray()] == ["Grace", "Mary"]


async def _raw(probe):
    sql = table(probe)
    raw = sql.exec("SELECT id, name FROM people ORDER BY id LIMIT 2").raw()
    assert [list(row) for row in raw] == [[1, "Ada"], [2, "Grace"]]


async def _raw_of_the_older_generation(probe):
    cursor = table(probe).exec("SELECT id, name, score FROM people ORDER BY id DESC LIMIT 1")
    assert cursor.raw().toArray().to_py() == [[3, "Mary", None]]
    assert cursor.rowsRead >= 1


async def _columns_and_counts(probe):
    sql = table(probe)
    cursor = sql.exec("SELECT id, name AS who FROM people")
    assert list(cursor.columnNames) == ["id", "who"]
    cursor.toArray()
    assert cursor.rowsRead >= 3
    assert cursor.rowsWritten == 0
    assert sql.exec("UPDATE people SET score = 0").rowsWritten >= 3


async def _size(probe):
    sql = table(probe)
    before = sql.databaseSize
    assert before > 0
    assert before % 4096 == 0
    sql.exec("UPDATE people SET data = zeroblob(100000) WHERE id = 1")
    assert sql.databaseSize >= before + 98304


async def _bindings(probe):
    sql = table(probe)
    row = sql.exec("SELECT ? AS a, ? AS b, ? AS c, ? AS d", "ü", 1.5, None, b"\x00\x01").one()
    assert (row.a, row.b, row.c, bytes(row.d)) == ("ü", 1.5, None, b"\x00\x01")
    refused(Exception, lambda: sql.exec("SELECT ?"))
    refused(Exception, lambda: sql.exec("SELECT ?", 1, 2))


async def _several_statements(probe):
    sql = probe.ctx.storage.sql
    cursor = sql.exec(
        "CREATE TABLE t(x); INSERT INTO t VALUES(1); INSERT INTO t VALUES(2); SELECT x FROM t ORDER BY x"
    )
    assert [row.x for row in cursor] == [1, 2]


async def _returning(probe):
    sql = table(probe)
    assert sql.exec("INSERT INTO people(name) VALUES(?) RETURNING id, name", "Rosa").one() == {
        "id": 4,
        "name": "Rosa",
    }


async def _errors(probe):
    sql = table(probe)
    refused(Exception, lambda: sql.exec("SELEC 1"), "syntax error")
    refused(Exception, lambda: sql.exec("SELECT * FROM absent"), "no such table")
    refused(Exception, lambda: sql.exec("INSERT INTO people(name) VALUES('Ada')"), "UNIQUE constraint failed")
    refused(Exception, lambda: sql.exec("BEGIN TRANSACTION"), "transaction")
    refused(Exception, lambda: sql.exec("SELECT * FROM _cf_KV"))


async def _a_cursor_locks(probe):
    sql = table(probe)
    cursor = sql.exec("SELECT * FROM people")
    iterator = iter(cursor)
    next(iterator)
    refused(Exception, lambda: sql.exec("DROP TABLE people"), "locked")
    assert len(list(iterator)) == 2
    sql.exec("DROP TABLE people")


async def _json_and_search(probe):
    sql = probe.ctx.storage.sql
    assert sql.exec("SELECT json_extract('{\"a\":[1,2]}', '$.a[1]') AS x").one().x == 2
    sql.exec("CREATE VIRTUAL TABLE texts USING fts5(body)")
    sql.exec("INSERT INTO texts VALUES('the quick brown fox'), ('a lazy dog')")
    assert sql.exec("SELECT body FROM texts WHERE texts MATCH 'lazy'").one().body == "a lazy dog"


async def _with_keys(probe):
    storage = probe.ctx.storage
    sql = table(probe)
    await storage.put("key", 1)

    async def both(txn):
        sql.exec("INSERT INTO people(name) VALUES('Rosa')")
        await txn.put("key", 2)
        raise KeyError("undone")

    try:
        await storage.transaction(both)
    except KeyError:
        pass
    assert await storage.get("key") == 1
    assert sql.exec("SELECT count(*) AS n FROM people").one().n == 3


check_to_array = inside("_to_array")
check_one = inside("_one")
check_iteration = inside("_iteration")
check_raw = inside("_raw")
check_raw_to_py = inside("_raw_of_the_older_generation")
check_columns_and_counts = inside("_columns_and_counts")
check_database_size = inside("_size")
check_bindings = inside("_bindings")
check_several_statements = inside("_several_statements")
check_returning = inside("_returning")
check_errors = inside("_errors")
check_a_cursor_locks_its_table = inside("_a_cursor_locks")
check_json_and_full_text = inside("_json_and_search")
check_rows_and_keys_share_a_transaction = inside("_with_keys")

"""What SQL of user code may not reach, and what it gets of odd texts and rows."""

import math
import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moorage.durable_objects.runtime import DurableObject, SqlCursor, SqlError
from moorage.durable_objects.runtime.statements import new_name, parameter_names, split

from .conftest import Make

REFUSED = "not authorized: SQLITE_AUTH"
NO_STATEMENT = "SQL code did not contain a statement."


class Sql(DurableObject):
    cursor: SqlCursor

    def run(self, sql: str, *values: Any) -> list[Any]:
        return self.ctx.storage.sql.exec(sql, *values).raw().toArray()

    def refused(self, sql: str) -> str:
        try:
            self.ctx.storage.sql.exec(sql).toArray()
        except SqlError as error:
            return str(error)
        return "not refused"

    def after_size(self, sql: str) -> str:
        assert self.ctx.storage.sql.databaseSize
        return self.refused(sql)

    def begin(self, sql: str) -> list[Any]:
        self.cursor = self.ctx.storage.sql.exec(sql)
        return [self.cursor.next(), self.cursor.rowsWritten]

    def go_on(self) -> list[Any]:
        return [self.cursor.raw().toArray(), self.cursor.rowsWritten]

    def steps(self, sql: str) -> list[Any]:
        cursor, seen = self.ctx.storage.sql.exec(sql), []
        for _ in range(4):
            try:
                seen.append(cursor.raw().next().get("value"))
            except SqlError as error:
                seen.append(str(error))
        return seen


@pytest.mark.parametrize(
    "sql",
    [
        "CREATE TABLE temp.x(a)",
        "CREATE VIEW temp.x AS SELECT 1",
        "CREATE TRIGGER temp.x AFTER INSERT ON main.t BEGIN SELECT 1; END",
        "ALTER TABLE t RENAME TO _cf_METADATA",
        'ALTER TABLE main.t RENAME TO "_CF_x"',
        "ALTER TABLE t /* */ RENAME\nTO [_cf_x]",
        "ALTER TABLE t RENAME TO `_cf_x`",
        "ALTER TABLE t RENAME TO '_cf_x'",
        "PRAGMA table_info(_cf_KV)",
        "PRAGMA index_list('_cf_KV')",
        'PRAGMA quick_check("_cf_KV")',
        "PRAGMA foreign_key_check(_CF_kv)",
        "SELECT * FROM pragma_table_info('_cf_KV')",
        "PRAGMA table_info",
        "PRAGMA data_version=1",
        "PRAGMA foreign_keys=2",
        "PRAGMA optimize(t)",
    ],
)
async def test_refused(in_memory: Make, sql: str) -> None:
    runtime = await in_memory({"Sql": Sql})
    stub = runtime.namespaces["w-Sql"].getByName("a")
    await stub.run("CREATE TABLE t(a)")
    assert await stub.refused(sql) == REFUSED


@pytest.mark.parametrize("sql", ["PRAGMA page_count", "PRAGMA freelist_count"])
async def test_a_pragma_that_the_runtime_used_before_is_refused_all_the_same(in_memory: Make, sql: str) -> None:
    runtime = await in_memory({"Sql": Sql})
    assert await runtime.namespaces["w-Sql"].getByName("a").after_size(sql) == REFUSED


@pytest.mark.parametrize(
    "sql",
    [
        "ALTER TABLE t RENAME TO u",
        "ALTER TABLE t RENAME COLUMN a TO _cf_a",
        "ALTER TABLE t RENAME a TO _cf_a",
        "PRAGMA foreign_keys='on'",
        "PRAGMA foreign_keys = OFF",
        "PRAGMA optimize=0x10002",
        "PRAGMA quick_check(5)",
        "PRAGMA foreign_key_check",
    ],
)
async def test_allowed(in_memory: Make, sql: str) -> None:
    runtime = await in_memory({"Sql": Sql})
    stub = runtime.namespaces["w-Sql"].getByName("a")
    await stub.run("CREATE TABLE t(a)")
    assert await stub.refused(sql) == "not refused"


@pytest.mark.parametrize("sql", [";", "SELECT 1;;", "SELECT 1; ;", "SELECT 1; -- x", "/* x */"])
async def test_a_text_that_ends_without_a_statement(in_memory: Make, sql: str) -> None:
    runtime = await in_memory({"Sql": Sql})
    assert await runtime.namespaces["w-Sql"].getByName("a").refused(sql) == NO_STATEMENT


@pytest.mark.parametrize("sql", ["; SELECT 2", "SELECT 1;; SELECT 2", "SELECT 2;\n ", "SELECT 2;\t"])
async def test_a_text_that_ends_with_a_statement(in_memory: Make, sql: str) -> None:
    runtime = await in_memory({"Sql": Sql})
    assert await runtime.namespaces["w-Sql"].getByName("a").run(sql) == [[2]]


@pytest.mark.parametrize(
    ("sql", "offset"), [("  SELEC", 2), ("SELECT 1; SELEC", 0), ("SELECT 1;\n SELEC", 0), ("SELECT 1; /**/ SELEC", 5)]
)
async def test_an_offset_counts_from_where_sqlite_goes_on(in_memory: Make, sql: str, offset: int) -> None:
    runtime = await in_memory({"Sql": Sql})
    found = await runtime.namespaces["w-Sql"].getByName("a").refused(sql)
    assert found == f'near "SELEC": syntax error at offset {offset}: SQLITE_ERROR'


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("SELECT nope, nope", "no such column: nope at offset 7"),
        ("SELECT 'nope', nope -- nope", "no such column: nope at offset 15"),
        ("SELECT a FROM t WHERE a=nope AND nope=2", "no such column: nope at offset 24"),
        ("SELECT t.nope FROM t", "no such column: t.nope at offset 7"),
        ("SELECT t.a, t . [nope] FROM t", "no such column: t.nope at offset 12"),
        ("SELECT a, `nope` FROM t", "no such column: nope at offset 10"),
        ("SELECT é.nope FROM t", "no such column: é.nope at offset 7"),
        ("UPDATE t SET a=nope", "no such column: nope at offset 15"),
        ("UPDATE t SET nope=1", "no such column: nope"),
        ("UPDATE t SET a=1, nope=nope", "no such column: nope at offset 23"),
        ("SELECT 1, nope=2 FROM t", "no such column: nope at offset 10"),
        ("SELECT lower(lower())", "wrong number of arguments to function lower() at offset 13"),
        ("SELECT f(f(1))", "no such function: f at offset 9"),
        ("SELECT sqlite_version(), sqlite_version()", "not authorized to use function: sqlite_version at offset 7"),
        ("SELECT a, a FROM t, t AS u", "ambiguous column name: a at offset 7"),
        ("SELECT FROM t FROM", 'near "FROM": syntax error at offset 7'),
        ("SELECT a a a FROM t", 'near "a": syntax error at offset 11'),
        ("SELECT 1 FROM t; SELECT 1 FROM FROM", 'near "FROM": syntax error at offset 14'),
        ("CREATE TABLE t(t)", "table t already exists at offset 13"),
        ("SELECT max(a FROM t", 'near "FROM": syntax error at offset 13'),
        ("SELECT ?, #, #", 'unrecognized token: "#" at offset 10'),
    ],
)
async def test_offsets_of_texts_that_occur_more_than_once(in_memory: Make, sql: str, message: str) -> None:
    """As `sqlite3_error_offset` has them."""
    runtime = await in_memory({"Sql": Sql})
    stub = runtime.namespaces["w-Sql"].getByName("a")
    await stub.run("CREATE TABLE t(a)")
    assert await stub.refused(sql) == f"{message}: SQLITE_ERROR"


async def test_an_unread_returning_holds_no_commit_up(in_memory: Make) -> None:
    runtime = await in_memory({"Sql": Sql})
    stub = runtime.namespaces["w-Sql"].getByName("a")
    await stub.run("CREATE TABLE t(a)")
    assert await stub.begin("INSERT INTO t VALUES (1), (2), (3) RETURNING a") == [
        {"done": False, "value": {"a": 1}},
        3,
    ]
    assert await stub.go_on() == [[[2], [3]], 3]
    assert await stub.run("SELECT count(*) FROM t") == [[3]]


async def test_rows_before_an_error_are_given(in_memory: Make) -> None:
    runtime = await in_memory({"Sql": Sql})
    stub = runtime.namespaces["w-Sql"].getByName("a")
    text = "SELECT abs(column1) FROM (VALUES (1), (2), (-9223372036854775807 - 1))"
    assert await stub.steps(text) == [[1], "integer overflow: SQLITE_ERROR", None, None]
    text = "SELECT abs(column1) FROM (VALUES (1), (2), (3), (-9223372036854775807 - 1))"
    assert await stub.steps(text) == [[1], [2], "integer overflow: SQLITE_ERROR", None]


async def test_text_that_is_no_utf8_is_read(in_memory: Make) -> None:
    runtime = await in_memory({"Sql": Sql})
    stub = runtime.namespaces["w-Sql"].getByName("a")
    assert await stub.run("SELECT CAST(x'ff' AS TEXT), char(55296), 'é'") == [["\ufffd", "\ufffd\ufffd\ufffd", "é"]]
    await stub.run("CREATE TABLE t(a)")
    await stub.run("INSERT INTO t VALUES ('a'), (CAST(x'62ff' AS TEXT)), ('c')")
    assert await stub.run("SELECT a FROM t") == [["a"], ["b\ufffd"], ["c"]]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1e-7, None),
        ([1e-7, 1e21, 0.1, -0.0], "1e-7,1e+21,0.1,0"),
        ({"a": 1}, "[object Object]"),
        ({1}, "[object Set]"),
        ("\ud800", "\ufffd\ufffd\ufffd"),
        ("\ud83d\ude00", "😀"),
    ],
)
async def test_values_as_text(in_memory: Make, value: Any, text: str | None) -> None:
    runtime = await in_memory({"Sql": Sql})
    found = await runtime.namespaces["w-Sql"].getByName("a").run("SELECT ?", value)
    assert found == [[value if text is None else text]]


WORDS = [
    "SELECT", "FROM", "t", "a", "*", "(", ")", ",", ";", "'x'", "'", '"', "`", "[", "]", "--", "/*", "*/", "?", "?1",
    ":a", "@b", "$c", "0x1", "NULL", "CREATE", "TABLE", "TEMP", "TRIGGER", "BEGIN", "END", "INSERT", "INTO", "VALUES",
    "RETURNING", "UPDATE", "SET", "=", "DELETE", "PRAGMA", "foreign_keys", "EXPLAIN", "WITH", "AS", "ALTER", "RENAME",
    "TO", "_cf_KV", "DROP", "INDEX", "ON", "REINDEX", "ANALYZE", "VACUUM", "ATTACH", "x'0'", "||", "1e999",
    "json('x')", "zeroblob(2200001)", "abs(-9223372036854775807-1)", "SAVEPOINT", "COMMIT",
]  # fmt: skip
ODD = ["\x00", "\ud800", "é", "😀", "\n", " "]
SHAPES = [
    "{}",
    "SELECT {}",
    "SELECT {} FROM t",
    "INSERT INTO t VALUES ({})",
    "UPDATE t SET a={} RETURNING a",
    "SELECT 1;{}",
]
VALUES = [None, 1, 1.5, 2**70, "x", "\ud800", b"x", True, [], {}, math.nan, math.inf, object(), len, {1}]


class Fuzzed(DurableObject):
    def run(self, seed: int, count: int) -> tuple[int, int]:
        """How many texts were run and how many refused; whatever else is raised leaves."""
        chosen = random.Random(seed)
        sql = self.ctx.storage.sql
        sql.exec("CREATE TABLE IF NOT EXISTS t(a)")
        done = refused = 0
        for _ in range(count):
            words = chosen.choices(WORDS + ODD, k=chosen.randint(0, 6))
            text = chosen.choice(SHAPES).format(chosen.choice(["", " "]).join(words))
            values = chosen.choices(VALUES, k=chosen.choice([0, 0, 0, 1, 2]))
            try:
                cursor = sql.exec(text, *values)
                chosen.choice([cursor.toArray, cursor.next, cursor.raw().toArray])()
                done += 1
            except SqlError:
                refused += 1
        return done, refused


async def test_no_text_and_no_value_raises_anything_else(in_memory: Make) -> None:
    runtime = await in_memory({"Fuzzed": Fuzzed})
    done, refused = await runtime.namespaces["w-Fuzzed"].getByName("a").run(1, 1500)
    assert done + refused == 1500
    assert min(done, refused) > 10
    assert await runtime.namespaces["w-Fuzzed"].getByName("a").run(2, 1) in ([1, 0], [0, 1])


@given(words=st.lists(st.sampled_from(WORDS + ODD), max_size=12), glue=st.sampled_from(["", " "]))
def test_statements_lie_in_their_text_in_order(words: list[str], glue: str) -> None:
    text = glue.join(words)
    end = 0
    for statement in split(text):
        start = statement.offset - len(statement.before)
        assert end <= start
        assert text[start:].startswith(statement.before + statement.sql)
        end = statement.offset + len(statement.sql)
        assert isinstance(parameter_names(statement.sql), tuple)
        new_name(statement.sql)

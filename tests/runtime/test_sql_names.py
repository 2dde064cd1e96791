"""Parameters by name, bound by position, on every version of the standard module."""

from typing import Any

import pytest

from moorage.durable_objects.runtime import DurableObject
from moorage.durable_objects.runtime.statements import parameter_names, split

from .conftest import Make


@pytest.mark.parametrize(
    ("sql", "names"),
    [
        ("SELECT :x, @y, $z", ("x", "y", "z")),
        ("SELECT :x, :x", ("x",)),
        ("SELECT ':x', \"@y\", [:z], `:w` -- :c\n/* :d */", ()),
        ("SELECT ?, :x", ()),
        ("SELECT :a, @a", ()),
        ("SELECT x::text", ("text",)),
    ],
)
def test_names(sql: str, names: tuple[str, ...]) -> None:
    assert parameter_names(sql) == names


def test_a_semicolon_in_a_text_ends_nothing() -> None:
    assert [statement.sql for statement in split("SELECT ';' AS \":a;\"; SELECT 2")] == [
        "SELECT ';' AS \":a;\";",
        "SELECT 2",
    ]


class Named(DurableObject):
    def select(self, sql: str, *values: Any) -> list[Any]:
        return self.ctx.storage.sql.exec(sql, *values).raw().toArray()


async def test_bound_by_position(in_memory: Make) -> None:
    runtime = await in_memory({"Named": Named})
    stub = runtime.namespaces["w-Named"].getByName("a")
    assert await stub.select("SELECT :x, @y, :x", 1, "two") == [[1, "two", 1]]
    assert await stub.select("SELECT ?2, ?1", "a", "b") == [["b", "a"]]
    assert await stub.select("EXPLAIN QUERY PLAN SELECT 1") != []

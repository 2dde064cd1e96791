"""The route table: dictionaries for hot routes, claims that collide, grammar of the last segment."""

import pytest

from moorage.worker.routing import Call, Result, Route
from moorage.worker.table import RouteTable


async def handler(call: Call) -> Result:
    return {}


def route(methods: tuple[str, ...], path: str, digits: bool = False) -> Route:
    accepts = (lambda params: params["n"].isdigit()) if digits else None
    return Route(methods, path, handler, accepts=accepts)


def found(table: RouteTable, method: str, path: str) -> object:
    result = table.find(method, path)
    return None if result is None else (result[0].path, dict(result[1]))


def test_exact_paths_and_methods() -> None:
    table = RouteTable([route(("GET",), "/a"), route(("PUT", "POST"), "/a"), route((), "/any")])
    assert found(table, "GET", "/a") == ("/a", {})
    assert found(table, "POST", "/a") == ("/a", {})
    assert found(table, "DELETE", "/a") is None
    assert found(table, "BREW", "/any") == ("/any", {})
    assert found(table, "GET", "/a/") is None


def test_the_last_segment() -> None:
    table = RouteTable(
        [route(("GET",), "/c/{n}", digits=True), route(("GET",), "/c/{name}"), route(("GET",), "/c/fixed")]
    )
    assert found(table, "GET", "/c/12") == ("/c/{n}", {"n": "12"})
    assert found(table, "GET", "/c/x%20y") == ("/c/{name}", {"name": "x%20y"})
    assert found(table, "GET", "/c/fixed") == ("/c/fixed", {})
    assert found(table, "GET", "/c/") is None
    assert found(table, "GET", "/c/a/b") is None
    assert found(table, "PUT", "/c/12") is None


def test_variables_anywhere() -> None:
    table = RouteTable(
        [
            route(("GET",), "/r/{slug}/items/{n}"),
            route(("GET",), "/r/{slug}/closed/{n}"),
            route(("GET",), "/r/{slug}/list"),
            route(("POST",), "/r/{slug}/list"),
        ]
    )
    assert table.others == []
    assert found(table, "GET", "/r/a/items/7") == ("/r/{slug}/items/{n}", {"slug": "a", "n": "7"})
    assert found(table, "GET", "/r/a/closed/7") == ("/r/{slug}/closed/{n}", {"slug": "a", "n": "7"})
    assert found(table, "POST", "/r/a/list") == ("/r/{slug}/list", {"slug": "a"})
    for path in ("/r/a/plans/7", "/r//items/7", "/r/a/items/", "/r/a/items/7/", "/r/a/items", "/x/a/items/7"):
        assert found(table, "GET", path) is None


def test_the_rest_is_left_to_the_router() -> None:
    table = RouteTable([route(("GET",), "/r/{slug}/v{n}")])
    assert [other.path for other in table.others] == ["/r/{slug}/v{n}"]
    assert found(table, "GET", "/r/a/v1") is None


@pytest.mark.parametrize("path", ["/a", "/a/{n}"])
def test_two_claims_of_one_place(path: str) -> None:
    with pytest.raises(ValueError, match="declared twice"):
        RouteTable([route(("GET",), path), route(("PUT", "GET"), path)])

"""The route table: exact paths and paths with one variable last segment by dictionary, the rest by Starlette."""

from collections.abc import Iterable, Mapping
from typing import TypeAlias

from .routing import Route

Methods: TypeAlias = dict[str, Route]
ANY = "*"


def _variable(segment: str) -> str | None:
    return segment[1:-1] if segment.startswith("{") and segment.endswith("}") else None


class RouteTable:
    """Finds a route by method and normalised raw path.

    Raises ValueError at construction when two routes claim the same method of a path.
    """

    def __init__(self, routes: Iterable[Route]) -> None:
        self._exact: dict[str, Methods] = {}
        self._last: dict[str, list[tuple[str, Methods]]] = {}
        self.others: list[Route] = []
        claimed: set[tuple[str, str, int]] = set()
        for route in routes:
            for method in route.methods or (ANY,):
                # two templates may differ in their grammar alone
                claim = (method, route.path, id(route.accepts))
                if claim in claimed:
                    raise ValueError(f"{method} {route.path} is declared twice")
                claimed.add(claim)
            self._add(route)

    def _add(self, route: Route) -> None:
        methods = dict.fromkeys(route.methods or (ANY,), route)
        if "{" not in route.path:
            self._exact.setdefault(route.path, {}).update(methods)
            return
        parent, _, last = route.path.rpartition("/")
        name = _variable(last)
        if "{" in parent or name is None:
            self.others.append(route)
        else:
            self._last.setdefault(parent, []).append((name, methods))

    def find(self, method: str, path: str) -> tuple[Route, Mapping[str, str]] | None:
        """The route and its path parameters; None when no dictionary holds it (a route of `others` still may)."""
        methods = self._exact.get(path)
        if methods is not None:
            route = methods.get(method) or methods.get(ANY)
            return None if route is None else (route, {})
        parent, _, last = path.rpartition("/")
        for name, methods in self._last.get(parent, ()):
            route = methods.get(method) or methods.get(ANY)
            if route is not None and last:
                params = {name: last}
                if route.accepts is None or route.accepts(params):
                    return route, params
        return None

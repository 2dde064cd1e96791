"""The route table: paths whose variables are whole segments by dictionary, the rest by Starlette."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from .routing import Route

Methods: TypeAlias = dict[str, Route]
ANY = "*"


def _variable(segment: str) -> str | None:
    return segment[1:-1] if segment.startswith("{") and segment.endswith("}") else None


@dataclass(frozen=True, slots=True)
class _Shape:
    """Templates that have their variables at the same places: where the fixed segments are, and what they may be."""

    fixed: tuple[int, ...]
    names: dict[int, str]
    table: dict[tuple[str, ...], list[Methods]]


class RouteTable:
    """Finds a route by method and normalised raw path.

    Raises ValueError at construction when two routes claim the same method of a path.
    """

    def __init__(self, routes: Iterable[Route]) -> None:
        self._exact: dict[str, Methods] = {}
        self._last: dict[str, list[tuple[str, Methods]]] = {}
        self._shapes: dict[int, list[_Shape]] = {}
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
        if "{" not in parent and name is not None:
            self._last.setdefault(parent, []).append((name, methods))
        elif not self._add_shape(route.path.split("/"), methods):
            self.others.append(route)

    def _add_shape(self, segments: list[str], methods: Methods) -> bool:
        """Keeps a template with several variables; False when a variable is not a whole segment."""
        names = {place: name for place, segment in enumerate(segments) if (name := _variable(segment)) is not None}
        fixed = tuple(place for place in range(len(segments)) if place not in names)
        if any("{" in segments[place] for place in fixed):
            return False
        shapes = self._shapes.setdefault(len(segments), [])
        shape = next((known for known in shapes if known.fixed == fixed and known.names == names), None)
        if shape is None:
            shape = _Shape(fixed, names, {})
            shapes.append(shape)
        shape.table.setdefault(tuple(segments[place] for place in fixed), []).append(methods)
        return True

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
        return self._find_shape(method, path.split("/"))

    def _find_shape(self, method: str, segments: list[str]) -> tuple[Route, Mapping[str, str]] | None:
        for shape in self._shapes.get(len(segments), ()):
            for methods in shape.table.get(tuple(segments[place] for place in shape.fixed), ()):
                route = methods.get(method) or methods.get(ANY)
                params = {name: segments[place] for place, name in shape.names.items()}
                if route is not None and all(params.values()) and (route.accepts is None or route.accepts(params)):
                    return route, params
        return None

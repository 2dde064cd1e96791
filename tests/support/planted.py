"""Wrong expectations, planted: for every place of a recorded value, one that says something else."""

import copy
from collections.abc import Iterator
from typing import Any

Path = tuple[Any, ...]


def wrong_values(value: Any, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    """Yields a place in `value` and what to put there, for every leaf, entry and list, in order."""
    match value:
        case bool():
            yield path, not value
        case int() | float():
            yield path, value + 1.5
        case str():
            yield path, f"{value} planted"
        case None:
            yield path, "planted"
        case list():
            yield path, [*value, "planted"]
            if value:
                yield path, value[:-1]
            for index, item in enumerate(value):
                yield from wrong_values(item, (*path, index))
        case dict():
            for key, item in value.items():
                yield from wrong_values(item, (*path, key))


def planted(value: Any, path: Path, wrong: Any) -> Any:
    """A copy of `value` with `wrong` at `path`."""
    if not path:
        return wrong
    made = copy.deepcopy(value)
    holder = made
    for step in path[:-1]:
        holder = holder[step]
    holder[path[-1]] = wrong
    return made

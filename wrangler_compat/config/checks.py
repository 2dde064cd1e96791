"""The checks that every section is put together from. Each adds to a report and never raises.

Codes: `required`, `wrong-type`, `not-one-of`, `unexpected-field` (a warning: an unknown key stops nothing).
"""

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass

from .diagnostics import Report
from .values import MISSING, Object, get, has_type, is_object, show


@dataclass(frozen=True, slots=True)
class Scope:
    """Where a check runs.

    `environment` is the chosen environment's name and `top` the finished top level values while its section is
    checked; both are None at the top level.
    """

    report: Report
    environment: str | None = None
    top: Object | None = None
    toml: bool = False

    def path(self, key: str) -> str:
        """The full path of a key that environments do not inherit."""
        return key if self.environment is None else f"env.{self.environment}.{key}"

    def top_value(self, *keys: str) -> object:
        """The top level's value, or `MISSING`."""
        return MISSING if self.top is None else get(self.top, *keys)


Check = Callable[[Scope, str, object], None]
"""Called with the scope, the key and its value (`MISSING` when absent)."""

A_TYPE = {"text": "a text", "number": "a number", "boolean": "true or false", "object": "an object", "list": "a list"}


def wrong_type(report: Report, path: str, value: object, wanted: str) -> None:
    """Adds the error for a value of the wrong type."""
    report.error("wrong-type", path, f'"{path}" must be {A_TYPE.get(wanted, wanted)}, but is {show(value)}.')


def required(report: Report, path: str, value: object, wanted: str, choices: Collection[str] = ()) -> bool:
    """A value that must be there, of that type and among the choices. Returns whether it is right."""
    if value is MISSING:
        report.error("required", path, f'"{path}" is required.')
        return False
    return optional(report, path, value, wanted, choices)


def optional(report: Report, path: str, value: object, wanted: str, choices: Collection[str] = ()) -> bool:
    """A value that may be absent, else of that type and among the choices. Returns whether it is right."""
    if value is MISSING:
        return True
    if not has_type(value, wanted):
        wrong_type(report, path, value, wanted)
        return False
    if choices and value not in choices:
        names = ", ".join(f'"{choice}"' for choice in choices)
        report.error("not-one-of", path, f'"{path}" must be one of {names}, but is {show(value)}.')
        return False
    return True


def typed_list(report: Report, path: str, value: object, wanted: str = "text") -> bool:
    """A list of values of one type, or absent; each wrong element is an error of its own."""
    if value is MISSING:
        return True
    if not isinstance(value, list):
        wrong_type(report, path, value, f"a list of {wanted}s")
        return False
    right = [optional(report, f"{path}[{index}]", item, wanted) for index, item in enumerate(value)]
    return all(right)


def unexpected(report: Report, container: str, keys: Iterable[str], known: Collection[str]) -> None:
    """Warns of each key that is not known in `container`."""
    place = "the top level" if container == "top-level" else container
    for key in keys:
        if key not in known:
            report.warn(
                "unexpected-field",
                f"{container}:{key}",
                f'"{key}" is not a key of {place}, and is ignored. Is it misspelt, or newer than this version?',
            )


def of_type(wanted: str, *choices: str) -> Check:
    """A check for a key that holds one plain value."""

    def check(scope: Scope, key: str, value: object) -> None:
        optional(scope.report, key, value, wanted, choices)

    return check


def text_list(scope: Scope, key: str, value: object) -> None:
    """A key that holds a list of texts; wrong elements make one error of the whole list."""
    if value is MISSING:
        return
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        wrong_type(scope.report, key, value, "a list of texts")


def nothing(scope: Scope, key: str, value: object) -> None:
    """The check of a key that the host never looks into."""


def object_or_error(scope: Scope, path: str, value: object) -> Object | None:
    """`value` if it is an object, else None, with an error unless it is absent."""
    if value is MISSING:
        return None
    if not is_object(value):
        wrong_type(scope.report, path, value, "object")
        return None
    return value

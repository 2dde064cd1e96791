"""Where a result of the Durable Object replayer differs from what was observed.

An expected undefined may be None here, or a member that is not there; nothing else may be missing, and nothing may be
there that was not observed. The class of a buffer cannot be seen in Python: what comes back is held to the class that
went in, and what SQL and sockets give to ArrayBuffer.
"""

import json
import re
from collections.abc import Iterator
from typing import Any, Final

from .do_rules import Difference
from .do_values import UNDEFINED, Entries, fold_expected

BUFFERS: Final = ("ArrayBuffer", "Uint8Array")
HEAD_LENGTH: Final = 24
"""How much of a long text the recording shows."""
GAP_RATIO: Final = 1.3
"""Retry delays are lengthened by up to a quarter, in the recording and here."""
GAP_SLACK_MS: Final = 250

_PLACEHOLDERS: Final = {"<ref>": r"[0-9a-z]+", "<id>": "[0-9a-f]{64}"}


class _Absent:
    def __repr__(self) -> str:
        return "nothing"


ABSENT: Final = _Absent()


def compare_case(case: dict[str, Any], got: list[Any]) -> Iterator[Difference]:
    """Yields every difference between the observations of a case and the results of its steps."""
    for number, (step, expected, result) in enumerate(zip(case["steps"], case["observed"], got, strict=True)):
        yield from differences(fold_expected(expected), result, case, step, (number,))


def compare_gaps(case: dict[str, Any], gaps: dict[str, list[int]]) -> Iterator[Difference]:
    """Yields where the time between two log entries is of another size than the recorded one."""
    for number, recorded in case.get("timing_ms", {}).items():
        ours = gaps.get(number, [])
        alike = len(ours) == len(recorded) and all(map(_same_size, recorded, ours))
        if not alike:
            step = case["steps"][int(number)]
            yield Difference((int(number), "timing_ms"), recorded, ours, case, step)


def _same_size(recorded: int, ours: int) -> bool:
    low, high = sorted((recorded, ours))
    return high - low <= GAP_SLACK_MS or high <= low * GAP_RATIO


def differences(
    expected: Any, got: Any, case: dict[str, Any], operation: dict[str, Any], path: tuple[Any, ...] = ()
) -> Iterator[Difference]:
    """Yields where a folded result differs from a folded expectation."""
    if expected == UNDEFINED and (got is None or got is ABSENT or got == UNDEFINED):
        return
    if isinstance(expected, str) and expected.startswith("alarm results ") and isinstance(got, str):
        expected, got = (fold_expected(json.loads(text.partition(" results ")[2])) for text in (expected, got))
    if isinstance(expected, str) and expected.startswith('[{"') and isinstance(got, list):
        expected = fold_expected(json.loads(expected))  # `run` answers JSON text there
    if _is_buffer(expected) and _is_buffer(got):
        if expected[1] != got[1] or expected[2] not in _classes(expected[1], case, operation):
            yield Difference(path, expected, got, case, operation)
    elif isinstance(expected, dict) and isinstance(got, dict) and "$" not in expected:
        yield from _member_differences(expected, got, case, operation, path)
    elif isinstance(expected, list) and isinstance(got, list) and len(expected) == len(got):
        for index, (one, other) in enumerate(zip(expected, got, strict=True)):
            inner = operation
            if path and path[-1] in {"results", "inner"}:
                program = operation.get("run") or []
                inner = program[index] if index < len(program) and isinstance(program[index], dict) else operation
            yield from differences(one, other, case, inner, (*path, index))
    elif not _equal(expected, got):
        shown = got[:50] if isinstance(got, str) and len(got) > 1000 else got
        yield Difference(path, expected, shown, case, operation)


def _member_differences(
    expected: dict[str, Any],
    got: dict[str, Any],
    case: dict[str, Any],
    operation: dict[str, Any],
    path: tuple[Any, ...],
) -> Iterator[Difference]:
    if ("err" in expected) != ("err" in got):
        yield Difference(path, expected, got, case, operation)
        return
    every_key_counts = isinstance(expected, Entries)
    for key in {**expected, **got}:
        one, other = expected.get(key, ABSENT), got.get(key, ABSENT)
        if ABSENT in (one, other) and (every_key_counts or one != UNDEFINED):
            yield Difference((*path, key), one, other, case, operation)
        else:
            yield from differences(one, other, case, operation, (*path, key))
    # Order counts where the platform gave a Map: results of list() and of get() with many keys.
    in_order = [key for key in expected if key in got] == [key for key in got if key in expected]
    if not in_order and operation.get("op", "").endswith((".list", ".get")) and path[-1:] == ("ok",):
        yield Difference(path, list(expected), list(got), case, operation)


def _equal(expected: Any, got: Any) -> bool:
    if isinstance(expected, list) and expected[:1] == ["string"] and isinstance(got, str):
        return bool(len(got) == expected[1] and got[:HEAD_LENGTH] == expected[2])
    if isinstance(expected, str) and isinstance(got, str):
        return expected == got or re.fullmatch(_pattern(expected), got) is not None
    if isinstance(got, int) and abs(got) > 2**53 and isinstance(expected, int | float):
        return float(expected) == float(got)  # a number of the recording is a double; integers keep their digits here
    return bool(expected == got) and isinstance(expected, bool) == isinstance(got, bool)


def _pattern(expected: str) -> str:
    text = re.escape(expected)
    for placeholder, meaning in _PLACEHOLDERS.items():
        text = text.replace(re.escape(placeholder), meaning)
    return text


def _is_buffer(value: Any) -> bool:
    return isinstance(value, list) and value[:1] == ["bytes"]


def _classes(digits: str, case: dict[str, Any], operation: dict[str, Any]) -> set[Any]:
    """The classes that a buffer with these bytes may have where it comes out."""
    if "ws" in operation:
        return {None, "ArrayBuffer"}
    if operation.get("op") in {"sql", "cursor"}:
        return {"ArrayBuffer"}
    went_in = {buffer.get("type") for buffer in _buffers(case["steps"]) if buffer["hex"] == digits}
    return went_in or set(BUFFERS)  # made by the runtime: its class is not known here


def _buffers(value: Any) -> Iterator[dict[str, Any]]:
    if isinstance(value, list):
        for item in value:
            yield from _buffers(item)
    elif isinstance(value, dict):
        if value.get("$") == "bytes":
            yield value
        for item in value.values():
            yield from _buffers(item)

"""Moving a lane from its legacy projection to events: reader switch and parity (the seed's "Migration")."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from .canonical import Json, canonical_text
from .refusals import LedgerRefusal


class ReaderMode(StrEnum):
    """Which state a lane's readers believe. `both` reads both, compares them, and believes the legacy one."""

    legacy = "legacy"
    both = "both"
    events = "events"


def reader_mode(text: str | None) -> ReaderMode:
    """The mode of a setting; `legacy` when there is none. Raises reader-mode."""
    try:
        return ReaderMode(text) if text else ReaderMode.legacy
    except ValueError:
        raise LedgerRefusal("reader-mode", f"must be one of {', '.join(ReaderMode)}", "reader") from None


@dataclass(frozen=True, slots=True)
class Difference:
    """Where two views differ: a JSON pointer, and the canonical text of either side (None where it is absent)."""

    pointer: str
    legacy: str | None
    events: str | None


def differences(legacy: Json, events: Json, pointer: str = "") -> Iterator[Difference]:
    """Every place where the two values differ, in order of the pointers. None at all means parity."""
    if type(legacy) is dict and type(events) is dict:
        for name in sorted({*legacy, *events}):
            inner = f"{pointer}/{name.replace('~', '~0').replace('/', '~1')}"
            if name not in legacy:
                yield Difference(inner, None, canonical_text(events[name]))
            elif name not in events:
                yield Difference(inner, canonical_text(legacy[name]), None)
            else:
                yield from differences(legacy[name], events[name], inner)
    elif type(legacy) is list and type(events) is list and len(legacy) == len(events):
        for index, (one, two) in enumerate(zip(legacy, events, strict=True)):
            yield from differences(one, two, f"{pointer}/{index}")
    elif canonical_text(legacy) != canonical_text(events):
        yield Difference(pointer, canonical_text(legacy), canonical_text(events))


def read_lane(
    mode: ReaderMode,
    legacy: Callable[[], Json],
    events: Callable[[], Json],
    on_difference: Callable[[list[Difference]], Any],
) -> Json:
    """The view of a lane under `mode`. Only the sides that the mode needs are read."""
    if mode is ReaderMode.events:
        return events()
    believed = legacy()
    if mode is ReaderMode.both:
        found = list(differences(believed, events()))
        if found:
            on_difference(found)
    return believed

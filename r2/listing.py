"""A page of a listing over an ordered store (spec durable-object-semantics 15.10). Pure."""

from collections.abc import Callable, Sequence
from typing import TypeVar

from .backend import Page, Query, Record
from .keys import last_key_below, successor

Row = TypeVar("Row")
Scan = Callable[[bytes, bytes | None, int], Sequence[tuple[bytes, Row]]]
"""`scan(low, high, limit)`: the first rows with low <= key < high (no upper end when None), ordered by key."""


def group_of(key: bytes, prefix: bytes, delimiter: bytes) -> bytes | None:
    """The group that `key` falls into: up to and with the first delimiter after the prefix; None when there is
    none.
    """
    if not delimiter:
        return None
    at = key.find(delimiter, len(prefix))
    return None if at < 0 else key[: at + len(delimiter)]


def page_of(query: Query, scan: Scan[Row], record: Callable[[Row], Record]) -> Page:
    """The page that `query` asks for. A group costs one scan however many keys are in it."""
    prefix, delimiter = query.prefix.encode(), query.delimiter.encode()
    high = successor(prefix)
    low = prefix if query.after is None else max(prefix, query.after.encode() + b"\0")
    records: list[Record] = []
    prefixes: list[str] = []
    position: str | None = None
    while True:
        wanted = query.limit - len(records) - len(prefixes) + 1
        rows = scan(low, high, wanted)
        group: bytes | None = None
        for key, row in rows:
            if len(records) + len(prefixes) == query.limit:
                return Page(records, prefixes, position)
            group = group_of(key, prefix, delimiter)
            if group is not None:
                prefixes.append(group.decode())
                position = last_key_below(prefixes[-1])
                break
            records.append(record(row))
            position = key.decode()
        # one row more than fits was asked for, so running out of rows is the end
        above = None if group is None else successor(group)
        if above is None:
            return Page(records, prefixes, None)
        low = above

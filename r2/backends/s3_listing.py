"""A page of a listing from an S3 store, with the platform's cursors and limits."""

from collections.abc import Iterator
from typing import Any

from ..backend import Page, Query, Record
from ..keys import last_key_below
from ..listing import group_of
from .s3_calls import NOT_IN_XML
from .s3_metadata import listed_record


def list_page(client: Any, bucket: str, query: Query) -> Page:
    """The page that `query` asks for. One request, or two when it begins inside a group. Blocks."""
    records: list[Record] = []
    prefixes: list[str] = []
    position: str | None = None
    after = query.after
    begun = _begun_group(query)
    if begun is not None and after is not None:
        # stores disagree on whether a group that lies partly before the start is still shown
        if after != last_key_below(begun) and _any(client, bucket, begun, after):
            prefixes.append(begun)
        after = position = last_key_below(begun)
    for key, record in _items(client, bucket, query, after, query.limit - len(prefixes)):
        if len(records) + len(prefixes) == query.limit:
            return Page(records, prefixes, position)
        if record is None:
            prefixes.append(key)
            position = last_key_below(key)
        else:
            records.append(record)
            position = key
    return Page(records, prefixes, None)


def _begun_group(query: Query) -> str | None:
    """The group that the listing would begin within."""
    if not query.delimiter or query.after is None or not query.after.startswith(query.prefix):
        return None
    group = group_of(query.after.encode(), query.prefix.encode(), query.delimiter.encode())
    return None if group is None else group.decode()


def _any(client: Any, bucket: str, prefix: str, after: str) -> bool:
    answer = client.list_objects_v2(Bucket=bucket, Prefix=prefix, StartAfter=after, MaxKeys=1)
    return bool(answer.get("Contents"))


def _items(
    client: Any, bucket: str, query: Query, after: str | None, wanted: int
) -> Iterator[tuple[str, Record | None]]:
    """Objects and groups (without a record) after `after`, in order; one more than `wanted` where there is one."""
    fields: dict[str, Any] = {"Bucket": bucket}
    if query.prefix:
        fields["Prefix"] = query.prefix
    if query.delimiter:
        fields["Delimiter"] = query.delimiter
    start = after or ""
    unnameable = NOT_IN_XML.search(start)
    if unnameable is not None:
        # the answer repeats it, in XML; what is cut off is a prefix, so it sorts before, and the loop skips the rest
        start = start[: unnameable.start()]
    if start:
        fields["StartAfter"] = start
    while True:
        answer = client.list_objects_v2(**fields, MaxKeys=min(1000, wanted + 1))
        items: list[tuple[str, Record | None]] = [
            (item["Key"], listed_record(item["Key"], item)) for item in answer.get("Contents", [])
        ]
        items += [(item["Prefix"], None) for item in answer.get("CommonPrefixes", [])]
        items.sort(key=lambda item: item[0])
        for key, record in items:
            if after is not None and (key <= after or (record is None and last_key_below(key) <= after)):
                continue
            yield key, record
        if not answer.get("IsTruncated"):
            return
        fields.pop("StartAfter", None)
        fields["ContinuationToken"] = answer["NextContinuationToken"]

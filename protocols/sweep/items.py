"""Items: merge by id, redaction, evidence (sweep state schema; spec sweep-state 5 and 8)."""

from typing import Final

from .document import EVIDENCE, Json, Malformed
from .reading import parse_json

REDACTED: Final = ("body", "quote")
CLOSED: Final = "closed"
DOWNGRADED: Final = "fix_pending"


def parse_fields(text: str) -> dict[str, Json]:
    """The fields of `--json`. Raises Malformed when it is not JSON, or no object."""
    try:
        fields = parse_json(text)
    except ValueError as error:
        raise Malformed(f"the item is not JSON: {error}") from None
    if not isinstance(fields, dict):
        raise Malformed("the item must be a JSON object")
    return fields


def merged(existing: Json, fields: dict[str, Json], source: str, item: str) -> dict[str, Json]:
    """The record after an upsert: the keys given replace those there, one level deep; `source` and `id` are set.

    null is a value and deletes nothing. An existing entry that is no map counts as none.
    """
    base = existing if isinstance(existing, dict) else {}
    return {**base, **fields, "source": source, "id": item}


def redacted(record: dict[str, Json], source: Json) -> dict[str, Json]:
    """`record` as it may reach the disk: without `body` and `quote` when it, or its source's entry, is sensitive.

    Only the boolean true counts; nested fields of those names stay.
    """
    if record.get("sensitive") is True or (isinstance(source, dict) and source.get("sensitive") is True):
        return {key: value for key, value in record.items() if key not in REDACTED}
    return record


def lacks_evidence(record: Json) -> bool:
    """Whether `validate` downgrades the item: exactly `closed`, and one of the three fields missing or falsy."""
    return (
        isinstance(record, dict)
        and record.get("status") == CLOSED
        and not all(record.get(field) for field in EVIDENCE)
    )


def downgraded(record: dict[str, Json]) -> dict[str, Json]:
    """The item with the status that an unproven `closed` falls back to."""
    return {**record, "status": DOWNGRADED}

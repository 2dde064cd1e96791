"""Import of an older tracker's file: cursors of channels, and items (spec sweep-state 5, import-legacy).

Best effort: what has not the known shape is skipped, and nothing that the state already has is changed or moved back.
"""

from dataclasses import dataclass
from typing import Final

from .cursors import cursor_of, may_move
from .document import Document, Json, mapping
from .reading import SubsetError, parse, parse_json

CURSOR_FIELDS: Final = ("last_processed_ts", "cursor")
ITEM_FIELDS: Final[dict[str, tuple[str, ...]]] = {
    "status": ("status",),
    "source": ("source", "channel"),
    "title": ("title",),
    "url": ("url",),
}
"""Field of an item, and the legacy fields it is taken from: the first that is not empty."""


@dataclass(frozen=True, slots=True)
class Imported:
    """The document after an import and how much came in."""

    document: Document
    cursors: int
    items: int


def parse_legacy(text: str | None) -> Json:
    """The value of a legacy file: JSON, else the YAML subset; None when it is neither, or there is none."""
    if text is None:
        return None
    try:
        return parse_json(text)
    except ValueError:
        pass
    try:
        return parse(text)
    except SubsetError:
        return None


def parse_source_map(text: str | None) -> dict[str, str]:
    """Source ids by legacy channel id; empty for what is no JSON object."""
    if not text:
        return {}
    try:
        value = parse_json(text)
    except ValueError:
        return {}
    return {key: str(target) for key, target in value.items()} if isinstance(value, dict) else {}


def _first(entry: dict[str, Json], names: tuple[str, ...]) -> Json:
    for name in names:
        if entry.get(name):
            return entry[name]
    return None


def _import_cursors(channels: Json, sources: dict[str, Json], source_map: dict[str, str]) -> int:
    count = 0
    if not isinstance(channels, dict):
        return 0
    for channel, entry in channels.items():
        found = _first(entry, CURSOR_FIELDS) if isinstance(entry, dict) else None
        source = source_map.get(str(channel), str(channel))
        existing = sources.get(source, {})
        if found is None or not isinstance(existing, dict) or not may_move(cursor_of(existing), str(found)):
            continue
        sources[source] = {**existing, "cursor": str(found)}
        count += 1
    return count


def _import_items(legacy: Json, items: dict[str, Json]) -> int:
    if isinstance(legacy, list):
        entries = [(str(entry["id"]), entry) for entry in legacy if isinstance(entry, dict) and entry.get("id")]
    else:
        entries = list(legacy.items()) if isinstance(legacy, dict) else []
    count = 0
    for key, entry in entries:
        existing = items.get(key, {})
        if not isinstance(entry, dict) or not isinstance(existing, dict):
            continue
        found = {name: _first(entry, names) for name, names in ITEM_FIELDS.items()}
        items[key] = {**{name: value for name, value in found.items() if value is not None}, **existing}
        count += 1
    return count


def import_legacy(document: Document, legacy: Json, source_map: dict[str, str]) -> Imported:
    """What `legacy` adds to `document`. Raises Malformed when the document's own `sources` or `items` are no maps."""
    sources, items = dict(mapping(document, "sources")), dict(mapping(document, "items"))
    if not isinstance(legacy, dict):
        return Imported(document, 0, 0)
    cursors = _import_cursors(legacy.get("channels"), sources, source_map)
    count = _import_items(legacy.get("items"), items)
    return Imported({**document, "sources": sources, "items": items}, cursors, count)

"""What each subcommand does (spec sweep-state 5): a loaded state and arguments in, an `Outcome` out.

No operation changes what it is given. Time is an argument, `now`, a text that is stored as it came. Every operation
answers CORRUPT for a corrupt state, and ERROR, without writing, where a part of the document has the wrong type.
"""

import functools
from collections.abc import Callable
from typing import Concatenate, Final, ParamSpec

from . import cursors, items, lease, legacy
from .document import OUTCOMES, Document, Json, Malformed, Outcome, Standing, State, Word, fresh, item_key, mapping
from .reading import parse_json

P = ParamSpec("P")

NO_STATE: Final = Outcome(Word.NO_STATE, reason="there is no state yet")
LOST_WITHOUT_STATE: Final = Outcome(Word.LEASE_LOST, reason="there is no state yet, so nobody holds the lease")


def _operation(rule: Callable[Concatenate[State, P], Outcome]) -> Callable[Concatenate[State, P], Outcome]:
    @functools.wraps(rule)
    def operation(state: State, /, *args: P.args, **kwargs: P.kwargs) -> Outcome:
        if state.standing is Standing.CORRUPT:
            return Outcome(Word.CORRUPT, reason=state.reason)
        try:
            return rule(state, *args, **kwargs)
        except Malformed as error:
            return Outcome(Word.ERROR, reason=str(error))

    return operation


def _document(state: State) -> Document:
    return fresh() if state.standing is Standing.ABSENT else state.document


def _refused(verdict: lease.Verdict) -> Outcome:
    return Outcome(verdict.word, reason=verdict.reason)


@_operation
def read(state: State) -> Outcome:
    """The whole document."""
    return NO_STATE if state.standing is Standing.ABSENT else Outcome(Word.OK, state.document)


@_operation
def validate(state: State) -> Outcome:
    """Downgrades every `closed` item without its evidence; needs no lease and leaves its stamp.

    Writes only when something was downgraded (SW-9).
    """
    if state.standing is Standing.ABSENT:
        return Outcome(Word.OK, {"downgraded": []})
    records = mapping(state.document, "items")
    found = sorted(key for key, record in records.items() if items.lacks_evidence(record))
    if not found:
        return Outcome(Word.OK, {"downgraded": []})
    healed = {**records, **{key: items.downgraded(records[key]) for key in found}}
    return Outcome(Word.OK, {"downgraded": found}, {**state.document, "items": healed})


@_operation
def upsert_item(state: State, *, source: str, item: str, text: str, writer: str, now: str) -> Outcome:
    """Merges the JSON object `text` into the item. Ownership is looked at before the JSON."""
    document = state.document
    verdict = lease.judge(document.get("lease"), lease.Move.WRITE, writer)
    if verdict.word is not Word.OK:
        return _refused(verdict) if document else LOST_WITHOUT_STATE
    fields = items.parse_fields(text)
    records, sources = mapping(document, "items"), mapping(document, "sources")
    key = item_key(source, item)
    record = items.redacted(items.merged(records.get(key), fields, source, item), sources.get(source))
    stamped = lease.restamped(document["lease"], now)
    return Outcome(Word.OK, document={**document, "lease": stamped, "items": {**records, key: record}})


@_operation
def cursor_get(state: State, *, source: str) -> Outcome:
    """The cursor of a source with its JSON type, or null."""
    if state.standing is Standing.ABSENT:
        return Outcome(Word.OK, {"cursor": None})
    return Outcome(Word.OK, {"cursor": cursors.cursor_of(mapping(state.document, "sources").get(source))})


@_operation
def cursor_advance(state: State, *, source: str, to: str, past_item: str, writer: str, now: str) -> Outcome:
    """Moves a cursor forward past an item that is there. A refusal writes nothing and so does not re-stamp."""
    document = state.document
    verdict = lease.judge(document.get("lease"), lease.Move.WRITE, writer)
    if verdict.word is not Word.OK:
        return _refused(verdict) if document else LOST_WITHOUT_STATE
    records = document["items"]
    # a list that lacks the key refuses, as recorded in `upsert-items-not-a-map`
    if not isinstance(records, dict | list):
        raise Malformed("items must be a map")
    key = item_key(source, past_item)
    if key not in records:
        return Outcome(Word.REFUSED, reason=f"there is no item {key!r}")
    sources = mapping(document, "sources")
    entry = cursors.entry_of(sources, source)
    if not cursors.may_move(entry.get("cursor"), to):
        return Outcome(Word.REFUSED, reason=f"the cursor stands at {entry['cursor']!r}, which is past {to!r}")
    moved = {**document, "sources": {**sources, source: {**entry, "cursor": to}}}
    moved["lease"] = lease.restamped(document["lease"], now)
    return Outcome(Word.OK, document=moved)


@_operation
def lease_acquire(state: State, *, writer: str, now: str, ttl_minutes: int | None = None) -> Outcome:
    """Takes the lease, makes the file if there is none. The earlier time-to-live is not inherited."""
    document = _document(state)
    current = document.get("lease")
    verdict = lease.judge(current, lease.Move.ACQUIRE, writer, now)
    if verdict.effect is not lease.Effect.TAKE:
        return _refused(verdict)
    payload = None
    if verdict.word is Word.STALE_RECLAIMED and current is not None:
        payload = {"previous_writer": current["writer"], "previous_timestamp": current.get("timestamp")}
    ttl = lease.DEFAULT_TTL_MINUTES if ttl_minutes is None else ttl_minutes
    return Outcome(verdict.word, payload, {**document, "lease": lease.taken(writer, now, ttl)})


@_operation
def lease_release(state: State, *, writer: str) -> Outcome:
    """Removes the caller's own lease, expired or not."""
    verdict = lease.judge(state.document.get("lease"), lease.Move.RELEASE, writer)
    if verdict.effect is not lease.Effect.REMOVE:
        return _refused(verdict)
    return Outcome(Word.OK, document={key: value for key, value in state.document.items() if key != "lease"})


@_operation
def run_record(state: State, *, writer: str, outcome: str, counts: str, timestamp: str) -> Outcome:
    """Replaces `last_run` whole; needs no lease, leaves the lease as it is, makes the file if there is none.

    Any JSON is stored as `counts`; what is no JSON becomes an empty map (SW-8). Raises ValueError for an outcome
    outside the four, which is misuse.
    """
    if outcome not in OUTCOMES:
        raise ValueError(f"the outcome is one of {', '.join(OUTCOMES)}")
    run = {"timestamp": timestamp, "outcome": outcome, "writer": writer, "counts": _counts(counts)}
    return Outcome(Word.OK, document={**_document(state), "last_run": run})


def _counts(text: str) -> Json:
    try:
        return parse_json(text)
    except ValueError:
        return {}


@_operation
def import_legacy(state: State, *, text: str | None, source_map: str | None = None) -> Outcome:
    """Imports an older tracker's file; `text` is None when it cannot be read. Writes a new state or a real gain."""
    imported = legacy.import_legacy(_document(state), legacy.parse_legacy(text), legacy.parse_source_map(source_map))
    payload = {"cursors_imported": imported.cursors, "items_imported": imported.items}
    changed = state.standing is Standing.ABSENT or imported.cursors or imported.items
    return Outcome(Word.OK, payload, imported.document if changed else None)

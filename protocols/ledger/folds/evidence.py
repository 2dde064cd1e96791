"""Which claims rest on which evidence: a graph of events and what they are bound to."""

from collections.abc import Iterable
from typing import Any

from ..canonical import canonical_digest
from ..events import Event
from .chronology import subject_name, summary, unique

_CLAIMS = ("review.", "apply.", "gitcrawl.", "proof.", "evidence.")


def evidence_graph(events: Iterable[Event]) -> dict[str, Any]:
    """`claims` by event id, `evidence` by the digest of its entry, and sorted `edges`.

    An edge is `[from, relation, to]`: `rests_on` from a claim to its evidence, `follows` from a claim to the one
    that caused it. Parents that are no claims, or not among the events, have no edge.
    """
    claims: dict[str, Any] = {}
    evidence: dict[str, Any] = {}
    edges: set[tuple[str, str, str]] = set()
    chosen = unique(events, _CLAIMS)
    known = {event.event_id for event in chosen}
    for event in chosen:
        record = event.record
        claim = summary(event)
        claim["subject"] = subject_name(record["subject"])
        if "source_revision" in record["subject"]:
            claim["source_revision"] = record["subject"]["source_revision"]
        claims[event.event_id] = claim
        for entry in record.get("evidence", ()):
            name = canonical_digest(entry)
            evidence[name] = dict(entry)
            edges.add((event.event_id, "rests_on", name))
        if event.parent in known and event.parent is not None:
            edges.add((event.event_id, "follows", event.parent))
    return {"claims": claims, "evidence": evidence, "edges": [list(edge) for edge in sorted(edges)]}

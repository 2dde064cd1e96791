"""The published limits, gathered from where each rule keeps its own."""

from typing import Any

from moorage.protocols.ledger import canonical, shards

LIMITS: dict[str, Any] = {
    "canonical_json": {
        "maxDepth": canonical.MAX_DEPTH,
        "maxNodes": canonical.MAX_NODES,
        "maxBytes": canonical.MAX_BYTES,
    },
    "shard_file": {"maxBytes": shards.MAX_SHARD_BYTES, "maxEvents": shards.MAX_SHARD_EVENTS},
    "shard_set": {"maxEvents": shards.MAX_SET_EVENTS},
}

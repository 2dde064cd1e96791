"""The published limits, gathered from where each rule keeps its own."""

from typing import Any

from moorage.protocols.ledger import admission, batch, canonical, projections, publication, shards, spool_limits

LIMITS: dict[str, Any] = {
    "canonical_json": {
        "maxDepth": canonical.MAX_DEPTH,
        "maxNodes": canonical.MAX_NODES,
        "maxBytes": canonical.MAX_BYTES,
    },
    "shard_file": {"maxBytes": shards.MAX_SHARD_BYTES, "maxEvents": shards.MAX_SHARD_EVENTS},
    "shard_set": {"maxEvents": shards.MAX_SET_EVENTS},
    "spool_read": {
        "maxRepositories": spool_limits.MAX_REPOSITORIES,
        "maxEntriesPerRepository": spool_limits.MAX_ENTRIES,
        "maxEvents": spool_limits.MAX_EVENTS,
        "maxProducers": spool_limits.MAX_PRODUCERS,
        "maxTotalBytes": spool_limits.MAX_TOTAL_BYTES,
    },
    "shard_import": {
        "maxDepth": batch.MAX_DEPTH,
        "maxEntriesPerDirectory": batch.MAX_FOLDER_ENTRIES,
        "maxDirectories": batch.MAX_FOLDERS,
        "maxFiles": batch.MAX_FILES,
        "maxFileBytes": shards.MAX_SHARD_BYTES,
        "maxFileLines": batch.MAX_FILE_LINES,
        "maxFileEvents": shards.MAX_SHARD_EVENTS,
        "maxTotalBytes": batch.MAX_BATCH_BYTES,
        "maxTotalEvents": batch.MAX_BATCH_EVENTS,
        "maxCausalBindings": batch.MAX_BINDING_READS,
        "maxPublishPaths": publication.MAX_PATHS,
    },
    "projection": {
        "maxConcurrent": admission.MAX_ACTIVE,
        "maxQueued": admission.MAX_ROOT_QUEUED,
        "maxTotalQueued": admission.MAX_TOTAL_QUEUED,
        "maxQueuedRoots": admission.MAX_QUEUED_ROOTS,
        "defaultFlushTimeoutMs": projections.DEFAULT_TIMEOUT_MS,
        "maxFlushTimeoutMs": projections.MAX_TIMEOUT_MS,
    },
}

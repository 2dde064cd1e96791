"""The entry that `wrangler.toml` names. Its folder is the import root, so everything else is imported absolutely."""

from moorage.worker.entry import (
    Default,
    ExactReviewQueue,
    GithubEtagCache,
    JobQueue,
    LedgerIndex,
    SessionCommits,
    SweepState,
    moorage_started,
    test_store,
)

__all__ = [
    "Default",
    "ExactReviewQueue",
    "GithubEtagCache",
    "JobQueue",
    "LedgerIndex",
    "SessionCommits",
    "SweepState",
    "moorage_started",
    "test_store",
]

"""Refusals of publication: lists, batches, direct publication (spec state-plane-protocol 11.8, 11.9)."""

from typing import Any

from .base import WireError


class InvalidPublicationCandidates(WireError):
    """`items` must be 1 to 100 publications with `item_key` and `revision`."""

    code, status = "invalid_publication_candidates", 400


class InvalidPublicationReconcile(WireError):
    """`apply` must be true or false, `max_items` an integer of 1 to 1,000."""

    code, status = "invalid_publication_reconcile", 400


class PublicationBatchingDisabled(WireError):
    """EXACT_REVIEW_PUBLICATION_BATCHING_ENABLED is off."""

    code, status = "publication_batching_disabled", 409


class InvalidBatchClaim(WireError):
    """`claim_id`, `lease_owner` and `max_items` (at least 1) are needed."""

    code, status = "invalid_batch_claim", 400


class InvalidBatchIdentity(WireError):
    """`batch_id` and `lease_owner` are needed."""

    code, status = "invalid_batch_identity", 400


class InvalidBatchCompletions(WireError):
    """`items` must name items of the batch with revision, generation and a known outcome."""

    code, status = "invalid_batch_completions", 400


class BatchLeaseNotActive(WireError):
    """The batch is not held by that owner, or its lease has ended."""

    code, status = "batch_lease_not_active", 409


class DirectPublicationRefused(WireError):
    """Direct publication is refused; the caller publishes the artifact the other way."""

    code, status = "direct_publication_refused", 400

    def __init__(self, **fields: Any) -> None:
        super().__init__(**fields, fallback_required=True)


class DirectPublicationDisabled(DirectPublicationRefused):
    """EXACT_REVIEW_DIRECT_PUBLICATION_ENABLED is off."""

    code, status = "direct_publication_disabled", 409


class InvalidDirectPublicationPlan(DirectPublicationRefused):
    """The plan is malformed or contradicts itself; the log names the member."""

    code, status = "invalid_direct_publication_plan", 400


class DirectPublicationSourceShaRequired(DirectPublicationRefused):
    """`sourceSha` is needed."""

    code, status = "direct_publication_source_sha_required", 400


class DirectPublicationFenceNotOwned(DirectPublicationRefused):
    """The caller does not hold the live claim of that fence, revision and generation."""

    code, status = "direct_publication_fence_not_owned", 409


class DirectPublicationConflict(DirectPublicationRefused):
    """The same fence and revision was published with other content."""

    code, status = "direct_publication_conflict", 409


class DirectPublicationPayloadTooLarge(DirectPublicationRefused):
    """The body exceeds 4 MiB."""

    code, status = "direct_publication_payload_too_large", 413


class InvalidDirectPublicationJson(WireError):
    """The body is not a JSON object."""

    code, status = "invalid_direct_publication_json", 400

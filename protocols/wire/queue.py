"""Refusals of the review queue (spec state-plane-protocol 2.6, 11.1 to 11.6). One class a code; 400 form, 409
state."""

from .base import WireError


class MissingDeliveryId(WireError):
    """`delivery_id` must be a text that is not blank."""

    code, status = "missing_delivery_id", 400


class ReservedDeliveryId(WireError):
    """`delivery_id` begins with a prefix that the store keeps for itself."""

    code, status = "reserved_delivery_id", 400


class InvalidExactReviewItem(WireError):
    """`decision` is malformed; the log names the member."""

    code, status = "invalid_exact_review_item", 400


class InvalidExactReviewIngress(WireError):
    """`ingress` must be `{route, fingerprint}` and belongs to pull request events only."""

    code, status = "invalid_exact_review_ingress", 400


class PrivateTargetUnsupported(WireError):
    """The target repository is not one that the service may act on."""

    code, status = "private_target_unsupported", 422


class TargetVisibilityUnverified(WireError):
    """Whether the target repository is public could not be learned now."""

    code, status = "target_visibility_unverified", 503


class MissingLeaseOrRun(WireError):
    """`lease_id` and `run_id` are needed."""

    code, status = "missing_lease_or_run", 400


class MissingLeaseTuple(WireError):
    """`lease_id`, `item_key` and `run_id` are needed."""

    code, status = "missing_lease_tuple", 400


class InvalidRunId(WireError):
    """`run_id` must be digits."""

    code, status = "invalid_run_id", 400


class InvalidLeaseRevision(WireError):
    """`lease_revision` must be an integer of at least 1, together with `item_key`."""

    code, status = "invalid_lease_revision", 400


class InvalidRunAttempt(WireError):
    """`run_attempt` must be an integer of at least 1."""

    code, status = "invalid_run_attempt", 400


class InvalidClaimGeneration(WireError):
    """`claim_generation` must be an integer of at least 1."""

    code, status = "invalid_claim_generation", 400


class InvalidSourceHeadSha(WireError):
    """`source_head_sha` must be 40 hex digits."""

    code, status = "invalid_source_head_sha", 400


class InvalidLeasePhase(WireError):
    """`phase` must be `review`, `finalizing` or `status`."""

    code, status = "invalid_lease_phase", 400


class LeaseNotActive(WireError):
    """No such live lease is held by the caller."""

    code, status = "lease_not_active", 409


class LeaseAlreadyClaimed(WireError):
    """Another run holds the lease."""

    code, status = "lease_already_claimed", 409


class MissingRunAttempt(WireError):
    """The lease was claimed with an attempt; a claim without one cannot be compared with it."""

    code, status = "missing_run_attempt", 409


class StaleRunAttempt(WireError):
    """A later attempt of the same run holds the lease."""

    code, status = "stale_run_attempt", 409


class ClaimProtocolMismatch(WireError):
    """The lease was claimed under the other protocol version."""

    code, status = "claim_protocol_mismatch", 409


class LeaseDecisionUnavailable(WireError):
    """An old lease kept no decision, and a newer revision has replaced the item's."""

    code, status = "lease_decision_unavailable", 409


class LeaseNotClaimed(WireError):
    """The item or its lease is gone, or is not held under these values."""

    code, status = "lease_not_claimed", 409


class LeaseSuperseded(WireError):
    """Exactly this claim was withdrawn for a newer revision, `superseded_by_revision`."""

    code, status = "lease_superseded", 409


class LeaseProtocolNotClaimed(WireError):
    """The lease was claimed under the other protocol version."""

    code, status = "lease_protocol_not_claimed", 409


class LeaseAttemptNotClaimed(WireError):
    """The lease is held by another attempt of the run."""

    code, status = "lease_attempt_not_claimed", 409


class InvalidOutcome(WireError):
    """`outcome` must be `success`, `failure` or `cancelled`."""

    code, status = "invalid_outcome", 400


class InvalidFailureKind(WireError):
    """`failure_kind` is not a known reason of a failure."""

    code, status = "invalid_failure_kind", 400


class FailureKindWithoutFailure(WireError):
    """`failure_kind` belongs to the outcome `failure`."""

    code, status = "failure_kind_without_failure", 400


class FailureKindMismatch(WireError):
    """`failure_kind` and `reason_code` differ."""

    code, status = "failure_kind_mismatch", 400


class FailureKindOutsidePublication(WireError):
    """`failure_kind` belongs to publications."""

    code, status = "failure_kind_outside_publication", 400


class CompletionKindOutsidePublication(WireError):
    """`completion_kind` belongs to publications."""

    code, status = "completion_kind_outside_publication", 400


class InvalidPublicationCompletion(WireError):
    """`completion_kind`, `reason_code` and `error_fingerprint` do not go together."""

    code, status = "invalid_publication_completion", 400


class CompletionOutcomeMismatch(WireError):
    """`completion_kind` needs the other `outcome`."""

    code, status = "completion_outcome_mismatch", 400


class InvalidRequeueLatest(WireError):
    """`requeue_latest` must be true or false."""

    code, status = "invalid_requeue_latest", 400


class InvalidRequeueLatestOutcome(WireError):
    """`requeue_latest` needs the outcome `success`."""

    code, status = "invalid_requeue_latest_outcome", 400


class InvalidDirectLifecycleRequeue(WireError):
    """`direct_lifecycle_requeue` must be true or false, with `success`, after a direct publication of this lease."""

    code, status = "invalid_direct_lifecycle_requeue", 400


class InvalidLifecycleTerminalDisposition(WireError):
    """`lifecycle_terminal_disposition` is not a known one."""

    code, status = "invalid_lifecycle_terminal_disposition", 400


class InvalidRetryAt(WireError):
    """`retry_at` must be an ISO 8601 time at most two hours ahead."""

    code, status = "invalid_retry_at", 400


class InvalidRequestedRuns(WireError):
    """`runs` must name 1 to 128 runs, or none together with `include_all_claimed`."""

    code, status = "invalid_requested_runs", 400


class InvalidIncludeAllClaimed(WireError):
    """`include_all_claimed` must be true or false."""

    code, status = "invalid_include_all_claimed", 400


class InvalidRuns(WireError):
    """`runs` must name 1 to 128 runs."""

    code, status = "invalid_runs", 400


class InvalidTerminalRuns(WireError):
    """`terminal_runs` must be a list of at most 128 ended runs with attempt, generation and outcome."""

    code, status = "invalid_terminal_runs", 400


class InvalidRetryKind(WireError):
    """`retry_kind` must be `coordination` or `throttle`."""

    code, status = "invalid_retry_kind", 400


class RetryKindWithoutFailure(WireError):
    """`retry_kind` goes with the outcome `failure` only."""

    code, status = "retry_kind_without_failure", 400


class RetryKindWithoutRetryAt(WireError):
    """`retry_kind` needs `retry_at`."""

    code, status = "retry_kind_without_retry_at", 400


class RetryKindOutsideRegularReview(WireError):
    """`retry_kind` is for reviews; publications say it with their completion kind."""

    code, status = "retry_kind_outside_regular_review", 400


class InvalidItemIdentity(WireError):
    """`target_repo` must be owner/name and `item_number` an integer of at least 1."""

    code, status = "invalid_item_identity", 400


class InvalidParkedReviewItems(WireError):
    """`items` must be 1 to 20 (recovery: 1 to 5) different `{item_key, revision, updated_at_ms}` of a list's rows."""

    code, status = "invalid_parked_review_items", 400


class InvalidSourceAuthorityReservation(WireError):
    """A reservation needs a delivery id, an installation and a pull request event from the direct route."""

    code, status = "invalid_source_authority_reservation", 400


class SourceAuthorityUnavailable(WireError):
    """The delivery id already stands for another event."""

    code, status = "source_authority_unavailable", 409


class InvalidLimit(WireError):
    """`limit` is not an integer within its bounds."""

    code, status = "invalid_limit", 400


class InvalidCursor(WireError):
    """`cursor` must be the text that the last page ended with."""

    code, status = "invalid_cursor", 400


class InvalidLane(WireError):
    """`lane` must be `review` or `publication`."""

    code, status = "invalid_lane", 400

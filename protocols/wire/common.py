"""Refusals of the router itself: before a subject's handler runs, or when it breaks (spec state-plane-protocol 1,
2).
"""

from .base import WireError


class NotFound(WireError):
    """No such path, or not with this method: there is no 405."""

    code, status = "not_found", 404


class WebhookNotConfigured(WireError):
    """CLAWSWEEPER_WEBHOOK_SECRET is missing or blank."""

    code, status = "webhook_not_configured", 503


class OperatorNotConfigured(WireError):
    """EXACT_REVIEW_OPERATOR_SECRET is missing or blank."""

    code, status = "operator_not_configured", 503


class InvalidSignature(WireError):
    """The signature is missing, malformed or wrong. Version 2 adds a `reason`; version 1 never does."""

    code, status = "invalid_signature", 401


class SignatureVersionsInvalid(WireError):
    """SIGNATURE_VERSIONS must be `1`, `2` or `1,2`; nothing signed is served until it is."""

    code, status = "signature_versions_invalid", 503


class ExactReviewQueueNotConfigured(WireError):
    """The binding EXACT_REVIEW_QUEUE is missing."""

    code, status = "exact_review_queue_not_configured", 503


class ExactReviewQueueUnavailable(WireError):
    """The queue object failed; the log has the reason."""

    code, status = "exact_review_queue_unavailable", 500


class RequestBodyTooLarge(WireError):
    """The body exceeds the transport cap of the route and was not read to its end."""

    code, status = "request_body_too_large", 413


class RequestBodyTimeout(WireError):
    """The body did not come in time; it was not read to its end."""

    code, status = "request_body_timeout", 408


class InvalidJson(WireError):
    """The body is not a JSON object."""

    code, status = "invalid_json", 400


class InternalError(WireError):
    """The handler broke; the log has the reason, the answer never does."""

    code, status = "internal_error", 500

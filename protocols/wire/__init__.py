"""What the state plane says over HTTP when it refuses, and how a Durable Object hands an answer to its route.

One class per error code, each with its status and whether the same request may succeed later; a subject declares its
own codes in a module of this package (`wire/cursors.py` …) and raises them from its rules, its object or its route.
`WireError.body()` is the one JSON shape, `{"error": code, …}` (spec state-plane-protocol 1).
"""

from .base import Reply, WireError, catalogue, reply, wire_method
from .common import (
    ExactReviewQueueNotConfigured,
    ExactReviewQueueUnavailable,
    InternalError,
    InvalidJson,
    InvalidSignature,
    NotFound,
    OperatorNotConfigured,
    RequestBodyTimeout,
    RequestBodyTooLarge,
    SignatureVersionsInvalid,
    WebhookNotConfigured,
)

__all__ = [
    "ExactReviewQueueNotConfigured",
    "ExactReviewQueueUnavailable",
    "InternalError",
    "InvalidJson",
    "InvalidSignature",
    "NotFound",
    "OperatorNotConfigured",
    "Reply",
    "RequestBodyTimeout",
    "RequestBodyTooLarge",
    "SignatureVersionsInvalid",
    "WebhookNotConfigured",
    "WireError",
    "catalogue",
    "reply",
    "wire_method",
]

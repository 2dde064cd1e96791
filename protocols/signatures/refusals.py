"""Why a version 2 signature was not accepted. The reason goes to the client: none of them helps to forge one."""

from enum import StrEnum
from typing import Any


class Reason(StrEnum):
    """Machine-readable reasons, sent as `reason` beside `invalid_signature`."""

    MALFORMED_INPUT = "malformed_signature_input"
    MALFORMED_SIGNATURE = "malformed_signature"
    MISSING_SIGNATURE = "missing_signature"
    MALFORMED_DIGEST = "malformed_content_digest"
    DIGEST_MISMATCH = "content_digest_mismatch"
    COMPONENT_NOT_COVERED = "component_not_covered"
    UNKNOWN_COMPONENT = "unknown_component"
    MISSING_COMPONENT = "missing_component"
    PARAMETER_MISSING = "parameter_missing"
    PARAMETER_INVALID = "parameter_invalid"
    ALGORITHM = "algorithm_not_supported"
    UNKNOWN_KEY = "unknown_keyid"
    TOO_OLD = "created_too_old"
    IN_FUTURE = "created_in_future"
    EXPIRED = "expired"
    WRONG = "signature_mismatch"
    BEFORE_START = "created_before_start"
    REPLAYED = "nonce_replayed"


class Refused(Exception):
    """A signature is not accepted. `fields` are facts for the client (`component`, `now` …), never a secret."""

    def __init__(self, reason: Reason, **fields: Any) -> None:
        detail = ", ".join(f"{name} {value!r}" for name, value in fields.items())
        super().__init__(f"{reason.value}{': ' if detail else ''}{detail}")
        self.reason = reason.value
        self.fields = fields

"""Claims in Git: which work was accepted, and whether it has been dispatched.

    pending    -> dispatched      the file moves from one folder to the other; its content never changes

A claim is in the branch before its side effect happens, and leaves `pending` only after it has.
"""

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from ..errors import ClientError, ConfigurationError
from .paths import check_path
from .repository import File

PENDING: Final = "jobs/claims/pending/"
DISPATCHED: Final = "jobs/claims/dispatched/"
MAX_CLAIM_BYTES: Final = 256 * 1024
_ID: Final = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,99}")
_EVENT: Final = re.compile(r"[A-Za-z0-9._-]{1,100}")


class ClaimConflict(ClientError):
    """The id belongs to other work already; nothing was changed."""


class InvalidClaim(ClientError):
    """A claim in the branch is not one; the text names the file."""


@dataclass(frozen=True, slots=True)
class Claim:
    """Accepted work: `files` are the SHA-256 of what was published with it, by path."""

    id: str
    event: str
    payload: dict[str, Any]
    files: Mapping[str, str]

    def __post_init__(self) -> None:
        if not _ID.fullmatch(self.id):
            raise ConfigurationError(f"claim id {self.id!r} must be 1 to 100 letters, digits, '-', '_' or '.'")
        if not _EVENT.fullmatch(self.event):
            raise ConfigurationError(f"event {self.event!r} must be 1 to 100 letters, digits, '-', '_' or '.'")
        if len(self.encode()) > MAX_CLAIM_BYTES:
            raise ConfigurationError(f"claim {self.id!r} must not exceed {MAX_CLAIM_BYTES} bytes")

    @classmethod
    def of(cls, claim_id: str, event: str, payload: dict[str, Any], files: Mapping[str, File]) -> "Claim":
        """The claim of work that comes with `files`. Raises ConfigurationError."""
        for path in files:
            check_path(path)
            if path.lower().startswith("jobs/claims/"):
                raise ConfigurationError(f"{path!r}: jobs/claims/ is kept by the intake itself")
        digests = {path: hashlib.sha256(file.content).hexdigest() for path, file in files.items()}
        return cls(claim_id, event, payload, digests)

    @classmethod
    def decode(cls, name: str, content: bytes) -> "Claim":
        """The claim that a file holds. Raises InvalidClaim."""
        try:
            value = json.loads(content)
            claim = cls(value["id"], value["event"], value["payload"], value["files"])
            if name != f"{claim.id}.json" or not isinstance(claim.payload, dict) or not isinstance(claim.files, dict):
                raise ValueError
        except (ValueError, TypeError, KeyError, RecursionError, ConfigurationError):
            raise InvalidClaim(f"{name} is no claim; correct it, or remove it with `moorage git publish`") from None
        return claim

    def encode(self) -> bytes:
        """The content of its file: equal claims have equal bytes."""
        members = {"id": self.id, "event": self.event, "payload": self.payload, "files": dict(self.files)}
        return (json.dumps(members, indent=2, sort_keys=True) + "\n").encode()

    @property
    def pending_path(self) -> str:
        """Where it is until it has been dispatched."""
        return f"{PENDING}{self.id}.json"

    @property
    def dispatched_path(self) -> str:
        """Where it is from then on."""
        return f"{DISPATCHED}{self.id}.json"

    def accepted(self) -> dict[str, File | None]:
        """The change that accepts it."""
        return {self.pending_path: File(self.encode())}

    def settled(self) -> dict[str, File | None]:
        """The change once it has been dispatched."""
        return {self.pending_path: None, self.dispatched_path: File(self.encode())}

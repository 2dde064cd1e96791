"""Who is who: operation, attempt, idempotency key, event key, event id (spec action-ledger 2).

Raw identity trees are hashed and never stored. Each function raises what `canonical.check` raises in identity mode.
"""

from .canonical import Json, canonical_digest, sha256_text
from .text import digest_text, event_key_text, repository_text, scope_text


def operation_id(repository: object, operation: object, identity: Json) -> str:
    """Digest that names one logical operation across retries and reruns."""
    return canonical_digest(
        {
            "identity": identity,
            "operation": scope_text(operation, "operation"),
            "repository": repository_text(repository),
        },
        identity=True,
    )


def attempt_id(operation: object, identity: Json) -> str:
    """Digest that names one attempt of an operation (given by its id)."""
    return canonical_digest(
        {"identity": identity, "operation_id": digest_text(operation, "operation_id")}, identity=True
    )


def idempotency_key(identity: Json) -> str:
    """Digest that names an outside effect, whatever attempt or event reports it."""
    return canonical_digest(identity, identity=True)


def event_key(scope: object, identity: Json) -> str:
    """`scope:digest`, the key of one recorded transition."""
    return f"{scope_text(scope)}:{canonical_digest(identity, identity=True)}"


def event_id(repository: object, key: object) -> str:
    """Digest of the normalised repository, a line feed and the event key."""
    return sha256_text(f"{repository_text(repository)}\n{event_key_text(key)}")

"""What the state plane reads from `env`, once for each `env` it is given."""

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from moorage.protocols.javascript import trim

log = logging.getLogger("moorage.worker")

QUEUE_BINDING = "EXACT_REVIEW_QUEUE"
QUEUE_INSTANCE = "global"
BUCKET_BINDING = "STATE_SNAPSHOTS"

WEBHOOK_SECRET = "CLAWSWEEPER_WEBHOOK_SECRET"
OPERATOR_SECRET = "EXACT_REVIEW_OPERATOR_SECRET"


def variable(env: Any, name: str) -> str | None:
    """The text variable or secret `name`, trimmed; None when it is missing, blank or no text."""
    value = getattr(env, name, None)
    if not isinstance(value, str):
        return None
    return trim(value) or None


def _keys(env: Any, name: str) -> tuple[bytes, ...]:
    """The secret `name` and, while it is being rotated, `<name>_PREVIOUS`. Without the first the second does not
    count.
    """
    current = variable(env, name)
    if current is None:
        return ()
    previous = variable(env, f"{name}_PREVIOUS")
    return (current.encode(),) if previous is None else (current.encode(), previous.encode())


def _versions(env: Any) -> frozenset[int] | None:
    text = getattr(env, "SIGNATURE_VERSIONS", None)
    if text is None or (isinstance(text, str) and not trim(text)):
        return frozenset({1, 2})
    parts = [trim(part) for part in str(text).split(",")]
    if not set(parts) <= {"1", "2"}:
        log.error("SIGNATURE_VERSIONS is %r; it must be 1, 2 or 1,2: nothing signed is served", str(text)[:40])
        return None
    return frozenset(int(part) for part in parts)


@dataclass(frozen=True, slots=True)
class Settings:
    """Secrets and bindings of one `env`.

    `keys`: by key id, `webhook` and `operator`, the current secret first; empty when not configured. `versions`:
    accepted signature versions; None when the setting cannot be read. `queue`: makes a fresh stub of the queue
    object; None without the binding.
    """

    env: Any = field(repr=False)
    keys: dict[str, tuple[bytes, ...]] = field(repr=False)
    versions: frozenset[int] | None
    queue: Callable[[], Any] | None

    @classmethod
    def of(cls, env: Any) -> "Settings":
        """Reads `env`; warns once for each thing that an operator should know."""
        keys = {"webhook": _keys(env, WEBHOOK_SECRET), "operator": _keys(env, OPERATOR_SECRET)}
        versions = _versions(env)
        for name, key_id in ((WEBHOOK_SECRET, "webhook"), (OPERATOR_SECRET, "operator")):
            if not keys[key_id]:
                log.warning("%s is not set: its routes answer 503", name)
        if versions and 1 in versions:
            log.warning(
                "signature version 1 is accepted: it covers the body alone, so it can be replayed and moved "
                "to another path; set SIGNATURE_VERSIONS=2 when every client signs version 2"
            )
        namespace = getattr(env, QUEUE_BINDING, None)
        queue = None
        if namespace is not None:
            instance = namespace.idFromName(QUEUE_INSTANCE)

            def queue() -> Any:
                return namespace.get(instance)

        return cls(env, keys, versions, queue)

"""Settings of the queue, read once from the Worker's variables (spec state-plane-storage 1)."""

from collections.abc import Callable
from dataclasses import dataclass, field, fields
from typing import Any, Final

from ..javascript import to_safe_integer

MINUTE: Final = 60_000
DEFAULT_REPOSITORY: Final = "openclaw/clawsweeper"


def _setting(variable: str, default: Any, minimum: int = 0) -> Any:
    return field(default=default, metadata={"variable": variable, "minimum": minimum})


@dataclass(frozen=True, slots=True)
class QueueSettings:
    """Every setting with its default. Names that end in `_ms` are milliseconds."""

    debounce_ms: int = _setting("EXACT_REVIEW_DISPATCH_DEBOUNCE_MS", 90_000)
    debounce_max_ms: int = _setting("EXACT_REVIEW_DISPATCH_DEBOUNCE_MAX_MS", 180_000)
    review_capacity: int = _setting("EXACT_REVIEW_QUEUE_MAX_CONCURRENT", 8, 1)
    publication_capacity: int = _setting("EXACT_REVIEW_PUBLICATION_BASE_CONCURRENT", 8, 1)
    target_capacity: int = _setting("EXACT_REVIEW_TARGET_MAX_CONCURRENT", 8, 1)
    scheduled_rate_per_hour: int = _setting("EXACT_REVIEW_TARGET_RATE_PER_HOUR", 200, 1)
    scheduled_burst: int = _setting("EXACT_REVIEW_TARGET_BURST", 50, 1)
    pending_soft_limit: int = _setting("EXACT_REVIEW_PENDING_SOFT_LIMIT", 600, 1)
    dispatch_lease_ms: int = _setting("EXACT_REVIEW_DISPATCH_LEASE_MS", 6 * MINUTE, 1)
    publication_dispatch_lease_ms: int = _setting("EXACT_REVIEW_PUBLICATION_DISPATCH_LEASE_MS", 15 * MINUTE, 1)
    execution_lease_ms: int = _setting("EXACT_REVIEW_EXECUTION_LEASE_MS", 130 * MINUTE, 1)
    heartbeat_grace_ms: int = _setting("EXACT_REVIEW_HEARTBEAT_GRACE_MS", 20 * MINUTE, 1)
    paused_retry_ms: int = _setting("EXACT_REVIEW_WORKFLOW_PAUSED_RETRY_MS", MINUTE, 1)
    pass_limit: int = _setting("EXACT_REVIEW_ADMISSION_PASS_LIMIT", 4, 1)
    pass_interval_ms: int = _setting("EXACT_REVIEW_ADMISSION_PASS_INTERVAL_MS", 5_000)
    dispatch_concurrency: int = _setting("EXACT_REVIEW_DISPATCH_CONCURRENCY", 1, 1)
    batch_size: int = _setting("EXACT_REVIEW_PUBLICATION_BATCH_SIZE", 8, 1)
    batch_concurrent: int = _setting("EXACT_REVIEW_PUBLICATION_BATCH_MAX_CONCURRENT", 1, 1)
    batch_wait_ms: int = _setting("EXACT_REVIEW_PUBLICATION_BATCH_WAIT_MS", MINUTE)
    batch_cooldown_ms: int = _setting("EXACT_REVIEW_PUBLICATION_BATCH_DISPATCH_COOLDOWN_MS", 5_000)
    batch_reservation_ms: int = _setting("EXACT_REVIEW_PUBLICATION_BATCH_RESERVATION_MS", 10 * MINUTE, 1)
    batch_lease_ms: int = _setting("EXACT_REVIEW_PUBLICATION_BATCH_LEASE_MS", 30 * MINUTE, 1)
    dead_letter_limit: int = _setting("EXACT_REVIEW_DEAD_LETTER_LIMIT", 5_000, 1)
    direct_publication: bool = _setting("EXACT_REVIEW_DIRECT_PUBLICATION_ENABLED", True)
    batching: bool = _setting("EXACT_REVIEW_PUBLICATION_BATCHING_ENABLED", False)
    check_visibility: bool = _setting("EXACT_REVIEW_CHECK_TARGET_VISIBILITY", True)
    clawhub: bool = _setting("CLAWSWEEPER_ENABLE_CLAWHUB", False)
    repository: str = _setting("CLAWSWEEPER_REPO", DEFAULT_REPOSITORY)
    workflow: str = _setting("CLAWSWEEPER_WORKFLOW", "sweep.yml")


def read_settings(variable: Callable[[str], Any]) -> tuple[QueueSettings, list[str]]:
    """The settings, and what is wrong with them: a bad value keeps its default, and its sentence says what
    would be right.

    `variable` gives a variable's value by name, or None where it is not set. Booleans are on when `1` or `true`.
    """
    found: dict[str, Any] = {}
    problems = []
    for setting in fields(QueueSettings):
        name, minimum = setting.metadata["variable"], setting.metadata["minimum"]
        raw = variable(name)
        if raw is None or raw == "":
            continue
        if isinstance(setting.default, bool):
            word = str(raw).strip().lower()
            if word in {"1", "true", "0", "false"}:
                found[setting.name] = word in {"1", "true"}
            else:
                problems.append(f"{name} must be 0 or 1, not {raw!r}; {int(setting.default)} is used")
        elif isinstance(setting.default, str):
            found[setting.name] = str(raw).strip()
        elif (number := to_safe_integer(raw, minimum=minimum)) is not None:
            found[setting.name] = number
        else:
            problems.append(
                f"{name} must be an integer of at least {minimum}, not {raw!r}; {setting.default} is used"
            )
    return QueueSettings(**found), problems

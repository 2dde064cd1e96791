"""How long things wait before they are tried again. Randomness comes in as a number in [0, 1)."""

from typing import Final

REVIEW_FIRST_MS: Final = 30_000
REVIEW_MAX_MS: Final = 5 * 60_000
PUBLICATION_FIRST_MS: Final = 60_000
PUBLICATION_MAX_MS: Final = 5 * 60_000
RATE_LIMIT_MAX_MS: Final = 60 * 60_000
OUTAGE_FIRST_MS: Final = 30_000
OUTAGE_MAX_MS: Final = 5 * 60_000
PARKED_RECOVERY_MS: Final = (5 * 60_000, 10 * 60_000, 20 * 60_000)
MAX_RETRY_AHEAD_MS: Final = 2 * 60 * 60_000


def fnv1a(text: str) -> int:
    """The 32-bit FNV-1a hash over the UTF-16 units of `text` (offset 2166136261, prime 16777619)."""
    data = text.encode("utf-16-be", "surrogatepass")
    value = 2166136261
    for index in range(0, len(data), 2):
        value = ((value ^ (data[index] << 8 | data[index + 1])) * 16777619) & 0xFFFFFFFF
    return value


def spread(delay: int, unit: float) -> int:
    """`delay` between 0.75 and 1.5 of its value, so that what failed together does not return together."""
    return int(delay * (0.75 + 0.75 * unit))


def _doubling(first: int, most: int, attempt: int) -> int:
    return min(first << min(max(attempt, 1) - 1, 20), most)


def review_delay(attempt: int, unit: float) -> int:
    """After the n-th failure of a review: 30 s x 2^(n-1), at most 5 min, spread."""
    return spread(_doubling(REVIEW_FIRST_MS, REVIEW_MAX_MS, attempt), unit)


def publication_delay(item_key: str, attempt: int, kind: str, reason: str) -> int:
    """After the n-th failure of a publication: 60 s x 2^(n-1), at most 5 min, and 1 h for a rate limit.

    A permanent failure is confirmed after 60 s and then every 5 min. Up to a fifth more, which item and attempt fix.
    """
    most = RATE_LIMIT_MAX_MS if reason == "github_rate_limit" else PUBLICATION_MAX_MS
    if kind == "permanent_failure" and reason != "unknown_failure" and attempt > 1:
        delay = PUBLICATION_MAX_MS
    else:
        delay = _doubling(PUBLICATION_FIRST_MS, most, attempt)
    return delay + delay * (fnv1a(f"{item_key}:{attempt}") % 21) // 100


def outage_delay(failures: int, unit: float) -> int:
    """Before the dispatcher tries again after the n-th failure in a row: 30 s x 2^(n-1), at most 5 min, spread."""
    return spread(_doubling(OUTAGE_FIRST_MS, OUTAGE_MAX_MS, failures), unit)


def parked_recovery(recoveries: int) -> int | None:
    """How long a review that failed too often stays parked: 5, 10, 20 min; None after the third recovery."""
    return PARKED_RECOVERY_MS[recoveries] if recoveries < len(PARKED_RECOVERY_MS) else None


def within_reach(retry_at: int | None, now: int) -> int:
    """The time that the other side demanded (0: none), at most two hours ahead: one wrong header stops nothing for
    years. Times in milliseconds."""
    return min(retry_at or 0, now + MAX_RETRY_AHEAD_MS)

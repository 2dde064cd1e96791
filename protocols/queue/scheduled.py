"""The token buckets of scheduled reviews: one for both lanes together, one for each.

Spec state-plane-protocol 11.1; `exact-review-enqueue/scheduled-rate`. The hourly rate and the burst are split
35 to 65 between
`hot_intake` and `normal_backfill`.
"""

from collections.abc import Mapping
from typing import Final

import msgspec

HOT_SHARE: Final = 35
LANES: Final = ("hot_intake", "normal_backfill")
HOUR_MS: Final = 60 * 60 * 1000


class Bucket(msgspec.Struct, frozen=True, rename="camel"):
    """Tokens at a time in milliseconds."""

    tokens: float
    at: int


def limits(rate_per_hour: int, burst: int) -> dict[str, tuple[int, int]]:
    """Hourly rate and burst of each lane and, under `all`, of both together. A lane always has a burst of at
    least 1."""
    hot_rate, hot_burst = rate_per_hour * HOT_SHARE // 100, max(1, burst * HOT_SHARE // 100)
    return {
        "hot_intake": (hot_rate, hot_burst),
        "normal_backfill": (rate_per_hour - hot_rate, max(1, burst - hot_burst)),
        "all": (rate_per_hour, burst),
    }


def refilled(bucket: Bucket | None, rate_per_hour: int, burst: int, now: int) -> Bucket:
    """The bucket at `now`; a missing one is full."""
    if bucket is None:
        return Bucket(float(burst), now)
    elapsed = max(0, now - bucket.at)
    return Bucket(min(float(burst), bucket.tokens + elapsed * rate_per_hour / HOUR_MS), max(now, bucket.at))


def take(
    buckets: Mapping[str, Bucket], lane: str | None, rate_per_hour: int, burst: int, now: int
) -> tuple[bool, dict[str, Bucket]]:
    """Whether a review of `lane` may be admitted, and the buckets afterwards.

    A refused one takes nothing. `lane` None is an ordinary review: always admitted, it takes from the common
    bucket what is
    there.
    """
    every = limits(rate_per_hour, burst)
    after = {name: refilled(buckets.get(name), *every[name], now) for name in (*LANES, "all")}
    if lane is None:
        after["all"] = Bucket(max(0.0, after["all"].tokens - 1), after["all"].at)
        return True, after
    if after[lane].tokens < 1 or after["all"].tokens < 1:
        return False, after
    for name in (lane, "all"):
        after[name] = Bucket(after[name].tokens - 1, after[name].at)
    return True, after

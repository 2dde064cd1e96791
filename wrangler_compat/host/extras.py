"""Small bindings: rate limits and the version of the Worker."""

import datetime
import hashlib
import uuid
from collections.abc import Callable, Mapping
from typing import Any

from ..config import WorkerConfig
from ..workers.bindings import Binding
from .values import Presentation, options_of


class Counts:
    """How often each key was asked for in the period that runs; kept in memory, as on the platform's machines."""

    def __init__(self) -> None:
        self._period = -1
        self._counts: dict[str, int] = {}

    def add(self, key: str, period: int) -> int:
        """Counts `key` once more in `period` and returns how often that makes it."""
        if period != self._period:
            self._period = period
            self._counts.clear()
        self._counts[key] = count = self._counts.get(key, 0) + 1
        return count


class Ratelimit(Binding):
    """`await env.LIMITER.limit({"key": …})` gives `success`. `period` is in seconds, `now` the clock in
    milliseconds.
    """

    __slots__ = ("_counts", "_form", "_limit", "_now", "_period")

    def __init__(
        self, counts: Counts, limit: float, period: float, now: Callable[[], int], form: Presentation
    ) -> None:
        self._counts = counts
        self._limit = limit
        self._period = period
        self._now = now
        self._form = form

    async def limit(self, options: Any = None, **keywords: Any) -> Any:
        """Counts one call of `key`. Raises TypeError without a key."""
        given = options_of(options, keywords, ("key",), "limit")
        key = given.get("key")
        if not isinstance(key, str):
            raise TypeError("limit() takes {'key': text}: what is counted")
        count = self._counts.add(key, int(self._now() / 1000 // self._period))
        return self._form.value({"success": count <= self._limit})


def version_of(config: WorkerConfig, now: int) -> Mapping[str, Any]:
    """`id`, `tag` and `timestamp` of `env.VERSION`: the id follows from configuration and main module, the tag is
    empty, the time is that of the start.
    """
    digest = hashlib.sha256(config.name.encode())
    for path in (config.path, config.main):
        if path is not None and path.is_file():
            digest.update(path.read_bytes())
    moment = datetime.datetime.fromtimestamp(now / 1000, datetime.UTC)
    return {
        "id": str(uuid.UUID(bytes=digest.digest()[:16], version=5)),
        "tag": "",
        "timestamp": moment.strftime("%Y-%m-%dT%H:%M:%S.") + f"{now % 1000:03d}Z",
    }

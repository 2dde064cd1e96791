"""Prometheus metrics of the state plane, in the process-wide registry; the host serves them on its admin port.

Counting a request is three dictionary look-ups; the library's families are made when somebody reads them.
"""

from bisect import bisect_left
from collections.abc import Iterator
from typing import Any, Final

from prometheus_client import REGISTRY
from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily

PREFIX: Final = "moorage_state_plane_"
BOUNDS: Final = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
"""Upper bounds of the duration's buckets, in seconds."""

# the methods that a label may show: a client must not be able to make series
_METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})


class _Route:
    """What is known of one route template: requests by bucket of duration, seconds and body bytes in all."""

    __slots__ = ("body_bytes", "buckets", "seconds")

    def __init__(self) -> None:
        self.buckets = [0] * (len(BOUNDS) + 1)
        self.seconds = 0.0
        self.body_bytes = 0


_requests: dict[tuple[str, str, int], int] = {}
_errors: dict[tuple[str, str], int] = {}
_routes: dict[str, _Route] = {}


def observe(method: str, route: str, status: int, seconds: float, body_bytes: int, code: str | None) -> None:
    """Counts one request. `route` is a template of ours, never a path that came in."""
    key = (method if method in _METHODS else "other", route, status)
    _requests[key] = _requests.get(key, 0) + 1
    known = _routes.get(route)
    if known is None:
        known = _routes[route] = _Route()
    known.buckets[bisect_left(BOUNDS, seconds)] += 1
    known.seconds += seconds
    known.body_bytes += body_bytes
    if code is not None:
        _errors[route, code] = _errors.get((route, code), 0) + 1


class Collector:
    """The families of the registry, made of what `observe` has counted."""

    def collect(self) -> Iterator[Any]:
        """Yields the families, counters without their suffix `_total`."""
        requests = CounterMetricFamily(
            f"{PREFIX}requests",
            "Requests answered, by route template and status.",
            labels=("method", "route", "status"),
        )
        for (method, route, status), count in list(_requests.items()):
            requests.add_metric((method, route, str(status)), count)
        yield requests
        errors = CounterMetricFamily(
            f"{PREFIX}errors", "Refusals and failures, by route template and wire code.", labels=("route", "code")
        )
        for labels, count in list(_errors.items()):
            errors.add_metric(labels, count)
        yield errors
        seconds = HistogramMetricFamily(
            f"{PREFIX}request_seconds", "Time from the request's head to the end of its answer.", labels=("route",)
        )
        received = CounterMetricFamily(
            f"{PREFIX}request_body_bytes", "Bytes of request bodies read.", labels=("route",)
        )
        for route, known in list(_routes.items()):
            total, buckets = 0, []
            for bound, count in zip((*map(str, BOUNDS), "+Inf"), known.buckets, strict=True):
                total += count
                buckets.append((bound, total))
            seconds.add_metric((route,), buckets, known.seconds)
            if known.body_bytes:
                received.add_metric((route,), known.body_bytes)
        yield seconds
        yield received


REGISTRY.register(Collector())

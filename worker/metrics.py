"""Prometheus metrics of the state plane, in the process-wide registry; the host serves them on its admin port."""

from prometheus_client import Counter, Histogram

REQUESTS = Counter(
    "moorage_state_plane_requests_total",
    "Requests answered, by route template and status.",
    ("method", "route", "status"),
)
ERRORS = Counter(
    "moorage_state_plane_errors_total",
    "Refusals and failures, by route template and wire code.",
    ("route", "code"),
)
SECONDS = Histogram(
    "moorage_state_plane_request_seconds",
    "Time from the request's head to the end of its answer.",
    ("route",),
    buckets=(0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0),
)
BODY_BYTES = Counter("moorage_state_plane_request_body_bytes_total", "Bytes of request bodies read.", ("route",))

# the methods that a label may show: a client must not be able to make series
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})

_children: dict[tuple[str, str, int], Counter] = {}
_seconds: dict[str, Histogram] = {}


def observe(method: str, route: str, status: int, seconds: float, body_bytes: int, code: str | None) -> None:
    """Counts one request. `route` is a template of ours, never a path that came in."""
    key = (method if method in _METHODS else "other", route, status)
    child = _children.get(key)
    if child is None:
        child = _children[key] = REQUESTS.labels(key[0], route, str(status))
    child.inc()
    timer = _seconds.get(route)
    if timer is None:
        timer = _seconds[route] = SECONDS.labels(route)
    timer.observe(seconds)
    if body_bytes:
        BODY_BYTES.labels(route).inc(body_bytes)
    if code is not None:
        ERRORS.labels(route, code).inc()

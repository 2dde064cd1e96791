"""Counters of the host, in Prometheus's client library's default registry."""

from functools import lru_cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from moorage.durable_objects.runtime import Runtime

_status = [0] * 600


class _Total:
    seconds = 0.0
    count = 0


_total = _Total()


def request(status: int, elapsed: float) -> None:
    """Counts an answered request. Cheap: the library's own counters are filled when they are read."""
    _status[status] += 1
    _total.seconds += elapsed
    _total.count += 1


@lru_cache(maxsize=1)
def _collector() -> Any:
    from prometheus_client import REGISTRY
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, SummaryMetricFamily

    class Collector:
        runtime: "Runtime | None" = None

        def collect(self) -> Any:
            requests = CounterMetricFamily("moorage_requests", "Requests answered.", labels=["status"])
            for status, count in enumerate(_status):
                if count:
                    requests.add_metric([str(status)], count)
            yield requests
            yield SummaryMetricFamily(
                "moorage_request_seconds", "Time to answer.", count_value=_total.count, sum_value=_total.seconds
            )
            if self.runtime is not None:
                live = GaugeMetricFamily("moorage_objects_live", "Objects in memory.", labels=["namespace"])
                for key, namespace in self.runtime.namespaces.items():
                    live.add_metric([key], len(namespace.live))
                yield live
                sockets = GaugeMetricFamily(
                    "moorage_objects_sockets", "Hibernatable WebSockets open.", labels=["namespace"]
                )
                for key, namespace in self.runtime.namespaces.items():
                    sockets.add_metric([key], sum(len(manager.sockets) for manager in namespace.sockets.values()))
                yield sockets

    made = Collector()
    REGISTRY.register(made)
    return made


def render(runtime: "Runtime | None") -> bytes:
    """Returns everything in Prometheus's text format."""
    from prometheus_client import generate_latest

    _collector().runtime = runtime
    return generate_latest()

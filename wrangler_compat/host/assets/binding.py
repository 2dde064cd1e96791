"""The binding `env.ASSETS`."""

from typing import Any

from moorage.durable_objects.runtime import gate as gates
from moorage.durable_objects.runtime.rpc import RpcPromise
from moorage.durable_objects.runtime.web import Request

from ...workers.bindings import FetcherBinding
from ..redirects import followed
from .serving import StaticAssets


class Fetcher(FetcherBinding):
    """The files of the Worker, as `await env.ASSETS.fetch(request)`. Only the path of a URL counts."""

    __slots__ = ("_assets",)

    def __init__(self, assets: StaticAssets) -> None:
        self._assets = assets

    def fetch(self, resource: Any, options: Any = None, **keywords: Any) -> RpcPromise:
        """An awaitable of the Response to a Request or to a URL with `method` and `headers`."""
        request = Request(resource, **{**dict(options or {}), **keywords})
        return RpcPromise.of(lambda: gates.run_outside(followed(request, self._assets.answer)))


AssetsFetcher = Fetcher

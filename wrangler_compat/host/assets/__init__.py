"""Static assets: a folder of files in front of a Worker, and `env.ASSETS` (platform: static assets)."""

from .binding import AssetsFetcher
from .serving import StaticAssets

__all__ = ["AssetsFetcher", "StaticAssets"]

"""SQL databases: `env.DB` (platform: D1)."""

from .database import D1Database
from .store import D1Store

__all__ = ["D1Database", "D1Store"]

"""Key-value namespaces: `env.KV` (platform: Workers KV)."""

from .namespace import KvNamespace
from .store import KvStore

__all__ = ["KvNamespace", "KvStore"]

"""Service bindings: `env.SVC`, another Worker of the process or a named entrypoint of one."""

from .fetcher import Fetcher, ServiceTarget

__all__ = ["Fetcher", "ServiceTarget"]

"""What bindings of a host derive from.

A binding is always true, has no length and cannot be iterated: Python says so itself, naming the class, so bindings
carry the platform's class names (`KvNamespace`, `Fetcher` …). A binding crosses RPC as it is (spec
python-workers-api 5).
"""

from __future__ import annotations


class Binding:
    """Base of what stands in `env`, apart from variables."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"[object {type(self).__name__}]"


class FetcherBinding(Binding):
    """Base of bindings that take requests: other Workers, static assets."""

    __slots__ = ()


__all__ = ["Binding", "FetcherBinding"]

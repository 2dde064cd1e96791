"""`import_from_javascript`: the two modules of the platform that Python code may ask for."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from .current import wait_until
from .entrypoints import DurableObject, RpcTarget, WorkerEntrypoint, WorkflowEntrypoint
from .environment import env, patch_env
from .js import NotOffered
from .workflows import NonRetryableError

_WORKERS = SimpleNamespace(
    env=env,
    waitUntil=wait_until,
    withEnv=patch_env,
    DurableObject=DurableObject,
    RpcTarget=RpcTarget,
    WorkerEntrypoint=WorkerEntrypoint,
    WorkflowEntrypoint=WorkflowEntrypoint,
)
_MODULES: dict[str, Any] = {
    "cloudflare:workers": _WORKERS,
    "cloudflare:sockets": SimpleNamespace(
        connect=NotOffered("cloudflare:sockets", "raw sockets; Python's own `asyncio.open_connection` works")
    ),
    "cloudflare:workflows": SimpleNamespace(NonRetryableError=NonRetryableError),
}


def import_from_javascript(module_name: str) -> Any:
    """The module of that name. Raises ImportError for any other than the platform's own."""
    try:
        return _MODULES[module_name]
    except KeyError:
        raise ImportError(
            f"Failed to import '{module_name}': Only 'cloudflare:workers' and 'cloudflare:sockets' are available; "
            "JavaScript modules are not run here"
        ) from None


__all__ = ["import_from_javascript"]

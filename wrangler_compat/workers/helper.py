"""`_pyodide_entrypoint_helper`: what the platform's own SDK asks its runtime for."""

from __future__ import annotations

from typing import Any

from .environment import patch_env
from .javascript import import_from_javascript

cloudflareWorkersModule = import_from_javascript("cloudflare:workers")
cloudflareSocketsModule = import_from_javascript("cloudflare:sockets")


async def doAnImport(name: str) -> Any:
    return import_from_javascript(name)


patch_env_helper = patch_env

__all__ = ["cloudflareSocketsModule", "cloudflareWorkersModule", "doAnImport", "patch_env_helper"]

"""Sessions: a runner of stages over one durable manifest, and immutable snapshots in a bucket.

`Runner` plans and runs `Stage`s (Python callables, or commands by `commands.CommandStage`) over a `LocalStore`;
`publishing`, `reading` and `restoring` are the remote side, over `objects.BucketObjects` or `remote.WorkerObjects`.
Rules: `moorage.protocols.sessions`.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .runner import Runner
    from .stages import Stage, StageContext
    from .store import LocalStore

__all__ = ["LocalStore", "Runner", "Stage", "StageContext"]
_HOMES = {"LocalStore": "store", "Runner": "runner", "Stage": "stages", "StageContext": "stages"}


def __getattr__(name: str) -> Any:
    # the command line starts without them
    if name in _HOMES:
        from importlib import import_module

        return getattr(import_module(f".{_HOMES[name]}", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

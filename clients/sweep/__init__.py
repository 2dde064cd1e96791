"""The sweep engine on a file, on a pushed branch, and against a state plane.

`SweepFile` is the only writer of a state file; `SharedSweep` and `AsyncSharedSweep` say the same to the `SweepState`
object of a state plane. Rules: `moorage.protocols.sweep`.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .file import SweepFile
    from .remote import AsyncSharedSweep, SharedSweep

__all__ = ["AsyncSharedSweep", "SharedSweep", "SweepFile"]


def __getattr__(name: str) -> Any:
    # a command on a file loads nothing of the network
    if name == "SweepFile":
        from .file import SweepFile

        return SweepFile
    if name in __all__:
        from . import remote

        return getattr(remote, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

"""The sweep engine on a file, on a pushed branch, and against a state plane.

`SweepFile` is the only writer of a state file; `SharedSweep` and `AsyncSharedSweep` say the same to the `SweepState`
object of a state plane. Rules: `moorage.protocols.sweep`.
"""

from .file import SweepFile
from .remote import AsyncSharedSweep, SharedSweep

__all__ = ["AsyncSharedSweep", "SharedSweep", "SweepFile"]

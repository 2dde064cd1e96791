"""Why a Worker cannot be started, for people."""

import asyncio
import itertools
import sqlite3
import traceback
from pathlib import Path

from . import loader

_HERE = str(Path(__file__).parent)
_ASYNCIO = str(Path(asyncio.__file__).parent)


def told(error: BaseException) -> str:
    """The text of an error of ours or of the machine's (a port, the state folder), else the Worker's own lines."""
    frames = traceback.extract_tb(error.__traceback__)
    if not any(frame.filename == loader.__file__ and frame.name == "_import" for frame in frames):
        if isinstance(error, OSError) and error.strerror:
            return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
        if isinstance(error, sqlite3.Error) and str(error):
            return str(error)
    ours = type(error).__module__.startswith("moorage.")
    return str(error) if ours and str(error) else own_traceback(error)


def own_traceback(error: BaseException) -> str:
    """The traceback without the host's own frames, and without those of the loop that led to it."""
    frames = itertools.dropwhile(_leads_to_it, traceback.extract_tb(error.__traceback__))
    shown = [frame for frame in frames if not frame.filename.startswith((_HERE, "<frozen importlib"))]
    return "".join([*traceback.format_list(shown), *traceback.format_exception_only(error)]).rstrip()


def _leads_to_it(frame: traceback.FrameSummary) -> bool:
    return frame.filename.startswith((_HERE, _ASYNCIO)) or "uvloop" in Path(frame.filename).parts

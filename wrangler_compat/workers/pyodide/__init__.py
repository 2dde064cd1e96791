"""What user code imports as `pyodide`: the bridge to JavaScript, over values that are Python's already (spec 6)."""

from . import ffi

__version__ = "0.28.2"

__all__ = ["__version__", "ffi"]

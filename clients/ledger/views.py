"""Views on disk: written whole or not at all. A view is no source; it may be rebuilt and replaced at any time."""

import os
import uuid
from pathlib import Path

from moorage.protocols.ledger.canonical import Json, canonical_text, quote


def view_text(value: Json) -> str:
    """Canonical spelling of a view, without the size limits of events, ended by a line feed."""
    return _text(value) + "\n"


def _text(value: Json) -> str:
    if isinstance(value, dict):
        return "{" + ",".join(f"{quote(name)}:{_text(value[name])}" for name in sorted(value)) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(_text, value)) + "]"
    if isinstance(value, str):
        return quote(value)
    return canonical_text(value)


def write_view(path: Path, value: Json) -> None:
    """Replaces the file at `path` in one step, after the new content is durable."""
    staged = path.with_name(f"{path.name}.{os.getpid()}.{uuid.uuid4()}.tmp")
    try:
        with staged.open("x", encoding="utf-8") as file:
            file.write(view_text(value))
            file.flush()
            os.fsync(file.fileno())
        staged.replace(path)
    except BaseException:
        staged.unlink(missing_ok=True)
        raise

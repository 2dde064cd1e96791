"""Portable opaque names: campaign, session and run; and paths inside a session (spec session-manifest 2).

Nothing is ever normalised: that would move work into another namespace.
"""

import re
from typing import Final

from .errors import IdentityRefused

SEGMENT_GRAMMAR: Final = r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}"
MIGRATION: Final = (
    "choose a name of letters, digits, '.', '_' and '-' (at most 128, beginning with a letter or digit), start a new "
    "session under it, and copy the inputs over; an existing name is never rewritten"
)
MAX_PATH: Final = 1024

_SEGMENT: Final = re.compile(SEGMENT_GRAMMAR + r"\Z")
_DEVICE: Final = re.compile(r"(?:con|prn|aux|nul|com[1-9]|lpt[1-9])(?:\..*)?\Z", re.IGNORECASE)
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f]")


def segment_fault(text: str) -> str | None:
    """What is wrong with `text` as a name, or None."""
    if not _SEGMENT.match(text):
        return "it is not 1 to 128 letters, digits, '.', '_' and '-' beginning with a letter or digit"
    if text.endswith("."):
        return "it ends in '.'"
    if _DEVICE.match(text):
        return "it is the name of a device on some systems"
    return None


def check_segment(field: str, text: str) -> str:
    """`text` when it is a safe segment. Raises IdentityRefused with the migration hint."""
    fault = segment_fault(text)
    if fault is not None:
        raise IdentityRefused(field, text, fault, MIGRATION)
    return text


def path_fault(text: str) -> str | None:
    """What is wrong with `text` as a path below a root, or None: relative, no `.` or `..`, no backslash, no control
    character.
    """
    if not text or len(text) > MAX_PATH:
        return f"it is empty or longer than {MAX_PATH} characters"
    if text.startswith("/"):
        return "it is absolute"
    if "\\" in text or _CONTROL.search(text) or not _encodes(text):
        return "it has a backslash, a control character or a lone surrogate"
    if any(part in ("", ".", "..") for part in text.split("/")):
        return "it has an empty part, '.' or '..'"
    return None


def _encodes(text: str) -> bool:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def prefix_fault(text: str) -> str | None:
    """What is wrong with `text` as a prefix of keys, or None: a path without a slash at either end."""
    return path_fault(text)


def run_prefix(session_prefix: str, run_id: str) -> str:
    """Where one run's objects lie: `{session_prefix}/runs/{run_id}`."""
    return f"{session_prefix}/runs/{run_id}"


def commit_key(session_prefix: str, run_id: str) -> str:
    """The key of a run's remote commit (spec session-manifest 11, step 3)."""
    return f"{run_prefix(session_prefix, run_id)}/commit.json"


def artifact_key(session_prefix: str, run_id: str, path: str) -> str:
    """The key of an artifact of a run: its path below the session's folder, under `artifacts/`."""
    return f"{run_prefix(session_prefix, run_id)}/artifacts/{path}"


def artifact_path(session_prefix: str, run_id: str, key: str) -> str | None:
    """The path that `artifact_key` was made from, or None when the key is none of this run's artifacts."""
    root = artifact_key(session_prefix, run_id, "")
    path = key.removeprefix(root)
    return path if key.startswith(root) and path_fault(path) is None else None


def pointer_key(session_prefix: str) -> str:
    """The key of the commit pointer, the only object that is ever replaced."""
    return f"{session_prefix}/current/commit-pointer.json"


def shared_prefix(campaign: str, session_id: str) -> str:
    """The session prefix that the state plane uses, and the default on a bucket."""
    return f"sessions/v1/{campaign}/{session_id}"

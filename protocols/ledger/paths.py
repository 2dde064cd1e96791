"""Portable relative data paths and path pieces (spec action-ledger 6.2, 10.1)."""

import re

from .canonical import sha256_text
from .confidential import is_confidential
from .refusals import LedgerRefusal
from .text import bounded, repository_text

_NAMESPACES = r"\.artifacts|artifacts|jobs|ledger|logs|notifications|records|results"
_SEGMENT = r"[A-Za-z0-9_](?:[A-Za-z0-9_.+@\-]{0,253}[A-Za-z0-9_+@\-])?"
_DATA_PATH = re.compile(rf"(?:{_NAMESPACES})(?:/{_SEGMENT})+")
_DEVICE = re.compile(r"(?:con|prn|aux|nul|com[1-9]|lpt[1-9])(?:\..*)?", re.IGNORECASE | re.DOTALL | re.ASCII)
_DEVICE_SEGMENT = re.compile(r"/(?:con|prn|aux|nul|com[1-9]|lpt[1-9])(?:[./]|\Z)", re.IGNORECASE | re.ASCII)
_UNSAFE_RUN = re.compile(r"[^A-Za-z0-9_.\-]+")
NAME_DIGITS = 12


def is_device_name(name: str) -> bool:
    """Whether Windows takes `name` for a device: CON, NUL, COM1 …, alone or before a dot, in any case."""
    return _DEVICE.fullmatch(name) is not None


def data_path(value: object, where: str = "path") -> str:
    """A relative data path without its leading `./`. Raises: type, required, control, too-long, relative-path,
    confidential."""
    text = bounded(value, 512, where).removeprefix("./")
    if not _DATA_PATH.fullmatch(text) or any(is_device_name(segment) for segment in text.split("/")):
        raise LedgerRefusal(
            "relative-path",
            "must be a portable path below .artifacts artifacts jobs ledger logs notifications records results",
            where,
        )
    if is_confidential(text):
        raise LedgerRefusal("confidential", "reads like a credential, a private place or an address", where)
    return text


def is_plain_data_path(text: str) -> bool:
    """Whether `text` is a data path in normal form."""
    return (
        len(text) <= 512
        and _DATA_PATH.fullmatch(text) is not None
        and not _DEVICE_SEGMENT.search(text)
        and not is_confidential(text)
    )


def repository_slug(repository: str) -> str:
    """Readable folder name of a normalised repository: unsafe runs become `-`. Not unique; a digest goes with it."""
    return _UNSAFE_RUN.sub("-", repository)


def path_piece(value: str, limit: int) -> str:
    """One path component for `value`: readable, portable, at most `limit` characters, with a digest when it is cut.

    The rule is `seg` of spec action-ledger 10.1.
    """
    piece = _UNSAFE_RUN.sub("-", value).strip("-")
    if piece in ("", ".", ".."):
        piece = "unknown"
    device = is_device_name(piece)
    if not device and not piece.endswith(".") and len(piece) <= limit:
        return piece
    kept = (f"_{piece}" if device else piece).rstrip(".")[: limit - 13]
    return f"{kept}-{sha256_text(value)[:NAME_DIGITS]}"


def spool_folder(repository: object) -> str:
    """Name of a repository's spool folder: slug and 12 digits of the digest that tells equal slugs apart."""
    normal = repository_text(repository)
    return f"{repository_slug(normal)}-{sha256_text(normal)[:NAME_DIGITS]}"


SPOOL = ".clawsweeper-repair/action-events"


def spool_path(repository: object, event_id: str) -> str:
    """Path of an event's file below the spool root (spec 9)."""
    return f"{SPOOL}/{spool_folder(repository)}/{event_id}.json"

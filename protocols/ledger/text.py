"""Machine text: trimming, limits and the forms of spec action-ledger 6.1.

Every function takes the caller's value, returns its normal form and raises LedgerRefusal. `where` names the field in
the error. Lengths are UTF-16 units, as the reference counts.
"""

import re

from .confidential import is_confidential
from .refusals import LedgerRefusal
from .whitespace import trim

_CONTROL = re.compile("[\x00-\x1f\x7f]")
_MACHINE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:/@+-]*")
_SCOPE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.+-]*")
_REPOSITORY = re.compile(r"[a-z0-9_][a-z0-9_.-]*/[a-z0-9_][a-z0-9_.-]*")
_DIGEST = re.compile(r"[0-9a-f]{64}")
_EVENT_KEY = re.compile(r"(.{1,128}):([0-9a-f]{64})", re.DOTALL)


def utf16_length(value: str) -> int:
    """Length in UTF-16 code units."""
    return len(value) if value.isascii() else len(value.encode("utf-16-le", "surrogatepass")) // 2


def bounded(value: object, limit: int | None, where: str) -> str:
    """Trimmed text within `limit`. Raises: type, required, control, too-long."""
    if not isinstance(value, str):
        raise LedgerRefusal("type", f"expected text, not {type(value).__name__}", where)
    text = trim(value)
    if not text:
        raise LedgerRefusal("required", "must not be empty", where)
    if _CONTROL.search(text):
        raise LedgerRefusal("control", "holds a control character", where)
    if limit is not None and utf16_length(text) > limit:
        raise LedgerRefusal("too-long", f"at most {limit} characters", where)
    return text


def machine_text(value: object, where: str = "", limit: int = 256) -> str:
    """Machine text: a letter or digit, then letters, digits and `_ . : / @ + -`, nothing confidential."""
    text = bounded(value, limit, where)
    if is_confidential(text):
        raise LedgerRefusal("confidential", "reads like a credential, a private place or an address", where)
    if not _MACHINE.fullmatch(text):
        raise LedgerRefusal(
            "machine-text", "starts with a letter or digit and holds letters, digits and _ . : / @ + - only", where
        )
    return text


def scope_text(value: object, where: str = "scope") -> str:
    """An operation or event scope: at most 128 of letters, digits and `_ . + -`, nothing confidential."""
    text = bounded(value, 128, where)
    if not _SCOPE.fullmatch(text):
        raise LedgerRefusal(
            "machine-text", "starts with a letter or digit and holds letters, digits and _ . + - only", where
        )
    if is_confidential(text):
        raise LedgerRefusal("confidential", "reads like a credential, a private place or an address", where)
    return text


def repository_text(value: object, where: str = "repository") -> str:
    """`owner/name`, lower case. Only the form is judged."""
    text = bounded(value, None, where).lower()
    if not _REPOSITORY.fullmatch(text):
        raise LedgerRefusal("repository", "must be owner/name", where)
    return text


def digest_text(value: object, where: str = "digest") -> str:
    """A SHA-256 digest, 64 hex digits, lower case. An empty or malformed one is `sha256`."""
    if not isinstance(value, str):
        raise LedgerRefusal("type", f"expected text, not {type(value).__name__}", where)
    text = trim(value).lower()
    if not _DIGEST.fullmatch(text):
        raise LedgerRefusal("sha256", "must be 64 hex digits", where)
    return text


def is_digest(value: object) -> bool:
    """Whether `value` is a digest in its stored, lower-case form."""
    return isinstance(value, str) and _DIGEST.fullmatch(value) is not None


def event_key_text(value: object, where: str = "event_key") -> str:
    """An event key `scope:digest` (spec 2): at most 193 units; its scope passes the scope check."""
    text = bounded(value, 193, where)
    found = _EVENT_KEY.fullmatch(text)
    if found is None:
        raise LedgerRefusal("event-key", "must be a scope, a colon and 64 lower-case hex digits", where)
    if scope_text(found[1], where) != found[1]:
        raise LedgerRefusal("event-key", "holds white space", where)
    return text

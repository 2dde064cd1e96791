"""What durable machine text must never hold: credentials, private places, addresses (spec action-ledger 6.3, 6.4).

`is_confidential` is the one question. The rules below carry the numbers of the specification's table; a value is
confidential when any of them matches anywhere in it. Almost every value that real writers store is settled by one
scan for the few characters and words without which no rule can match.
"""

import re
from functools import lru_cache

from .hosts import is_private_host, is_private_url

_SB = r"(?<![A-Za-z0-9+.\-])"
# ECMAScript's \s: the set that `text.trim` removes.
_WS = r"[\t-\r \u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000\ufeff]"
_NOT_WS_SLASH_AT = r"[^/@\t-\r \u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000\ufeff]"
_LABEL = r"[A-Za-z0-9\-]+"
_OCTET = r"\.\d{1,3}"
_CGNAT = r"100\.(?:6[4-9]|[7-9]\d|1[01]\d|12[0-7])"
_B172 = r"172\.(?:1[6-9]|2\d|3[01])"
_Z = r"0{1,4}"
_WEB = rf"{_SB}(?:https?|ftp|wss?):/{{0,2}}"
_HIGH = r"(?:0?a[0-9a-f]{2}|64[4-7][0-9a-f]|7f[0-9a-f]{2}|a9fe|ac1[0-9a-f]|c0a8)"
_V6_FRONT, _V6_END = r"(?:^|[\[/:@])", r"(?=\Z|[\]/:])"

_EXACT = re.ASCII
_ANY_CASE = re.ASCII | re.IGNORECASE

_RULES: tuple[tuple[int, "re.Pattern[str]"], ...] = tuple(
    (number, re.compile(pattern, flags))
    for number, flags, pattern in (
        (1, _ANY_CASE, r"/(?:users|home|private|tmp)/"),
        (2, _ANY_CASE, r"\\users\\"),
        (3, _EXACT, r"(?:^|[/\\])[A-Za-z]:[/\\]"),
        (4, _EXACT, r"[A-Za-z0-9_.@+\-]:(?:/(?!/)|[A-Za-z]:/)"),
        (5, _EXACT, r"%[0-9A-Fa-f]{2}"),
        (6, _ANY_CASE, rf"{_SB}file:"),
        (7, _EXACT, rf"{_SB}[A-Za-z][A-Za-z0-9+.\-]*://{_NOT_WS_SLASH_AT}+@"),
        (8, _ANY_CASE, rf"{_SB}(?:https?|ftp|ssh|ws?):(?://)?{_NOT_WS_SLASH_AT}+@"),
        (9, _EXACT, r"BEGIN (?:RSA |EC |OPENSSH )?PRIVATE KEY"),
        (10, _ANY_CASE, r"gh[pousr]_[a-z0-9]{16}|github_pat_[a-z0-9_]{16}|sk-[a-z0-9_\-]{16}"),
        (11, _ANY_CASE, r"(?<![a-z0-9])npm_[a-z0-9]{36}(?![a-z0-9])"),
        (12, _ANY_CASE, r"(?<![a-z0-9])xox[a-z]-[a-z0-9\-]{10}"),
        (13, _ANY_CASE, r"(?<![a-z0-9])a[ks]ia[a-z0-9]{16}(?![a-z0-9])"),
        (14, _EXACT, r"eyJ[A-Za-z0-9_\-]{5,}\.eyJ[A-Za-z0-9_\-]{5,}\.[A-Za-z0-9_\-]{16}"),
        (
            15,
            _ANY_CASE,
            r"(?:bearer|authorization|api[_\-]?key|api[_\-]?token|access[_\-]?token|client[_\-]?secret"
            r"|cloudflare[_\-]?(?:api[_\-]?)?(?:key|token))"
            rf"(?:{_WS}*[:=_+\-]{_WS}*|{_WS}+|%20)[a-z0-9._~+/\-]{{16}}",
        ),
        (
            16,
            _ANY_CASE,
            rf"basic(?:{_WS}*[:+]{_WS}*|{_WS}+|%20)(?:[a-z0-9+/]{{4}})+(?:[a-z0-9+/]{{2}}==|[a-z0-9+/]{{3}}=)?"
            r"(?![a-z0-9+/=])",
        ),
        (17, _EXACT, r"[A-Za-z0-9._%+\-]@[A-Za-z0-9]"),
        (
            18,
            _ANY_CASE,
            rf"(?:^|[/:@])(?:localhost|(?:{_LABEL}\.)+(?:localhost|local|internal|corp|lan|home\.arpa|home)"
            rf"|(?:internal|intranet)\.(?:{_LABEL}\.)*{_LABEL})\.*(?=\Z|[/:])",
        ),
        (
            19,
            _EXACT,
            rf"(?<!\d)(?:(?:10|127)(?:{_OCTET}){{3}}|(?:{_CGNAT}|169\.254|192\.168|{_B172})(?:{_OCTET}){{2}})(?!\d)",
        ),
        (
            20,
            _EXACT,
            r"(?<!\d)(?:0\d+\.\d+\.\d+\.\d+|\d+\.0\d+\.\d+\.\d+|\d+\.\d+\.0\d+\.\d+|\d+\.\d+\.\d+\.0\d+)(?!\d)",
        ),
        (
            21,
            _ANY_CASE,
            rf"{_V6_FRONT}(?:::(?:{_Z}:){{0,6}}0*1|(?:{_Z}:){{1,6}}:(?:{_Z}:){{0,6}}0*1"
            rf"|(?:{_Z}:){{7}}0*1|(?:f[cd][0-9a-f]{{2}}|fe[89ab][0-9a-f]):[0-9a-f:]+){_V6_END}",
        ),
        (
            22,
            _ANY_CASE,
            rf"{_V6_FRONT}(?:(?:{_Z}:){{5}}ffff:|(?:{_Z}:){{6}}|(?:{_Z}:){{0,3}}(?:{_Z})?::ffff:"
            rf"|(?:{_Z}:){{0,4}}(?:{_Z})?::){_HIGH}:[0-9a-f]{{1,4}}{_V6_END}",
        ),
        (
            23,
            _ANY_CASE,
            rf"{_WEB}(?:(?:10|127)(?:\.\d+){{1,2}}|(?:{_CGNAT}|169\.254|192\.168|{_B172})\.\d+)(?=\Z|[/:])",
        ),
        (24, _ANY_CASE, rf"{_WEB}(?:0x[0-9a-f]+|\d+)(?=\Z|[/:])"),
        (25, _ANY_CASE, rf"{_WEB}(?:{_LABEL}\.)*(?:0x[0-9a-f]+|0\d+)(?=[./:]|\Z)"),
    )
)

_EMBEDDED_URL = re.compile(
    r"\b[A-Za-z][A-Za-z0-9+.\-]*://[^\"'<>\t-\r \u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000\ufeff]+",
    _EXACT,
)
_EMBEDDED_QUAD = re.compile(r"\b\d{1,3}(?:\.\d{1,3}){3}\b", _EXACT)

# No rule matches a text of letters, digits, `_ . + -` and `/` alone unless one of these is in it: `\`, `%`, `@`, `:`
# and everything outside the alphabet are suspicious by themselves; the rest are the fixed parts of rules 1, 10 to 16
# and 18, and four dot-separated pieces (19, 20 and the host test).
_SUSPICIOUS = re.compile(
    r"[^A-Za-z0-9_.+/\-]|/(?:users|home|private|tmp)/|gh[pousr]_|github_pat_|sk-|npm_|xox|a[ks]ia|eyj|bearer|authorization"
    r"|api[_\-]?key|api[_\-]?token|access|client|cloudflare|basic|local|internal|corp|lan|home|intranet"
    r"|\.[^.]*\.[^.]*\.",
    _ANY_CASE,
)


# The one frequent text with colons: a revision that is a point in time.
_TIMESTAMP = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,9})?Z", _EXACT)


def matching_rule(value: str) -> int | None:
    """Number of the first pattern rule of spec 6.3 that matches, or None."""
    for number, pattern in _RULES:
        if pattern.search(value):
            return number
    return None


@lru_cache(maxsize=4096)
def is_confidential(value: str) -> bool:
    """Whether `value` may not be stored: any rule of spec action-ledger 6.3 or 6.4 holds. `value` is trimmed."""
    if not _SUSPICIOUS.search(value) or _TIMESTAMP.fullmatch(value):
        return False
    return is_confidential_by_every_rule(value)


def is_confidential_by_every_rule(value: str) -> bool:
    """`is_confidential` without the quick answer; tests compare the two."""
    if matching_rule(value) is not None or is_private_host(value) or is_private_url(value):
        return True
    if any(is_private_url(found[0]) for found in _EMBEDDED_URL.finditer(value)):
        return True
    return any(is_private_host(found[0]) for found in _EMBEDDED_QUAD.finditer(value))

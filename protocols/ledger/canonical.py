"""Canonical JSON: one text for one value, with limits that hold before anything is written (spec action-ledger 1).

`canonical_text` takes plain Python values: `None`, `bool`, `int`, `float`, `str`, `list` and `dict` with text keys,
exactly those types; everything else (tuples, subclasses, dates, bytes) is refused, since its JSON form is a choice
that two writers can make differently. All walks keep their own stack: depth never reaches the interpreter's.
"""

import hashlib
import json
import math
import re
from json.encoder import encode_basestring
from typing import Any, TypeAlias

from .refusals import LedgerRefusal

Json: TypeAlias = Any

MAX_DEPTH = 64
MAX_NODES = 10_000
MAX_BYTES = 1_048_576
MAX_SAFE_INTEGER = 2**53 - 1

_SURROGATE = re.compile("[\ud800-\udfff]")
_NOT_ALNUM = re.compile("[^A-Za-z0-9]")
_ENCODER = json.JSONEncoder(
    ensure_ascii=False, separators=(",", ":"), sort_keys=True, check_circular=False, allow_nan=False
)

_CREDENTIAL_NAME = re.compile(
    "authorization|cookie|credentials?|password|passwd|secret|token|accesstoken|apikey|apitoken|authtoken|githubtoken"
    "|refreshtoken|cloudflareapitoken|privatekey|clientsecret"
    "|.*(?:authorization|authorizationheader|authheader|bearertoken|credentials?|password|passwd|privatekey|secret|token)"
)


def is_credential_name(key: str) -> bool:
    """Whether an identity key reads like the name of a credential, separators and case aside (spec 1.4)."""
    return _CREDENTIAL_NAME.fullmatch(_NOT_ALNUM.sub("", key).lower()) is not None


def quote(text: str) -> str:
    """The canonical JSON string for `text`, quotes included; lone surrogates become `\\uxxxx`."""
    quoted: str = encode_basestring(text)
    if not quoted.isascii() and _SURROGATE.search(quoted):
        paired = quoted.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
        return _SURROGATE.sub(lambda found: f"\\u{ord(found[0]):04x}", paired)
    return quoted


def quoted_bytes(text: str) -> int:
    """UTF-8 length of the quoted canonical form."""
    quoted = quote(text)
    return len(quoted) if quoted.isascii() else len(quoted.encode())


def number_text(value: float) -> str:
    """Shortest decimal that reads back to the same double, in canonical spelling. `value` is checked before."""
    if value == int(value):
        return str(int(value))
    text = repr(value)
    mantissa, _, exponent = text.partition("e")
    if not exponent:
        # repr is plain down to 1e-4
        return text
    power = int(exponent)
    if power >= -6:
        sign, digits = ("-", mantissa[1:]) if mantissa[0] == "-" else ("", mantissa)
        return f"{sign}0.{'0' * (-power - 1)}{digits.replace('.', '')}"
    return f"{mantissa}e{power}"


def check_integer(value: int) -> None:
    """Raises `number` for an integer beyond ±(2**53 − 1)."""
    if not -MAX_SAFE_INTEGER <= value <= MAX_SAFE_INTEGER:
        raise LedgerRefusal("number", "integers end at 9007199254740991; write larger identifiers as text")


def check_float(value: float) -> None:
    """Raises `number` for what canonical JSON cannot hold: not finite, negative zero, unsafe integral values."""
    if not math.isfinite(value):
        raise LedgerRefusal("number", "numbers must be finite")
    if value == 0 and math.copysign(1.0, value) < 0:
        raise LedgerRefusal("number", "negative zero has no canonical form; write 0")
    if value.is_integer():
        check_integer(int(value))


def check(value: Json, *, identity: bool = False) -> bool:
    """Checks the limits of spec 1.1, 1.2 (and with `identity` 1.4) in document order.

    Returns whether the standard encoder writes the canonical spelling of every scalar: false when a float or a
    surrogate is among them. Raises LedgerRefusal: number,
    surrogate-key, depth, nodes, bytes, credential-field, non-json.
    """
    nodes = size = 0
    plain = True
    stack: list[tuple[Json, int]] = [(value, 0)]
    while stack:
        item, depth = stack.pop()
        if depth > MAX_DEPTH:
            raise LedgerRefusal("depth", f"values nest at most {MAX_DEPTH} deep")
        nodes += 1
        if nodes > MAX_NODES:
            raise LedgerRefusal("nodes", f"at most {MAX_NODES} values")
        kind = type(item)
        if kind is str:
            if item.isascii():
                size += len(encode_basestring(item))
            else:
                size += quoted_bytes(item)
                plain = plain and not _SURROGATE.search(item)
        elif kind is int:
            check_integer(item)
            size += 24
        elif kind is dict:
            if nodes + len(item) > MAX_NODES:
                raise LedgerRefusal("nodes", f"at most {MAX_NODES} values")
            size += 2
            for key in item:
                if type(key) is not str:
                    raise LedgerRefusal("non-json", f"object keys are text, not {type(key).__name__}")
                if not key.isascii() and _SURROGATE.search(key):
                    raise LedgerRefusal("surrogate-key", "object keys hold no unpaired surrogate")
                if identity and is_credential_name(key):
                    raise LedgerRefusal("credential-field", f"{key!r} names a credential; identities hold none")
                size += quoted_bytes(key) + 2
            stack.extend((member, depth + 1) for member in reversed(item.values()))
        elif item is None:
            size += 4
        elif kind is bool:
            size += 5
        elif kind is list:
            if nodes + len(item) > MAX_NODES:
                raise LedgerRefusal("nodes", f"at most {MAX_NODES} values")
            size += 2 + max(len(item) - 1, 0)
            stack.extend((member, depth + 1) for member in reversed(item))
        elif kind is float:
            check_float(item)
            plain = False
            size += 24
        else:
            raise LedgerRefusal("non-json", f"{kind.__name__} is no plain JSON value")
        if size > MAX_BYTES:
            raise LedgerRefusal("bytes", f"the value's budget of {MAX_BYTES} bytes is spent")
    return plain


def _write(value: Json) -> str:
    """Canonical text of a checked value, without recursion."""
    out: list[str] = []
    # An entry is either finished text or a value still to be written.
    stack: list[tuple[bool, Json]] = [(False, value)]
    while stack:
        finished, item = stack.pop()
        kind = type(item)
        if finished:
            out.append(item)
        elif kind is str:
            out.append(quote(item))
        elif item is None:
            out.append("null")
        elif kind is bool:
            out.append("true" if item else "false")
        elif kind is int:
            out.append(str(item))
        elif kind is float:
            out.append(number_text(item))
        elif kind is list:
            stack.append((True, "]"))
            for index in range(len(item) - 1, -1, -1):
                stack.append((False, item[index]))
                if index:
                    stack.append((True, ","))
            out.append("[")
        else:
            stack.append((True, "}"))
            # Code point order is UTF-8 byte order, and keys hold no surrogates.
            keys = sorted(item)
            for index in range(len(keys) - 1, -1, -1):
                stack.append((False, item[keys[index]]))
                stack.append((True, f"{',' if index else ''}{quote(keys[index])}:"))
            out.append("{")
    return "".join(out)


def canonical_text(value: Json, *, identity: bool = False) -> str:
    """Canonical text of `value`; with `identity`, credential-bearing keys are refused too. Raises as `check`."""
    if check(value, identity=identity):
        return _ENCODER.encode(value)
    return _write(value)


def sha256_text(text: str) -> str:
    """SHA-256 of the UTF-8 bytes, as lower-case hex digits. A lone surrogate counts as U+FFFD."""
    try:
        data = text.encode()
    except UnicodeEncodeError:
        data = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace").encode()
    return hashlib.sha256(data).hexdigest()


def canonical_digest(value: Json, *, identity: bool = False) -> str:
    """SHA-256 of the canonical text."""
    return sha256_text(canonical_text(value, identity=identity))


def parse_integer(text: str) -> int | float:
    """Integer literal as canonical JSON sees it: `-0` stays negative zero, long literals round to a double."""
    if text == "-0":
        return -0.0
    return int(text) if len(text) < 17 else _whole(float(text))


def parse_float(text: str) -> int | float:
    """Literal with fraction or exponent; integral values come back as integers, as JSON has one number type."""
    return _whole(float(text))


def _whole(value: float) -> int | float:
    if math.isfinite(value) and value.is_integer() and not (value == 0 and math.copysign(1.0, value) < 0):
        return int(value)
    return value


def _refuse_constant(name: str) -> None:
    raise LedgerRefusal("json-syntax", f"{name} is no JSON")


_DECODER = json.JSONDecoder(parse_int=parse_integer, parse_float=parse_float, parse_constant=_refuse_constant)


def parse_json(text: str) -> Json:
    """The value of a JSON text, with numbers as canonical JSON judges them; the last of repeated keys counts.

    Raises LedgerRefusal `json-syntax`, or `depth` when the text nests beyond what can be a ledger value.
    """
    try:
        return _DECODER.decode(text)
    except RecursionError:
        raise LedgerRefusal("depth", f"values nest at most {MAX_DEPTH} deep") from None
    except json.JSONDecodeError as error:
        raise LedgerRefusal("json-syntax", f"no JSON: {error.msg} at character {error.pos}") from None

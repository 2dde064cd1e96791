"""Request bodies: JSON as the reference reads it."""

import json
import re
from typing import Any, Final, TypeVar

import msgspec

T = TypeVar("T")

_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_decode = msgspec.json.decode


class NotJson(ValueError):
    """The bytes are not a JSON text in UTF-8, or not of the form asked for."""


def _refuse_constant(name: str) -> None:
    raise NotJson(f"{name} is not JSON")


def _integer(digits: str) -> int | float:
    # Python refuses to read integers of more than 4,300 digits; as a double they are infinite long before that
    return int(digits) if len(digits) < 400 else float(digits)


def _without_lone_surrogates(value: Any) -> Any:
    if isinstance(value, str):
        return _SURROGATE.sub("\ufffd", value)
    if isinstance(value, list):
        return [_without_lone_surrogates(entry) for entry in value]
    if isinstance(value, dict):
        return {_without_lone_surrogates(key): _without_lone_surrogates(entry) for key, entry in value.items()}
    return value


def _slowly(body: bytes, *, keep_surrogates: bool = False) -> Any:
    """What the fast parser refuses and the reference accepts: lone surrogates (U+FFFD when written), 1e400."""
    try:
        value = json.loads(body.decode("utf-8"), parse_constant=_refuse_constant, parse_int=_integer)
        return value if keep_surrogates else _without_lone_surrogates(value)
    except (ValueError, RecursionError) as error:
        raise NotJson(str(error) or "nested too deeply") from None


def parse(body: bytes, *, keep_surrogates: bool = False) -> Any:
    """The JSON value of `body`: a repeated member's last value counts, NaN and Infinity are no JSON, a byte-order
    mark neither.

    A lone surrogate becomes U+FFFD, unless `keep_surrogates`: such a text cannot be encoded as it is. Raises NotJson.
    """
    try:
        return _decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return _slowly(body, keep_surrogates=keep_surrogates)


def parse_object(body: bytes) -> dict[str, Any]:
    """The JSON object of `body`. Raises NotJson when it is another value, or none."""
    value = parse(body)
    if not isinstance(value, dict):
        raise NotJson(f"a JSON object is needed, not {type(value).__name__}")
    return value


def members(body: bytes) -> dict[str, Any]:
    """The members of the JSON object of `body`; none when it is no object or no JSON.

    For routes where the reference does not tell a bad body from an absent field (`auth/non-json-body`).
    """
    try:
        value = parse(body)
    except NotJson:
        return {}
    return value if isinstance(value, dict) else {}


def parse_as(form: type[T], body: bytes) -> T:
    """`body` decoded straight into the msgspec Struct `form`; members that it does not name are skipped.

    Raises NotJson when the body is no JSON object or a member has the wrong type.
    """
    try:
        return _decode(body, type=form)
    except msgspec.ValidationError as error:
        raise NotJson(str(error)) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        try:
            return msgspec.convert(_slowly(body), form)
        except msgspec.ValidationError as error:
            raise NotJson(str(error)) from None

"""What a key-value namespace accepts, with the platform's limits and texts (platform: Workers KV limits).

Pure: the time is handed in, in seconds since 1970.
"""

import base64
import binascii
import json
import math
from collections.abc import Mapping
from typing import Any, Final

from moorage.durable_objects.runtime.web import js_string, to_plain

from ...workers.js.errors import JsException

MAX_KEY: Final = 512
MAX_VALUE: Final = 25 * 1024 * 1024
MAX_METADATA: Final = 1024
MAX_KEYS: Final = 1000
MAX_MANY: Final = 100
MIN_TTL: Final = 60
MIN_CACHE_TTL: Final = 30
TYPES: Final = ("text", "json", "arrayBuffer", "stream")


def failed(operation: str, status: int, text: str) -> JsException:
    """The platform's error of an operation: `KV PUT failed: 413 …`."""
    return JsException(f"KV {operation} failed: {status} {text}")


def check_key(value: Any, operation: str) -> str:
    """The key. Raises TypeError for one that is no text, is empty, `.` or `..`, and an error beyond 512 bytes."""
    if not isinstance(value, str):
        raise TypeError(f"a KV key must be a text, not {type(value).__name__}")
    if not value:
        raise TypeError("Key name cannot be empty.")
    if value in {".", ".."}:
        raise TypeError(f'"{value}" is not allowed as a key name.')
    try:
        size = len(value.encode())
    except UnicodeEncodeError:
        raise TypeError(f"the KV key {value!r} has a lone surrogate, so it has no UTF-8 form") from None
    if size > MAX_KEY:
        raise failed(operation, 414, f"UTF-8 encoded length of {size} exceeds key length limit of {MAX_KEY}.")
    return value


def check_many(values: Any) -> list[str]:
    """The keys of a bulk read, each once. Raises the platform's errors for none and for more than a hundred."""
    keys = [check_key(value, "GET_BULK") for value in values]
    if not keys:
        raise failed("GET_BULK", 400, "You must request a minimum of 1 key")
    if len(keys) > MAX_MANY:
        raise failed("GET_BULK", 400, f"You can request a maximum of {MAX_MANY} keys")
    return list(dict.fromkeys(keys))


def check_type(value: Any, *, many: bool) -> str:
    """The result type, `text` when absent."""
    kind = "text" if value is None else value
    if many and kind not in {"text", "json"}:
        raise failed("GET_BULK", 400, f'"{kind}" is not a valid type. Use "json" or "text"')
    if kind not in TYPES:
        raise TypeError('Unknown response type. Possible types are "text", "arrayBuffer", "json", and "stream".')
    return str(kind)


def check_cache_ttl(value: Any, operation: str) -> None:
    """Checks `cacheTtl` (seconds). There is no cache here: what was written is read."""
    if value is not None and (_whole(value) or 0) < MIN_CACHE_TTL:
        raise failed(
            operation, 400, f"Invalid cache_ttl of {js_string(value)}. Cache TTL must be at least {MIN_CACHE_TTL}."
        )


def expiration_of(options: Mapping[str, Any], now: int) -> int | None:
    """When a value written now goes, in seconds since 1970; None for never. `expirationTtl` wins."""
    ttl, moment = options.get("expirationTtl"), options.get("expiration")
    if ttl is not None:
        return now + _period(ttl, "expiration_ttl", f"Expiration TTL must be at least {MIN_TTL}.", MIN_TTL)
    if moment is not None:
        text = f"Expiration times must be at least {MIN_TTL} seconds in the future."
        return _period(moment, "expiration", text, now + MIN_TTL)
    return None


def _period(value: Any, field: str, too_small: str, least: int) -> int:
    number = _whole(value)
    if number is None or number <= 0:
        raise failed("PUT", 400, f"Invalid {field} of {js_string(value)}. Please specify integer greater than 0.")
    if number < least:
        raise failed("PUT", 400, f"Invalid {field} of {js_string(value)}. {too_small}")
    return number


def _whole(value: Any) -> int | None:
    """A number or a numeric text cut to a whole number; None for anything else."""
    if isinstance(value, bool):
        return None
    if isinstance(value, str):
        try:
            value = float(value)
        except ValueError:
            return None
    if not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return int(value)


def metadata_text(value: Any) -> str | None:
    """The metadata as JSON, None for none. Raises TypeError for what is no JSON, an error beyond 1,024 bytes."""
    if value is None:
        return None
    try:
        text = json.dumps(to_plain(value), separators=(",", ":"), ensure_ascii=False, allow_nan=False)
        size = len(text.encode())
    except (TypeError, ValueError) as error:
        raise TypeError(f"KV metadata must be what JSON can hold: {error}") from None
    if size > MAX_METADATA:
        raise failed("PUT", 413, f"Metadata length of {size} exceeds limit of {MAX_METADATA}.")
    return text


def check_value(size: int) -> None:
    """Raises the platform's error for a value beyond 25 MiB."""
    if size > MAX_VALUE:
        raise failed("PUT", 413, f"Value length of {size} exceeds limit of {MAX_VALUE}.")


def limit_of(value: Any) -> int:
    """How many keys a page may have: 1,000 unless fewer are asked for."""
    if value is None:
        return MAX_KEYS
    number = _whole(value)
    if number is None or number < 1:
        raise failed(
            "LIST",
            400,
            f"Invalid key_count_limit of {js_string(value)}. Please specify an integer greater than 0.",
        )
    if number > MAX_KEYS:
        raise failed(
            "LIST", 400, f"Invalid key_count_limit of {number}. Please specify an integer less than {MAX_KEYS}."
        )
    return number


def encode_cursor(key: str) -> str:
    """The cursor after which the next page goes on."""
    return base64.urlsafe_b64encode(key.encode()).decode().rstrip("=")


def decode_cursor(value: Any) -> str | None:
    """The last key of the page before; None for no cursor. Raises the platform's kind of error for what is none."""
    if value is None or value == "":
        return None
    if isinstance(value, str):
        try:
            raw = base64.b64decode(value + "=" * (-len(value) % 4), altchars=b"-_", validate=True)
            return raw.decode()
        except (binascii.Error, ValueError):
            pass
    raise failed("LIST", 400, "Invalid cursor: take the cursor of the page before as it is.")


def after_prefix(prefix: str) -> str | None:
    """The least text above every text that begins with `prefix`, in the order of code points; None for none."""
    while prefix:
        last = ord(prefix[-1])
        if last < 0x10FFFF:
            return prefix[:-1] + chr(0xE000 if last == 0xD7FF else last + 1)
        prefix = prefix[:-1]
    return None

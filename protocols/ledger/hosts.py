"""Which hosts and URLs are private: the parsed rules of spec action-ledger 6.4."""

import ipaddress
import re
import unicodedata
from urllib.parse import quote, unquote_to_bytes

from .numbers import es_number

_SUFFIXES = (".local", ".localhost", ".internal", ".corp", ".lan", ".home", ".home.arpa")
_V6_PRIVATE = re.compile(r"(?:f[cd][0-9a-f]{2}|fe[89ab][0-9a-f]):", re.ASCII)
_V6_MAPPED = re.compile(r"::(?:ffff:)?([0-9a-f]{1,4}):([0-9a-f]{1,4})", re.ASCII)
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.\-]*):", re.ASCII)
_NUMERIC_END = re.compile(r"\d+|0x[0-9a-f]*", re.ASCII)
_SPECIAL_END, _OPAQUE_END = re.compile(r"[/\\?#]"), re.compile(r"[/?#]")
_DRIVE = re.compile(r"[A-Za-z][:|]", re.ASCII)
_EDGES, _UNSEEN = "".join(map(chr, range(0x21))), re.compile(r"[\t\n\r]")
_OPAQUE_SAFE = "".join(map(chr, range(0x21, 0x7F)))
_FORBIDDEN_OPAQUE = re.compile(r"[\x00 #/:<>?@\[\\\]^|]")
_FORBIDDEN_HOST = re.compile(r"[\x00-\x20\x7f-\x9f\u180e\u2028\u2029#%/:<>?@\[\\\]^|]")
_IGNORED = re.compile(
    "[\u00ad\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180d\u180f\u200b\u2060-\u2064\ufe00-\ufe0f\ufeff]"
)
# Python's own reading of digits would also take `0o`, signs and underscores.
_IPV4_PART = re.compile(r"0x([0-9a-f]*)|0([0-7]+)|(0|[1-9]\d*)", re.ASCII)
_SPECIAL = frozenset({"http", "https", "ftp", "ws", "wss"})


def is_private_ipv4(address: int) -> bool:
    """Whether a 32-bit address lies in 10/8, 127/8, 100.64/10, 169.254/16, 192.168/16 or 172.16/12."""
    high = address >> 16
    return (
        address >> 24 in (10, 127)
        or address >> 22 == (100 << 2 | 1)
        or high in (0xA9FE, 0xC0A8)
        or address >> 20 == (172 << 4 | 1)
    )


def short_ipv6(text: str) -> str | None:
    """Shortest standard form of an IPv6 address, hexadecimal groups only; None when `text` is none."""
    if ":" not in text or "%" in text:
        return None
    try:
        number = int(ipaddress.IPv6Address(text))
    except ValueError:
        return None
    groups = [f"{number >> shift & 0xFFFF:x}" for shift in range(112, -1, -16)]
    best_start, best_length, start = 0, 1, 0
    while start < 8:
        end = start
        while end < 8 and groups[end] == "0":
            end += 1
        if end - start > best_length:
            best_start, best_length = start, end - start
        start = max(end, start) + 1
    if best_length < 2:
        return ":".join(groups)
    return f"{':'.join(groups[:best_start])}::{':'.join(groups[best_start + best_length :])}"


def is_private_host(text: str) -> bool:
    """The host test. `text` is any trimmed text, not necessarily a host."""
    host = text.removeprefix("[").removesuffix("]").rstrip(".").lower()
    if not host:
        return False
    host = short_ipv6(host) or host
    if host == "localhost" or host.endswith(_SUFFIXES) or host.startswith(("internal.", "intranet.")):
        return True
    if host == "::1" or _V6_PRIVATE.match(host):
        return True
    mapped = _V6_MAPPED.fullmatch(host)
    if mapped:
        return is_private_ipv4(int(mapped[1], 16) << 16 | int(mapped[2], 16))
    parts = host.split(".")
    if len(parts) != 4:
        return False
    address = 0
    for part in parts:
        number = es_number(part)
        if not (0 <= number <= 255 and number == int(number)):
            return False
        address = address << 8 | int(number)
    return is_private_ipv4(address)


def _ipv4_number_host(host: str) -> str | None:
    """Dotted quad of a host in IPv4 number form; any other host as it is; None for an impossible one."""
    parts = host.split(".")
    if parts[-1] == "" and len(parts) > 1:
        parts.pop()
    if not _NUMERIC_END.fullmatch(parts[-1]):
        return host
    if len(parts) > 4:
        return None
    numbers = []
    for part in parts:
        form = _IPV4_PART.fullmatch(part)
        if form is None:
            return None
        hexadecimal, octal, decimal = form.groups()
        if hexadecimal is not None:
            numbers.append(int(hexadecimal or "0", 16))
        else:
            numbers.append(int(octal, 8) if octal is not None else int(decimal))
    if any(number > 255 for number in numbers[:-1]) or numbers[-1] >= 256 ** (5 - len(numbers)):
        return None
    address = numbers[-1]
    for index, number in enumerate(numbers[:-1]):
        address += number << 8 * (3 - index)
    return ".".join(str(address >> shift & 0xFF) for shift in (24, 16, 8, 0))


def _valid_labels(host: str) -> bool:
    return all(_is_punycode(label[4:]) for label in host.split(".") if label.startswith("xn--"))


def _is_punycode(text: str) -> bool:
    """Whether a label after `xn--` stands for a text that needs it, in the form that it is looked up under."""
    try:
        decoded = text.encode("ascii").decode("punycode")
        if decoded.isascii() or decoded.encode("punycode").decode() != text:
            return False
    except ValueError:
        return False
    folded = unicodedata.normalize("NFKC", decoded.casefold())
    return folded == decoded and all(unicodedata.category(character)[0] in "LMNPS" for character in decoded)


def domain_of(text: str) -> str | None:
    """The host that a browser makes of `text` in an `https:` URL; None when it is none. IPv4 number forms stay."""
    if text.startswith("["):
        address = short_ipv6(text[1:-1]) if text.endswith("]") else None
        return None if address is None else f"[{address}]"
    try:
        decoded = unquote_to_bytes(text.encode("utf-8", "surrogatepass")).decode()
    except UnicodeDecodeError:
        return None
    mapped = unicodedata.normalize("NFKC", _IGNORED.sub("", unicodedata.normalize("NFKC", decoded).casefold()))
    mapped = mapped.replace("\u3002", ".")
    if not mapped or _FORBIDDEN_HOST.search(mapped):
        return None
    if mapped.isascii():
        return mapped
    if any(label.startswith("xn--") and not label.isascii() for label in mapped.split(".")):
        return None
    try:
        return ".".join(
            label if label.isascii() else "xn--" + label.encode("punycode").decode() for label in mapped.split(".")
        )
    except UnicodeError:
        return None


def _private_authority(authority: str, *, special: bool) -> bool:
    user, at, rest = authority.rpartition("@")
    name, _, password = user.partition(":")
    bracket = rest.rfind("]") + 1
    before, colon, port = rest[bracket:].partition(":")
    text = rest[:bracket] + before
    if not text and (special or at or colon):
        return False
    if port and not (port.isascii() and port.isdigit() and int(port[-400:]) <= 65535):
        return False
    host = special_host(text) if special else _opaque_host(text)
    return host is not None and (bool(name or password) or is_private_host(host))


def special_host(text: str) -> str | None:
    """`domain_of`, with IPv4 number forms as dotted quads; None for a host that no browser takes."""
    domain = domain_of(text)
    if domain is None or domain.startswith("["):
        return domain
    quad = _ipv4_number_host(domain.lower())
    return quad if quad is not None and _valid_labels(quad) else None


def _opaque_host(text: str) -> str | None:
    if text.startswith("["):
        return domain_of(text)
    return None if _FORBIDDEN_OPAQUE.search(text) else quote(text, safe=_OPAQUE_SAFE, errors="replace")


def is_private_url(text: str) -> bool:
    """The URL test: `file:`, user information, or a private host, as a browser reads it. No URL, not private."""
    text = _UNSEEN.sub("", text.strip(_EDGES))
    found = _SCHEME.match(text)
    if found is None:
        return False
    scheme, rest = found[1].lower(), text[found.end() :]
    if scheme == "file":
        slashes = rest[:2].replace("\\", "/")
        host = _SPECIAL_END.split(rest[2:], maxsplit=1)[0]
        if slashes != "//" or not host or _DRIVE.fullmatch(host):
            return True
        return special_host(host) is not None
    if scheme in _SPECIAL:
        return _private_authority(_SPECIAL_END.split(rest.lstrip("/\\"), maxsplit=1)[0], special=True)
    if rest.startswith("//"):
        return _private_authority(_OPAQUE_END.split(rest[2:], maxsplit=1)[0], special=False)
    return False

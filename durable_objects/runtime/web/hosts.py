"""Hosts and percent-encoding of the URL Standard (3.5 host parsing, 1.3 percent-encoded bytes)."""

from __future__ import annotations

import ipaddress
import re
from urllib.parse import unquote_to_bytes

_FORBIDDEN_HOST = re.compile(r"[\x00-\x20#/:<>?@\[\\\]^|%\x7f]")
_FORBIDDEN_OPAQUE_HOST = re.compile(r"[\x00\t\n\r #/:<>?@\[\\\]^|]")
_PLAIN = re.compile(r"[A-Za-z0-9\-._~/]*\Z")


def percent_encode(text: str, unsafe: frozenset[str]) -> str:
    if _PLAIN.match(text):
        return text
    return "".join(
        "".join(f"%{byte:02X}" for byte in character.encode("utf-8", "replace"))
        if character in unsafe or not " " <= character <= "~"
        else character
        for character in text
    )


def parse_host(host: str, *, special: bool) -> str:
    """A host in its normal form: lower-case ASCII, IPv4 in four parts, IPv6 compressed in brackets.

    Raises TypeError for what the standard refuses.
    """
    if host.startswith("["):
        try:
            address = ipaddress.IPv6Address(host[1:-1] if host.endswith("]") else "")
        except ValueError:
            raise TypeError(f"Invalid URL: {host!r} is no IPv6 address") from None
        return f"[{_spell_ipv6(address)}]"
    if not special:
        if _FORBIDDEN_OPAQUE_HOST.search(host):
            raise TypeError(f"Invalid URL: the host {host!r} holds a forbidden character")
        return percent_encode(host, frozenset())
    name = unquote_to_bytes(host).decode("utf-8", "replace")
    name = name.lower() if name.isascii() else _to_ascii(name)
    if not name or _FORBIDDEN_HOST.search(name):
        raise TypeError(f"Invalid URL: the host {host!r} is empty or holds a forbidden character")
    labels = name.rstrip(".").split(".") if name.endswith(".") and name.count(".") else name.split(".")
    last = labels[-1]
    if last.isdigit() or re.fullmatch(r"0[xX][0-9A-Fa-f]*", last):
        return _ipv4(labels, host)
    return name


def _to_ascii(name: str) -> str:
    import idna

    try:
        return idna.encode(name, uts46=True, std3_rules=False, transitional=False).decode("ascii")
    except idna.IDNAError as error:
        raise TypeError(f"Invalid URL: {name!r} is no domain name ({error})") from None


def _spell_ipv6(address: ipaddress.IPv6Address) -> str:
    # the standard writes an IPv4-mapped address in hexadecimal; the module does not, from Python 3.13 on
    groups = [f"{int(address) >> shift & 0xFFFF:x}" for shift in range(112, -16, -16)]
    best, length, start = -1, 1, 0
    for place in range(9):
        if place < 8 and groups[place] == "0":
            continue
        if place - start > length:
            best, length = start, place - start
        start = place + 1
    if best < 0:
        return ":".join(groups)
    return ":".join(groups[:best]) + "::" + ":".join(groups[best + length :])


def _ipv4(labels: list[str], host: str) -> str:
    refusal = TypeError(f"Invalid URL: {host!r} is no IPv4 address")
    numbers: list[int] = []
    if len(labels) > 4:
        raise refusal
    for label in labels:
        try:
            if re.fullmatch(r"0[xX][0-9A-Fa-f]*", label):
                numbers.append(int(label[2:] or "0", 16))
            elif len(label) > 1 and label.startswith("0"):
                numbers.append(int(label, 8))
            elif label.isascii() and label.isdigit():
                numbers.append(int(label))
            else:
                raise refusal
        except ValueError:
            raise refusal from None
    if any(number > 255 for number in numbers[:-1]) or numbers[-1] >= 256 ** (5 - len(numbers)):
        raise refusal
    value = numbers[-1] + sum(number << (8 * (3 - place)) for place, number in enumerate(numbers[:-1]))
    return ".".join(str(value >> shift & 255) for shift in (24, 16, 8, 0))

"""Contents of records: size limits, the reference's decoding, and the packet reference that a report carries."""

import binascii
import hashlib
import re
from typing import Final

from ..javascript import WHITE_SPACE

MAX_RECORD_BYTES: Final = 2 * 1024 * 1024
"""Largest file of a record, in bytes (spec state-plane-protocol 3.6, 3.7)."""

MAX_REQUEST_BYTES: Final = 4 * 1024 * 1024
"""Largest body of a tuple or commits request, in bytes."""

BYTE_ORDER_MARK: Final = "\ufeff"

_KEY = re.compile("[a-z][a-z0-9_]*")
_LINE_TERMINATOR = re.compile("[\r\u2028\u2029]")
_LONE_SURROGATE = re.compile("[\ud800-\udfff]")


def digest_of(data: bytes) -> str:
    """Returns the record digest: lowercase hex SHA-256 of the file's bytes."""
    return hashlib.sha256(data).hexdigest()


def decode_base64(text: object) -> bytes | None:
    """Returns the bytes of strict, padded base64, or None: no white space, no URL alphabet, no data behind padding.

    Unused bits of the last digit may be set (`YR==` is `a`), as `records/non-canonical-base64` shows.
    """
    # the module takes padding behind a whole group for nothing: `JJJJ=`
    if not isinstance(text, str) or len(text) % 4 or text.endswith("==="):
        return None
    try:
        return binascii.a2b_base64(text, strict_mode=True)
    except (binascii.Error, ValueError):
        return None


def wire_text(text: str) -> str:
    """Returns a stored text as JSON answers show it: without one leading byte-order mark.

    The bytes are kept and the digest covers them; the recorded answers drop the mark from the text
    (`records/byte-order-mark`). `restore_text` gives it back.
    """
    return text[1:] if text.startswith(BYTE_ORDER_MARK) else text


def restore_text(text: str, digest: str) -> bytes | None:
    """Returns the record's bytes from an answer's text, or None when `digest` fits neither reading.

    The dropped byte-order mark is put back when only that makes the digest fit.
    """
    data = text.encode("utf-8", "surrogatepass")
    if digest_of(data) == digest:
        return data
    marked = BYTE_ORDER_MARK.encode() + data
    return marked if digest_of(marked) == digest else None


def hashed_and_stored(text: str) -> tuple[bytes, str]:
    """Returns the UTF-8 of a JSON string that is hashed and measured, and the text that is stored for it.

    They differ for a lone surrogate: it is hashed as one U+FFFD, and the reference's store gives it back as three
    (`records/commits-digest`); such a record has a digest that its own text does not match.
    """
    try:
        return text.encode(), text
    except UnicodeEncodeError:
        hashed = _LONE_SURROGATE.sub("\ufffd", text).encode()
        return hashed, _LONE_SURROGATE.sub("\ufffd\ufffd\ufffd", text)


def simple_header(text: str) -> dict[str, str]:
    """Returns the fields that the packet reference check sees (spec state-plane-storage 8.6).

    CRLF is LF; the text must begin with `---` and LF; the header ends at the first LF behind that followed by `---`,
    whatever follows on that line; the last line of a key wins; nothing is unquoted. Without such a header: no fields.
    Not the report reader: that one is `protocols.front_matter`.
    """
    text = wire_text(text).replace("\r\n", "\n")
    end = text.find("\n---", 4)
    if not text.startswith("---\n") or end < 0:
        return {}
    fields: dict[str, str] = {}
    for line in text[4:end].split("\n"):
        key, colon, value = line.partition(":")
        value = value.strip(WHITE_SPACE)
        if colon and _KEY.fullmatch(key) and not _LINE_TERMINATOR.search(value):
            fields[key] = value
    return fields


def packet_reference_holds(primary: str, packet_path: str, packet_digest: str | None) -> bool:
    """Tells whether a report's header names exactly its decision packet, or none where there is none.

    `packet_digest` is None when the tuple has no packet: both fields must then be absent, or both `none`
    (spec state-plane-protocol 3.6, "Packet reference").
    """
    fields = simple_header(primary)
    digest, path = fields.get("decision_packet_sha256"), fields.get("decision_packet_path")
    if packet_digest is not None:
        return digest == packet_digest and path == packet_path
    return (digest is None and path is None) or (digest == "none" and path == "none")

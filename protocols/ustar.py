"""Ustar archives of regular files as snapshots use them (spec state-plane-protocol 4.4)."""

from typing import Final

BLOCK: Final = 512
END: Final = bytes(2 * BLOCK)
"""What stands behind the last entry."""

_OWNER: Final = b"clawsweeper"


def header(name: str, size: int) -> bytes:
    """Returns the 512-byte header of a regular file: mode 0644, owner and group 0, time 0.

    `name` is ASCII of at most 100 bytes, which every `<section>/<id>.<extension>` is; raises ValueError otherwise.
    """
    encoded = name.encode("ascii")
    if not 1 <= len(encoded) <= 100 or not 0 <= size < 8**11:
        raise ValueError(f"entry {name!r} of {size} bytes does not fit a ustar header")
    block = bytearray(BLOCK)
    block[0 : len(encoded)] = encoded
    block[100:108] = b"0000644\0"
    block[108:116] = b"0000000\0"
    block[116:124] = b"0000000\0"
    block[124:136] = b"%011o\0" % size
    block[136:148] = b"%011o\0" % 0
    block[148:156] = b" " * 8
    block[156:157] = b"0"
    block[257:263] = b"ustar\0"
    block[263:265] = b"00"
    block[265 : 265 + len(_OWNER)] = _OWNER
    block[297 : 297 + len(_OWNER)] = _OWNER
    block[329:337] = b"0000000\0"
    block[337:345] = b"0000000\0"
    block[148:156] = b"%06o\0 " % sum(block)
    return bytes(block)


def entry(name: str, content: bytes) -> bytes:
    """Returns header and content, padded with zeros to whole blocks."""
    return header(name, len(content)) + content + bytes(-len(content) % BLOCK)

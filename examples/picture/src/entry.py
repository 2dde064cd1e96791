"""Draws a PNG in plain Python and hands its bytes over as a typed array; the page is a file of the bundle."""

import struct
import zlib
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from pyodide.ffi import to_js
from workers import Response, WorkerEntrypoint

PAGE = (Path(__file__).parent / "page.html").read_text()
SIDE = 64


def chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def picture(red: int) -> bytes:
    rows = b"".join(b"\0" + b"".join(bytes((red, x * 4, y * 4)) for x in range(SIDE)) for y in range(SIDE))
    head = struct.pack(">IIBBBBB", SIDE, SIDE, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


class Default(WorkerEntrypoint):
    async def fetch(self, request):
        url = urlsplit(request.url)
        if url.path != "/picture.png":
            return Response(PAGE, headers={"content-type": "text/html; charset=utf-8"})
        red = int(parse_qs(url.query).get("red", ["128"])[0]) % 256
        return Response(to_js(picture(red)).buffer, headers={"content-type": "image/png"})

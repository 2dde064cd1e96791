"""`multipart/form-data` both ways (HTML 4.10.21.8, RFC 7578), and the reading of form bodies by content type."""

from __future__ import annotations

import re
import secrets
from dataclasses import dataclass, field
from typing import Any

from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser

from .blob import Blob, File
from .formdata import FormData
from .headers import decode_value
from .urlsearchparams import parse_form

_PARAMETER = re.compile(r';\s*([!#$%&\'*+\-.^_`|~0-9A-Za-z]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^\s;"]*))')
_DISPOSITION = re.compile(r';\s*([!#$%&\'*+\-.^_`|~0-9A-Za-z]+)\s*=\s*(?:"([^"]*)"|([^\s;"]*))')
_ESCAPES = {"%0A": "\n", "%0D": "\r", "%22": '"'}
_ESCAPED = re.compile("%0A|%0D|%22", re.IGNORECASE)
_NEWLINE = re.compile(r"\r\n|\r|\n")
_WRONG_TYPE = (
    "Unrecognized Content-Type header value. FormData can only parse the following MIME types: "
    "multipart/form-data, application/x-www-form-urlencoded"
)


def new_boundary() -> str:
    """128 random bits, so that no content can hold it by intent."""
    return f"----formdata-{secrets.token_hex(16)}"


def encode_multipart(form: FormData, boundary: str) -> bytes:
    """The body that browsers send: line ends of names and texts as CRLF, quotes and line ends of names escaped."""
    out: list[bytes] = []
    for name, value in form.fields():
        out.append(
            f'--{boundary}\r\nContent-Disposition: form-data; name="{_escape(_crlf(name))}"'.encode(
                "utf-8", "replace"
            )
        )
        if isinstance(value, Blob):
            filename = value.name if isinstance(value, File) else "blob"
            kind = value.content_type or "application/octet-stream"
            head = f'; filename="{_escape(filename)}"\r\nContent-Type: {kind}\r\n\r\n'
            out += [head.encode("utf-8", "replace"), value.data]
        else:
            out.append(f"\r\n\r\n{_crlf(value)}".encode("utf-8", "replace"))
        out.append(b"\r\n")
    out.append(f"--{boundary}--\r\n".encode())
    return b"".join(out)


def _crlf(text: str) -> str:
    return _NEWLINE.sub("\r\n", text)


def _escape(text: str) -> str:
    return text.replace("\n", "%0A").replace("\r", "%0D").replace('"', "%22")


def parse_content_type(value: str) -> tuple[str, dict[str, str]]:
    """Media type and parameters in lower case (names only), quoted strings unescaped."""
    kind = value.partition(";")[0].strip().lower()
    parameters: dict[str, str] = {}
    for name, quoted, token in _PARAMETER.findall(value):
        parameters.setdefault(name.lower(), re.sub(r"\\(.)", r"\1", quoted) if quoted else token)
    return kind, parameters


def parse_form_body(content_type: str, body: bytes) -> FormData:
    """A form of an urlencoded or multipart body.

    Raises TypeError when the type is another one, has no boundary, or the body is broken.
    """
    kind, parameters = parse_content_type(content_type)
    if kind == "application/x-www-form-urlencoded":
        return FormData(parse_form(body))
    if kind != "multipart/form-data":
        raise TypeError(_WRONG_TYPE)
    boundary = parameters.get("boundary")
    if not boundary:
        raise TypeError("No boundary string in Content-Type header.")
    return decode_multipart(body, boundary)


@dataclass(slots=True)
class _Part:
    headers: dict[str, str] = field(default_factory=dict)
    content: list[bytes] = field(default_factory=list)


class _Collector:
    """Gathers what the parser reports, part by part."""

    def __init__(self) -> None:
        self.parts: list[_Part] = []
        self.name = b""
        self.value = b""
        self.ended = False

    def on_part_begin(self) -> None:
        self.parts.append(_Part())

    def on_header_field(self, data: bytes, start: int, end: int) -> None:
        self.name += data[start:end]

    def on_header_value(self, data: bytes, start: int, end: int) -> None:
        self.value += data[start:end]

    def on_header_end(self) -> None:
        self.parts[-1].headers[self.name.decode("latin-1").strip().lower()] = decode_value(self.value).strip()
        self.name = self.value = b""

    def on_part_data(self, data: bytes, start: int, end: int) -> None:
        self.parts[-1].content.append(data[start:end])

    def on_end(self) -> None:
        self.ended = True


def decode_multipart(body: bytes, boundary: str) -> FormData:
    """The form in `body`; TypeError when it is broken or ends before its closing boundary."""
    closing = f"--{boundary}--".encode("latin-1", "replace")
    if body.strip(b"\r\n") == closing:
        return FormData()
    collector = _Collector()
    callbacks: Any = {
        "on_part_begin": collector.on_part_begin,
        "on_part_data": collector.on_part_data,
        "on_header_field": collector.on_header_field,
        "on_header_value": collector.on_header_value,
        "on_header_end": collector.on_header_end,
        "on_end": collector.on_end,
    }
    try:
        parser = MultipartParser(closing[2:-2], callbacks, max_header_count=64, max_header_size=65_536)
        parser.write(body)
        parser.finalize()
    except FormParserError as error:
        raise TypeError(f"The multipart body is broken: {error}") from None
    if not collector.ended:
        raise TypeError("The multipart body ends before its closing boundary")
    form = FormData()
    for part in collector.parts:
        _add(form, part)
    return form


def _add(form: FormData, part: _Part) -> None:
    disposition = part.headers.get("content-disposition", "")
    parameters = {
        name.lower(): _ESCAPED.sub(lambda match: _ESCAPES[match[0].upper()], quoted or token)
        for name, quoted, token in _DISPOSITION.findall(disposition)
    }
    if disposition.partition(";")[0].strip().lower() != "form-data" or "name" not in parameters:
        raise TypeError("A part of the multipart body has no Content-Disposition: form-data with a name")
    content = b"".join(part.content)
    if "filename" in parameters:
        kind = part.headers.get("content-type", "application/octet-stream")
        form.append(parameters["name"], File([content], parameters["filename"], content_type=kind))
    else:
        form.append(parameters["name"], content.decode("utf-8", "replace"))

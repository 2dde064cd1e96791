"""Which parts make a multipart object, and which lists of parts are refused (spec durable-object-semantics 15.11).
Pure.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from .arguments import integer, text_of, wrong_field
from .backend import UploadedPart
from .errors import BadUpload, EntityTooSmall, InternalError, InvalidPart

MIN_PART_BYTES: Final = 5 * 1024**2
MAX_PART_NUMBER: Final = 10_000


@dataclass(frozen=True, slots=True)
class StoredPart:
    """A part that a backend holds."""

    number: int
    etag: str
    size: int


def part_number(value: Any) -> int:
    """A part's number, cut to a whole one; TypeError outside of 1 to 10,000. `r2-multipart-number-0-and-10001`"""
    number = integer(value)
    if not 1 <= number <= MAX_PART_NUMBER:
        raise TypeError(f"Part number must be between 1 and 10000 (inclusive). Actual value was: {number}")
    return number


def parts_of(values: Any) -> list[UploadedPart]:
    """The list that `complete` takes: uploaded parts, or dictionaries with `partNumber` and `etag`."""
    if isinstance(values, str | bytes | Mapping) or not hasattr(values, "__iter__"):
        raise TypeError("Failed to execute 'complete' on 'R2MultipartUpload': parameter 1 is not of type 'Array'.")
    parts = []
    for value in values:
        number, etag = (
            value.get(name) if isinstance(value, Mapping) else getattr(value, name, None)
            for name in ("partNumber", "etag")
        )
        if number is None:
            raise wrong_field("R2UploadedPart", "partNumber", "number")
        if etag is None:
            raise wrong_field("R2UploadedPart", "etag", "string")
        parts.append(UploadedPart(part_number(number), text_of(etag)))
    return parts


def assemble(stored: Mapping[int, StoredPart], chosen: Sequence[UploadedPart]) -> list[StoredPart]:
    """The parts of the object in the order of their numbers.

    Refusals, in the order of checks: InternalError for a number named twice; InvalidPart for a part that is not
    stored under that etag; EntityTooSmall when, in the order given, any but the last is under 5 MiB; BadUpload
    when, in the order of numbers, any but the last is under 5 MiB or of another size, or the last is larger.
    """
    if len({part.partNumber for part in chosen}) != len(chosen):
        raise InternalError
    parts: list[StoredPart] = []
    for named in chosen:
        part = stored.get(named.partNumber)
        if part is None or part.etag != named.etag:
            raise InvalidPart
        parts.append(part)
    if any(part.size < MIN_PART_BYTES for part in parts[:-1]):
        raise EntityTooSmall
    parts.sort(key=lambda part: part.number)
    sizes = [part.size for part in parts]
    if len(sizes) > 1:
        full = sizes[0]
        if full < MIN_PART_BYTES or any(size != full for size in sizes[:-1]) or sizes[-1] > full:
            raise BadUpload
    return parts

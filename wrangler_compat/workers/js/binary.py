"""Array buffers and their views.

`ArrayBuffer` and `Uint8Array` are `bytearray`s, so whatever takes bytes takes them; a `Uint8Array` made of a buffer
holds a copy. The other views (`Int16Array`, `Float64Array`, `DataView` …) share the memory of their buffer.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any, ClassVar


class JsBuffer:
    """What `pyodide.ffi.JsBuffer` is checked for: anything that holds bytes and answers `to_bytes()`."""


class _Bytes(bytearray, JsBuffer):
    """What both byte-sized classes share."""

    @property
    def byteLength(self) -> int:
        return len(self)

    def to_py(self, **_options: Any) -> memoryview:
        return memoryview(self)

    def to_bytes(self) -> bytes:
        return bytes(self)

    def to_memoryview(self) -> memoryview:
        return memoryview(self)

    def to_string(self, encoding: str | None = None) -> str:
        return self.decode(encoding or "utf-8")

    def assign(self, source: Any) -> None:
        """Copies the bytes of `source` here; ValueError when the sizes differ."""
        data = buffer_bytes(source)
        if len(data) != len(self):
            raise ValueError(f"cannot assign {len(data)} bytes to a buffer of {len(self)}")
        self[:] = data

    def assign_to(self, target: Any) -> None:
        memoryview(target).cast("B")[:] = memoryview(self)

    def __hash__(self) -> int:  # type: ignore[override]
        return id(self)


class ArrayBuffer(_Bytes):
    @classmethod
    def new(cls, length: int = 0, options: Any = None) -> ArrayBuffer:
        return cls(int(length))

    @staticmethod
    def isView(value: Any) -> bool:
        return isinstance(value, Uint8Array | TypedArray | DataView)

    def slice(self, start: int | None = None, end: int | None = None) -> ArrayBuffer:
        return ArrayBuffer(self[start:end])


class Uint8Array(_Bytes):
    BYTES_PER_ELEMENT = 1

    @classmethod
    def new(cls, source: Any = 0, offset: int = 0, length: int | None = None) -> Uint8Array:
        """Of a length, of a buffer (or a piece of it), or of numbers, which are taken modulo 256."""
        if isinstance(source, int | float) and not isinstance(source, bool):
            return cls(int(source))
        if is_buffer(source):
            data = buffer_bytes(source)
            return cls(data[offset:] if length is None else data[offset : offset + length])
        return cls(int(number) & 0xFF for number in source)

    @classmethod
    def of(cls, *numbers: Any) -> Uint8Array:
        return cls(int(number) & 0xFF for number in numbers)

    from_ = new

    @property
    def length(self) -> int:
        return len(self)

    @property
    def byteOffset(self) -> int:
        return 0

    @property
    def buffer(self) -> ArrayBuffer:
        return ArrayBuffer(self)

    def slice(self, start: int | None = None, end: int | None = None) -> Uint8Array:
        return Uint8Array(self[start:end])

    subarray = slice

    def set(self, source: Any, offset: int = 0) -> None:
        data = buffer_bytes(source) if is_buffer(source) else bytes(int(number) & 0xFF for number in source)
        if offset + len(data) > len(self):
            raise ValueError("offset is out of bounds")
        self[offset : offset + len(data)] = data

    def fill(self, value: int, start: int | None = None, end: int | None = None) -> Uint8Array:
        self[start:end] = bytes([int(value) & 0xFF]) * len(self[start:end])
        return self


class TypedArray(JsBuffer):
    """A view of numbers of one kind over an `ArrayBuffer`."""

    FORMAT: ClassVar[str] = "B"
    BYTES_PER_ELEMENT: ClassVar[int] = 1

    def __init__(self, buffer: ArrayBuffer, offset: int = 0, length: int | None = None) -> None:
        size = self.BYTES_PER_ELEMENT
        if length is None:
            length = (len(buffer) - offset) // size
        if offset % size or offset + length * size > len(buffer):
            raise ValueError("start offset or length does not fit the buffer")
        self.buffer = buffer
        self.byteOffset = offset
        self.length = length

    @classmethod
    def new(cls, source: Any = 0, offset: int = 0, length: int | None = None) -> TypedArray:
        if isinstance(source, ArrayBuffer):
            return cls(source, offset, length)
        if isinstance(source, int | float) and not isinstance(source, bool):
            return cls(ArrayBuffer(int(source) * cls.BYTES_PER_ELEMENT))
        return cls.of(*source)

    @classmethod
    def of(cls, *numbers: Any) -> TypedArray:
        array = cls(ArrayBuffer(len(numbers) * cls.BYTES_PER_ELEMENT))
        for place, number in enumerate(numbers):
            array[place] = number
        return array

    def _view(self) -> Any:
        size = self.length * self.BYTES_PER_ELEMENT
        piece: Any = memoryview(self.buffer)[self.byteOffset : self.byteOffset + size]
        return piece.cast(self.FORMAT)

    @property
    def byteLength(self) -> int:
        return self.length * self.BYTES_PER_ELEMENT

    def subarray(self, start: int = 0, end: int | None = None) -> TypedArray:
        first, last, _ = slice(start, end).indices(self.length)
        return type(self)(self.buffer, self.byteOffset + first * self.BYTES_PER_ELEMENT, max(last - first, 0))

    def slice(self, start: int = 0, end: int | None = None) -> TypedArray:
        part = self.subarray(start, end)
        return type(self)(ArrayBuffer(part.to_bytes()))

    def to_py(self, **_options: Any) -> Any:
        return self._view()

    def to_bytes(self) -> bytes:
        return bytes(self._view().tobytes())

    def to_memoryview(self) -> Any:
        return self._view()

    def _fit(self, value: Any) -> Any:
        if self.FORMAT in "fd":
            return float(value)
        bits = 8 * self.BYTES_PER_ELEMENT
        number = int(value) & ((1 << bits) - 1)
        return number - (1 << bits) if self.FORMAT.islower() and number >> (bits - 1) else number

    def __setitem__(self, place: int, value: Any) -> None:
        self._view()[place] = self._fit(value)

    def __getitem__(self, place: int) -> Any:
        return self._view()[place]

    def __len__(self) -> int:
        return self.length

    def __iter__(self) -> Iterator[Any]:
        return iter(self._view().tolist())

    def __bytes__(self) -> bytes:
        return self.to_bytes()


def _kind(name: str, code: str) -> type[TypedArray]:
    return type(
        name,
        (TypedArray,),
        {"FORMAT": code, "BYTES_PER_ELEMENT": struct.calcsize(f"={code}"), "__module__": __name__},
    )


class Uint8ClampedArray(TypedArray):
    FORMAT = "B"

    def _fit(self, value: Any) -> Any:
        return max(0, min(255, round(float(value))))


Int8Array = _kind("Int8Array", "b")
Int16Array = _kind("Int16Array", "h")
Uint16Array = _kind("Uint16Array", "H")
Int32Array = _kind("Int32Array", "i")
Uint32Array = _kind("Uint32Array", "I")
BigInt64Array = _kind("BigInt64Array", "q")
BigUint64Array = _kind("BigUint64Array", "Q")
Float32Array = _kind("Float32Array", "f")
Float64Array = _kind("Float64Array", "d")

_FIELDS = {
    "Int8": "b", "Uint8": "B", "Int16": "h", "Uint16": "H", "Int32": "i", "Uint32": "I",
    "BigInt64": "q", "BigUint64": "Q", "Float32": "f", "Float64": "d",
}  # fmt: skip


class DataView(JsBuffer):
    """`getInt16(offset, littleEndian)` and the like over a buffer."""

    def __init__(self, buffer: ArrayBuffer, offset: int = 0, length: int | None = None) -> None:
        self.buffer = buffer
        self.byteOffset = offset
        self.byteLength = len(buffer) - offset if length is None else length

    @classmethod
    def new(cls, buffer: ArrayBuffer, offset: int = 0, length: int | None = None) -> DataView:
        return cls(buffer, offset, length)

    def to_bytes(self) -> bytes:
        return bytes(self.buffer[self.byteOffset : self.byteOffset + self.byteLength])

    def to_py(self, **_options: Any) -> memoryview:
        return memoryview(self.buffer)[self.byteOffset : self.byteOffset + self.byteLength]

    def __getattr__(self, name: str) -> Any:
        verb, code = name[:3], _FIELDS.get(name[3:])
        if code is None or verb not in {"get", "set"}:
            raise AttributeError(f"js.DataView has no attribute {name!r}")

        def get(offset: int, little: bool = False) -> Any:
            return struct.unpack_from(f"{'<' if little else '>'}{code}", self.buffer, self.byteOffset + offset)[0]

        def put(offset: int, value: Any, little: bool = False) -> None:
            kind = _kind("", code)
            fitted = kind(ArrayBuffer(8))._fit(value)
            struct.pack_into(f"{'<' if little else '>'}{code}", self.buffer, self.byteOffset + offset, fitted)

        return get if verb == "get" else put


def is_buffer(value: Any) -> bool:
    return isinstance(value, bytes | bytearray | memoryview | JsBuffer)


def buffer_bytes(value: Any) -> bytes:
    """The bytes of a buffer or a view; TypeError for anything else."""
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value)
    if isinstance(value, JsBuffer):
        return value.to_bytes()  # type: ignore[attr-defined, no-any-return]
    raise TypeError(f"expected a buffer, not {type(value).__name__}")

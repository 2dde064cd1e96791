"""`FormData`: an ordered list of fields whose values are text or files (spec python-workers-api 3)."""

from __future__ import annotations

from collections.abc import ItemsView, Iterator, KeysView, MutableMapping, ValuesView
from typing import Any

from .blob import Blob, File
from .values import JsList, js_string, pairs_of

FormDataValue = str | Blob


class FormData(MutableMapping[str, Any]):
    """`[k]` is the first value, `[k] = v` replaces all, `append` repeats; keys, values and items show repeats.

    Built from a mapping, pairs, another FormData, or nothing. A Blob becomes a File: named by `filename`, or `blob`.
    """

    __slots__ = ("_fields",)

    def __init__(self, init: Any = None) -> None:
        self._fields: list[tuple[str, FormDataValue]] = []
        if init is None:
            return
        if isinstance(init, FormData):
            self._fields = init._fields.copy()
            return
        for name, value in pairs_of(init):
            self.append(name, value)

    @classmethod
    def new(cls, init: Any = None) -> FormData:
        return cls(init)

    @property
    def js_object(self) -> FormData:
        return self

    def append(self, name: Any, value: Any, filename: str | None = None) -> None:
        self._fields.append((js_string(name), _field(value, filename)))

    def set(self, name: Any, value: Any, filename: str | None = None) -> None:
        wanted, entry = js_string(name), _field(value, filename)
        fields: list[tuple[str, FormDataValue]] = []
        placed = False
        for field in self._fields:
            if field[0] != wanted:
                fields.append(field)
            elif not placed:
                fields.append((wanted, entry))
                placed = True
        if not placed:
            fields.append((wanted, entry))
        self._fields = fields

    def get_all(self, name: str) -> list[FormDataValue]:
        return JsList(value for have, value in self._fields if have == name)

    getAll = get_all

    def delete(self, name: str) -> None:
        """Drops every field of that name; no error when there is none."""
        self._fields = [field for field in self._fields if field[0] != name]

    def has(self, name: str) -> bool:
        return name in self

    def fields(self) -> list[tuple[str, FormDataValue]]:
        """Name and value of every field, in order."""
        return self._fields.copy()

    def entries(self) -> Iterator[tuple[str, FormDataValue]]:
        return iter(self.fields())

    def __getitem__(self, name: str) -> Any:
        for have, value in self._fields:
            if have == name:
                return value
        raise KeyError(name)

    def __setitem__(self, name: str, value: Any) -> None:
        self.set(name, value)

    def __delitem__(self, name: str) -> None:
        if name not in self:
            raise KeyError(name)
        self.delete(name)

    def __contains__(self, name: object) -> bool:
        return any(have == name for have, _ in self._fields)

    def __iter__(self) -> Iterator[str]:
        return iter([name for name, _ in self._fields])

    def __len__(self) -> int:
        return len(self._fields)

    def __bool__(self) -> bool:
        return True

    def keys(self) -> KeysView[str]:
        return _Keys(self)

    def values(self) -> ValuesView[Any]:
        return _Values(self)

    def items(self) -> ItemsView[str, Any]:
        return _Items(self)

    def __repr__(self) -> str:
        return f"FormData({self._fields!r})"


class _Keys(KeysView[str]):
    _mapping: FormData

    def __iter__(self) -> Iterator[str]:
        return iter(self._mapping)


class _Values(ValuesView[Any]):
    _mapping: FormData

    def __iter__(self) -> Iterator[Any]:
        return (value for _, value in self._mapping.fields())

    def __contains__(self, value: object) -> bool:
        return any(have == value for _, have in self._mapping.fields())


class _Items(ItemsView[str, Any]):
    _mapping: FormData

    def __iter__(self) -> Iterator[tuple[str, Any]]:
        return iter(self._mapping.fields())

    def __contains__(self, item: object) -> bool:
        return item in self._mapping.fields()


def _field(value: Any, filename: str | None) -> FormDataValue:
    if isinstance(value, Blob):
        if isinstance(value, File) and filename is None:
            return value
        modified = value.last_modified if isinstance(value, File) else None
        return File([value], filename or "blob", content_type=value.content_type, last_modified=modified)
    if filename is not None:
        raise TypeError("append() takes a filename only with a Blob or a File")
    return js_string(value)

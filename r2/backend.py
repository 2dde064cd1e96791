"""The contract between a bucket and a store of objects.

A backend keeps bytes and decides nothing else: arguments are checked, ranges and conditions are parsed, names are
at most 1,024 bytes. What it owes is atomicity and durability:

- **An object is whole or not there.** Readers see the old object or the new one, each with its own bytes and
metadata;
  an upload that fails, is cut short or cancelled leaves what was there before.
- **`put` with a condition is one step.** The condition is evaluated against the object that the write replaces;
between
  the two nobody else can write. Create-only is such a condition. None as the result means that it did not hold.
- **What a method has returned from is durable**, as far as the store promises durability at all.
- **An open reader is a snapshot**: it goes on giving the bytes of its object after an overwrite or a delete.
- Failures of the store are `InternalError` with the cause chained; what a source raises is raised unchanged.
"""

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from .conditions import Condition
from .metadata import HttpMetadata
from .ranges import Span
from .source import Source


@dataclass(frozen=True, slots=True)
class Record:
    """A stored object without its bytes. `uploaded` is milliseconds since 1970, `checksums` hex by option name."""

    key: str
    version: str
    size: int
    etag: str
    uploaded: int
    checksums: Mapping[str, str] = field(default_factory=dict)
    http: HttpMetadata = field(default_factory=HttpMetadata)
    custom: Mapping[str, str] = field(default_factory=dict)
    storage_class: str = ""


@dataclass(frozen=True, slots=True)
class Draft:
    """What is known of an object before its bytes have come."""

    key: str
    http: HttpMetadata = field(default_factory=HttpMetadata)
    custom: Mapping[str, str] = field(default_factory=dict)
    storage_class: str = ""


@dataclass(frozen=True, slots=True)
class UploadedPart:
    """A part as `uploadPart` returned it and `complete` names it."""

    partNumber: int
    etag: str

    def __getitem__(self, name: str) -> Any:
        if name in {"partNumber", "etag"}:
            return getattr(self, name)
        raise KeyError(name)


@dataclass(frozen=True, slots=True)
class Query:
    """A listing: names that begin with `prefix`, strictly after `after`, at most `limit` names and groups."""

    prefix: str = ""
    after: str | None = None
    delimiter: str = ""
    limit: int = 1000
    metadata: bool = False


@dataclass(frozen=True, slots=True)
class Page:
    """One page of a listing, in the order of UTF-8 bytes. `position` is where the next one begins after; None at
    the end.
    """

    records: Sequence[Record]
    prefixes: Sequence[str]
    position: str | None


class Reader(Protocol):
    """The bytes of one object, in chunks. Closing twice does nothing; a reader that is dropped closes itself."""

    def __aiter__(self) -> AsyncIterator[bytes]: ...

    async def __anext__(self) -> bytes: ...

    async def aclose(self) -> None: ...


Choose = Callable[[Record], Span | None]
"""Decides, of the object found, which bytes to read; None for none of them. May raise."""


class Backend(Protocol):
    """A store of one bucket's objects. See the module's text for what every method owes."""

    @property
    def differences(self) -> Mapping[str, str]:
        """Where the store differs from the platform: a short name of each, and the reason."""

    async def head(self, key: str) -> Record | None:
        """The object's record, or None."""

    async def get(self, key: str, choose: Choose, *, whole: bool) -> tuple[Record, Reader | None] | None:
        """The record and a reader of the bytes that `choose` picks of the same object; None without an object.

        `whole` says that `choose` picks all of them whatever it is shown, for stores that then need one request.
        """

    async def put(self, draft: Draft, source: Source, condition: Condition | None) -> Record | None:
        """Stores the source under `draft.key`, when the condition holds for what is there; else None.

        The source is drained and verified first, so that a wrong checksum is reported whatever the condition says.
        """

    async def delete(self, keys: Sequence[str]) -> None:
        """Removes the objects; missing ones are no error. All of them are gone, durably, on return."""

    async def list(self, query: Query) -> Page:
        """A page. `metadata` asks for HTTP and custom metadata in the records; without it they may be empty."""

    async def create_upload(self, draft: Draft) -> str:
        """Opens a multipart upload and returns its id."""

    async def put_part(self, key: str, upload: str, number: int, source: Source) -> str:
        """Stores or replaces a part and returns its etag; NoSuchUpload when the upload is not open under this key."""

    async def complete_upload(
        self, key: str, upload: str, parts: Sequence[UploadedPart], *, create_only: bool
    ) -> Record | None:
        """Makes the object of the parts named (`assembly.assemble` decides), drops the others, closes the upload.
        NoSuchUpload when it is closed, UnknownUpload when it never was.

        With `create_only`, None when there is an object under the key already, in one step with the write; nothing is
        changed then, and the upload stays open. A store that cannot do that in one step says so in `differences`.
        """

    async def abort_upload(self, key: str, upload: str) -> None:
        """Drops an open upload and its parts. Nothing happens when it is closed; UnknownUpload when it never was."""

    async def close(self) -> None:
        """Releases files, threads and connections. May be called twice."""

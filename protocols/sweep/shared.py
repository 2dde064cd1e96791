"""The shared form of a sweep state: what its verbs take over HTTP, who may ask them, and the fencing token.

Rules of its own are three. The clock of the state plane decides, never a caller's. Every acquisition of the lease
makes a token one greater than the last, and a lease taken with `fenced` wants it on every lease-bound call: a holder
that was stopped past its time-to-live and goes on is told LEASE-LOST, even when the present holder has the same
writer id. Numbers are finite, since JSON has no others.
"""

import json
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeVar

import msgspec

from .document import Json

PREFIX: Final = "/internal/sweeps/"
DEFAULT_SWEEP: Final = "default"
SWEEP_GRAMMAR: Final = r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}"

MAX_BATCH: Final = 1000
MAX_ROW_BYTES: Final = 1024 * 1024
"""As JSON, key included: an item, a source or another top-level value is one row, which the platform limits."""

MAX_DOCUMENT_BYTES: Final = 32 * 1024 * 1024

Who = Literal["webhook", "operator"]
B = TypeVar("B", bound="Body")


class BadBody(ValueError):
    """The body is not what the verb takes; the text names the member and what would be right."""


class Body(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A request's body; of a verb that takes nothing, `{}`."""


class Source(Body, frozen=True):
    """`cursor-get`."""

    source: str


class Upsert(Body, frozen=True):
    """One item of a batch. `item`: an object, the fields to set."""

    source: str
    id: str
    item: Any


class UpsertItem(Upsert, frozen=True, kw_only=True):
    """`upsert-item`."""

    writer: str
    token: int | None = None


class UpsertItems(Body, frozen=True):
    """`upsert-items`: all of them or none."""

    writer: str
    items: list[Upsert]
    token: int | None = None


class Advance(Body, frozen=True):
    """`cursor-advance`."""

    source: str
    to: str
    past_item: str
    writer: str
    token: int | None = None


class Acquire(Body, frozen=True):
    """`lease-acquire`. `fenced`: whether later calls must carry the token."""

    writer: str
    ttl_minutes: int | None = None
    fenced: bool = True


class Release(Body, frozen=True):
    """`lease-release`."""

    writer: str
    token: int | None = None


class Record(Body, frozen=True):
    """`run-record`."""

    writer: str
    outcome: Literal["completed", "aborted-locked", "partial", "failed"]
    counts: Any
    timestamp: str


class ImportLegacy(Body, frozen=True):
    """`import-legacy`: the text of an older tracker's file, null when it cannot be read."""

    text: str | None
    source_map: dict[str, str] = {}


class Import(Body, frozen=True):
    """`import`: the text of a state file."""

    document: str
    replace: bool = False


@dataclass(frozen=True, slots=True)
class Verb:
    """A verb's body, whose signature it wants, and one line on it."""

    body: type[Body]
    who: Who
    summary: str


VERBS: Final[dict[str, Verb]] = {
    "read": Verb(Body, "webhook", "The whole document."),
    "validate": Verb(Body, "webhook", "Downgrades closed items without evidence to fix_pending."),
    "upsert-item": Verb(UpsertItem, "webhook", "Merges fields into one item. Needs the lease."),
    "upsert-items": Verb(UpsertItems, "webhook", "Merges fields into up to 1,000 items, all or none."),
    "cursor-get": Verb(Source, "webhook", "The cursor of a source."),
    "cursor-advance": Verb(Advance, "webhook", "Moves a cursor forward past a recorded item. Needs the lease."),
    "lease-acquire": Verb(Acquire, "webhook", "Takes the lease; answers with a fencing token."),
    "lease-release": Verb(Release, "webhook", "Gives one's own lease back."),
    "run-record": Verb(Record, "webhook", "Records how a sweep ended. Needs no lease."),
    "import-legacy": Verb(ImportLegacy, "webhook", "Brings in cursors and items of an older tracker."),
    "export": Verb(Body, "webhook", "The text of the state file."),
    "import": Verb(Import, "operator", "Makes a state file's text the shared state; every earlier token is over."),
}
"""One table for the routes, the object and the client. What replaces a whole state is the operator's."""


def path_of(verb: str, sweep: str) -> str:
    """The path of a verb: `POST /internal/sweeps/<sweep>/<verb>`."""
    return f"{PREFIX}{sweep}/{verb}"


def _refuse(name: str) -> None:
    raise ValueError(f"{name} is no JSON")


def _finite(text: str) -> float:
    value = float(text)
    if value in (float("inf"), float("-inf")):
        raise ValueError(f"{text[:40]} is too large for a number")
    return value


_decoder: Final = json.JSONDecoder(parse_constant=_refuse, parse_float=_finite)


def parse_body(body: type[B], text: str) -> B:
    """The body of a request; blank counts as `{}`. Raises BadBody."""
    try:
        value = _decoder.decode(text) if text.strip() else {}
    except RecursionError:
        raise BadBody("the body is nested too deeply") from None
    except ValueError as error:
        raise BadBody(f"the body is not JSON: {error}") from None
    try:
        return msgspec.convert(value, body)
    except UnicodeEncodeError:
        raise BadBody("a text that is none of the values wanted holds half of a surrogate pair") from None
    except msgspec.ValidationError as error:
        raise BadBody(str(error)) from None


def dumps(value: Json) -> str:
    """`value` as ASCII JSON. Raises ValueError for a number that is not finite."""
    return json.dumps(value, allow_nan=False, separators=(",", ":"))


@dataclass(frozen=True, slots=True)
class Fence:
    """The last token given out, 0 before the first, and whether the present lease wants it."""

    token: int = 0
    fenced: bool = False

    def after_acquisition(self, fenced: bool) -> "Fence":
        """The fence once more has been acquired: every earlier token is over."""
        return Fence(self.token + 1, fenced)

    def refusal(self, given: int | None) -> str | None:
        """Why a call of the holder with the token `given` is refused, or None when it is not."""
        if given is None:
            return "the lease was taken with a fencing token, and the call carries none" if self.fenced else None
        if given != self.token:
            return f"token {given} is over: the lease was taken again since"
        return None

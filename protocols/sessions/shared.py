"""The shared form: what the state plane's session routes take, and the publish lease with its fencing token.

Every acquisition makes a token one greater than the last, and what moves the pointer must carry the present one: a
publisher that was stopped past its time-to-live and goes on is told so, although its lease row names it still. The
clock is the state plane's.
"""

import re
from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import Meta, Struct

from .documents import Sha256, Size
from .identities import SEGMENT_GRAMMAR, path_fault, segment_fault
from .strict_json import NotStrict, parse_object

PREFIX: Final = "/internal/sessions/"
TEMPLATE: Final = "/internal/sessions/{campaign}/{session}/"
MAX_OBJECT_BYTES: Final = 32 * 1024 * 1024
"""Bytes of an object in one put; larger ones are sent in parts."""
PART_BYTES: Final = 8 * 1024 * 1024
"""Bytes of every part but the last, and of one read."""
MAX_PARTS: Final = 10_000
DEFAULT_TTL_SECONDS: Final = 120
MAX_TTL_SECONDS: Final = 24 * 3600

Who = Literal["webhook", "operator"]
Name = Annotated[str, Meta(min_length=1, max_length=256)]
Token = Annotated[int, Meta(ge=1)]
Content = Annotated[str, Meta(max_length=(MAX_OBJECT_BYTES + 2) // 3 * 4 + 4)]


class BadBody(ValueError):
    """The body is not what the verb takes; the text names the member."""


class Body(Struct, frozen=True, forbid_unknown_fields=True):
    """A request's body; of a verb that takes nothing, `{}`."""


class Acquire(Body, frozen=True):
    """`lease-acquire`. `holder`: who publishes, unique among publishers."""

    holder: Name
    ttl_seconds: Annotated[int, Meta(ge=1, le=MAX_TTL_SECONDS)] = DEFAULT_TTL_SECONDS


class Held(Body, frozen=True):
    """`lease-renew` and `lease-release`."""

    holder: Name
    token: Token
    ttl_seconds: Annotated[int, Meta(ge=1, le=MAX_TTL_SECONDS)] = DEFAULT_TTL_SECONDS


class Key(Body, frozen=True):
    """`object-stat`. `key`: below the session's prefix, as `runs/{run_id}/…` or `current/commit-pointer.json`."""

    key: str


class Read(Key, frozen=True):
    """`object-read`: the bytes from `offset` on, at most `length` of them."""

    offset: Size = 0
    length: Annotated[int, Meta(ge=1, le=PART_BYTES)] = PART_BYTES


class Create(Body, frozen=True):
    """`object-create`: an object of a run, whole, where there is none."""

    run_id: str
    path: str
    sha256: Sha256
    contentBase64: Content


class UploadStart(Body, frozen=True):
    """`upload-start`: an artifact that is sent in parts of `PART_BYTES`."""

    run_id: str
    path: str
    sha256: Sha256
    size: Annotated[int, Meta(ge=1, le=PART_BYTES * MAX_PARTS)]


class UploadPart(Body, frozen=True):
    """`upload-part`."""

    run_id: str
    path: str
    upload_id: Name
    number: Annotated[int, Meta(ge=1, le=MAX_PARTS)]
    contentBase64: Content


class Part(Body, frozen=True):
    """A part that was sent."""

    number: Annotated[int, Meta(ge=1, le=MAX_PARTS)]
    etag: Name


class UploadComplete(Body, frozen=True):
    """`upload-complete`: joins the parts, reads the whole back and compares it with `sha256`."""

    run_id: str
    path: str
    upload_id: Name
    sha256: Sha256
    size: Annotated[int, Meta(ge=1, le=PART_BYTES * MAX_PARTS)]
    parts: Annotated[list[Part], Meta(max_length=MAX_PARTS)]


class Move(Body, frozen=True):
    """`pointer-move`: `document` is the pointer's text, `expect` the ETag that was read, null for none."""

    holder: Name
    token: Token
    document: Annotated[str, Meta(max_length=64 * 1024)]
    expect: str | None


@dataclass(frozen=True, slots=True)
class Verb:
    """A verb's body, and one line on it. All are signed with the webhook secret."""

    body: type[Body]
    summary: str


VERBS: Final[dict[str, Verb]] = {
    "lease-acquire": Verb(Acquire, "Takes the publish lease; answers with a fencing token."),
    "lease-renew": Verb(Held, "Lengthens one's own lease."),
    "lease-release": Verb(Held, "Gives one's own lease back."),
    "object-create": Verb(Create, "Stores an object of a run where there is none."),
    "object-stat": Verb(Key, "Size, generation and ETag of an object."),
    "object-read": Verb(Read, "Bytes of an object, with its size and generation in headers."),
    "upload-start": Verb(UploadStart, "Begins an artifact that is sent in parts."),
    "upload-part": Verb(UploadPart, "Sends one part."),
    "upload-complete": Verb(UploadComplete, "Joins the parts where there is no such object yet."),
    "pointer-move": Verb(Move, "Makes a verified commit the current one. Needs the lease."),
}
"""One table for the routes, the object and the client."""

_SEGMENT: Final = re.compile(SEGMENT_GRAMMAR + r"\Z")


def known(campaign: str, session: str) -> bool:
    """Whether the path's two names are safe segments."""
    return segment_fault(campaign) is None and segment_fault(session) is None


def path_of(verb: str, campaign: str, session: str) -> str:
    """The path of a verb: `POST /internal/sessions/<campaign>/<session>/<verb>`."""
    return f"{PREFIX}{campaign}/{session}/{verb}"


def object_name(campaign: str, session: str) -> str:
    """The name of the Durable Object of a session; unambiguous, since no segment has a slash."""
    return f"{campaign}/{session}"


def parse_body(verb: str, data: bytes) -> Any:
    """The body of a request; blank counts as `{}`. Raises BadBody."""
    try:
        return msgspec.convert(parse_object(data) if data.strip() else {}, VERBS[verb].body)
    except NotStrict as error:
        raise BadBody(f"the body: {error}") from None
    except msgspec.ValidationError as error:
        raise BadBody(str(error)) from None


POINTER: Final = "current/commit-pointer.json"


def check_key(key: str) -> str:
    """`key` when it names an object of a session: the pointer, or something below a run. Raises BadBody."""
    parts = key.split("/")
    inside = len(parts) > 2 and parts[0] == "runs" and segment_fault(parts[1]) is None
    if path_fault(key) is not None or not (inside or key == POINTER):
        raise BadBody(f"key: it is {POINTER} or lies below runs/<run_id>/, not {key[:120]!r}")
    return key


def check_created(run_id: str, path: str) -> str:
    """The key below the session's prefix of an object to create: a run's commit or artifact. Raises BadBody."""
    fault = segment_fault(run_id)
    if fault is not None:
        raise BadBody(f"run_id: {fault}")
    if path != "commit.json" and not path.startswith("artifacts/"):
        raise BadBody(f"path: it is commit.json or lies below artifacts/, not {path[:120]!r}")
    fault = path_fault(path)
    if fault is not None:
        raise BadBody(f"path: {fault}")
    return f"runs/{run_id}/{path}"


@dataclass(frozen=True, slots=True)
class Lease:
    """The publish lease: the last token given out, who holds it, and until when in milliseconds since 1970.

    `holder` None: nobody. A lease that is over still names its holder until somebody else takes it.
    """

    token: int = 0
    holder: str | None = None
    expires_at: int = 0

    def live(self, now: int) -> bool:
        """Whether somebody holds it."""
        return self.holder is not None and now < self.expires_at

    def acquired(self, holder: str, ttl_seconds: int, now: int) -> "Lease | None":
        """The lease once `holder` has taken it; None while another holds it. One's own is taken anew, by a new
        token.
        """
        if self.live(now) and self.holder != holder:
            return None
        return Lease(self.token + 1, holder, now + ttl_seconds * 1000)

    def refusal(self, holder: str, token: int, now: int) -> str | None:
        """Why a call under the lease is refused, or None."""
        if token != self.token or holder != self.holder:
            return f"token {token} of {holder!r} is over: the lease was taken again, or given back"
        if not self.live(now):
            return f"the lease of {holder!r} ran out: take it again and read the pointer again"
        return None

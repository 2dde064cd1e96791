"""One end of a socket: what outlives the `WebSocket` object that a program sees.

Two ends form a pipe. Frames are handed over at once and wait in the other end's inbox until its consumer takes them:
the listeners of an accepted socket, the hibernation manager, or the connection of a server. Whoever feeds a pipe from
a network waits for `room()`; a program's `send()` never waits, as on the platform.
"""

import asyncio
import enum
from collections import deque
from typing import TYPE_CHECKING, Any, Final, Protocol

from .frames import DISCONNECTED, ENDINGS, Ending, Frame, size_of_frame

if TYPE_CHECKING:
    from ..instance import Instance

HIGH_WATER: Final = 256 * 1024
LOW_WATER: Final = HIGH_WATER // 2


class State(enum.IntEnum):
    """What an end is used for; it changes once, from WAITING (or CONNECTING) to one of the others."""

    CONNECTING = 0
    WAITING = 1
    PLAIN = 2
    HIBERNATING = 3
    RELEASED = 4


class Consumer(Protocol):
    """Whoever takes the frames that arrive at an end, on `loop`."""

    loop: asyncio.AbstractEventLoop

    def ready(self, end: "SocketEnd") -> None:
        """Frames wait in the inbox of `end`. Must not block; called once for every frame."""

    def settled(self, end: "SocketEnd") -> None:
        """The peer has dealt with the ending that came from `end`, and will not answer it."""


class _Gated:
    __slots__ = ("frame", "open")

    def __init__(self, frame: Frame, open: bool) -> None:
        self.frame = frame
        self.open = open


class SocketEnd:
    """One end. `closed_outgoing` and `closed_incoming` are what `readyState` is made of; `lost` silences `send()`."""

    __slots__ = (
        "attachment",
        "buffered",
        "closed_incoming",
        "closed_outgoing",
        "consumer",
        "deaf",
        "inbox",
        "lost",
        "outbox",
        "peer",
        "rooms",
        "running",
        "socket",
        "spent",
        "state",
        "tags",
        "timestamp",
    )

    def __init__(self) -> None:
        self.peer: SocketEnd | None = None
        self.state = State.WAITING
        self.consumer: Consumer | None = None
        self.inbox: deque[Frame] | None = None
        self.outbox: deque[_Gated] | None = None
        self.rooms: list[asyncio.Future[None]] | None = None
        self.buffered = 0
        self.closed_incoming = self.closed_outgoing = self.lost = False
        self.spent = False  # an ending has gone to the peer
        self.deaf = False  # nothing more is taken in: an ending has arrived, or nobody listens any more
        self.running = 0  # events of this end whose handlers have not returned yet
        self.socket: Any = None
        self.tags: tuple[str, ...] = ()
        self.attachment: bytes | None = None
        self.timestamp: int | None = None

    def listen(self, consumer: Consumer) -> None:
        """Gives the frames that wait and all further ones to `consumer`."""
        self.consumer = consumer
        if self.inbox:
            consumer.ready(self)

    # Towards the peer.

    def push(self, frame: Frame) -> None:
        """Hands `frame` to the other end; nothing follows an ending."""
        if self.spent or self.peer is None:
            return
        if isinstance(frame, ENDINGS):
            self.spent = True
        self.peer._arrive(frame)

    def emit(self, frame: Frame, instance: "Instance | None") -> None:
        """Hands `frame` over once everything that `instance` has written so far is durable; order is kept."""
        clean = instance is None or instance.database.clean
        if clean and not self.outbox:
            self.push(frame)
            return
        entry = _Gated(frame, clean)
        if self.outbox is None:
            self.outbox = deque()
        self.outbox.append(entry)
        if instance is not None and not clean:
            database = instance.database
            database.when_durable(database.hold, lambda error: self._opened(entry, error))

    def _opened(self, entry: _Gated, error: BaseException | None) -> None:
        if error is not None:
            return  # the object is reset, and with it this end
        entry.open = True
        while self.outbox and self.outbox[0].open:
            self.push(self.outbox.popleft().frame)
        if not self.outbox:
            self.outbox = None

    @property
    def full(self) -> bool:
        """Whether a feeder should wait for `room()` before it pushes more."""
        return self.peer is not None and self.peer.buffered > HIGH_WATER

    async def room(self) -> None:
        """Returns when the other end has taken most of what waits there."""
        peer = self.peer
        while peer is not None and peer.buffered > LOW_WATER:
            taken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            if peer.rooms is None:
                peer.rooms = []
            peer.rooms.append(taken)
            await taken

    @property
    def pending(self) -> int:
        """What was sent and has not left the other end, in bytes or characters."""
        waiting = 0 if self.outbox is None else sum(size_of_frame(entry.frame) for entry in self.outbox)
        return waiting + (0 if self.peer is None else self.peer.buffered)

    def settle(self) -> None:
        """The ending that arrived here has been dealt with and stays unanswered: the feeder need not wait."""
        peer = self.peer
        if peer is not None and peer.consumer is not None and not self.spent:
            peer.consumer.settled(peer)

    # From the peer.

    def _arrive(self, frame: Frame) -> None:
        if self.deaf:
            return
        if isinstance(frame, ENDINGS):
            self.deaf = True
        if self.inbox is None:
            self.inbox = deque()
        self.inbox.append(frame)
        self.buffered += size_of_frame(frame)
        if self.consumer is not None:
            self.consumer.ready(self)

    def take(self) -> Frame | None:
        """Returns the next frame that arrived, or None."""
        if not self.inbox:
            return None
        frame = self.inbox.popleft()
        if not self.inbox:
            self.inbox = None
        self.buffered -= size_of_frame(frame)
        if self.rooms is not None and self.buffered <= LOW_WATER:
            self._wake()
        return frame

    def _wake(self) -> None:
        rooms, self.rooms = self.rooms, None
        for taken in rooms or ():
            if not taken.done():
                taken.set_result(None)

    def abandon(self, ending: Ending = DISCONNECTED) -> None:
        """Nobody is at this end any more: the peer gets `ending`, unless it got one, and speaks to nobody."""
        self.outbox = None
        self.push(ending)
        self.deaf = self.lost = True
        self.inbox = None
        self.buffered = 0
        self.consumer = None
        self.socket = None
        self._wake()


def make_pipe() -> tuple[SocketEnd, SocketEnd]:
    """Returns the two ends of a new pipe."""
    first, second = SocketEnd(), SocketEnd()
    first.peer, second.peer = second, first
    return first, second

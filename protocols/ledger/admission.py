"""Who may send now: the state of the live projection queue (spec action-ledger 15). No clock, no threads.

Rule 1: everything that decides about slots and waiting requests is in this file.
Rule 2: this file knows labels and roots, not events, sockets or deadlines; whoever drives it says what happened.
"""

from collections import deque
from collections.abc import Hashable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Generic, TypeVar

MAX_ACTIVE: Final = 4
MAX_ROOT_QUEUED: Final = 64
MAX_TOTAL_QUEUED: Final = 256
MAX_QUEUED_ROOTS: Final = 64

Label = TypeVar("Label", bound=Hashable)
Root = TypeVar("Root", bound=Hashable)


class RejectReason(StrEnum):
    """Why a request failed without being sent."""

    root_full = "root_full"
    queue_full = "queue_full"
    too_many_roots = "too_many_roots"
    slots_unresolved = "slots_unresolved"
    expired = "expired"
    drained = "drained"


@dataclass(frozen=True, slots=True)
class Step(Generic[Label]):
    """What one happening leads to: requests to send now, in order, and requests that failed, in order."""

    started: tuple[Label, ...] = ()
    rejected: tuple[tuple[Label, RejectReason], ...] = ()


class Admission(Generic[Root, Label]):
    """Slots and waiting lines. Each method is one happening and returns the step it leads to."""

    def __init__(self) -> None:
        self._waiting: dict[Root, deque[Label]] = {}
        # Roots in the order they began to wait; service rotates over it from `_next`.
        self._rotation: list[Root] = []
        self._next = 0
        self._active: dict[Label, Root] = {}
        self._unresolved: set[Label] = set()

    def waiting(self, root: Root) -> int:
        """Number of requests of `root` that wait."""
        return len(self._waiting.get(root, ()))

    def active(self, root: Root) -> int:
        """Number of slots that `root` holds."""
        return sum(1 for holder in self._active.values() if holder == root)

    @property
    def total_waiting(self) -> int:
        """Number of waiting requests of all roots."""
        return sum(map(len, self._waiting.values()))

    def enqueue(self, root: Root, label: Label) -> Step[Label]:
        """A request arrives."""
        if len(self._active) < MAX_ACTIVE and not self._waiting:
            self._active[label] = root
            return Step((label,))
        if self._all_unresolved() and any(self._active[held] == root for held in self._unresolved):
            return Step((), ((label, RejectReason.slots_unresolved),))
        if self.waiting(root) >= MAX_ROOT_QUEUED:
            return Step((), ((label, RejectReason.root_full),))
        if self.total_waiting >= MAX_TOTAL_QUEUED:
            return Step((), ((label, RejectReason.queue_full),))
        if root not in self._waiting:
            if len(self._waiting) >= MAX_QUEUED_ROOTS:
                return Step((), ((label, RejectReason.too_many_roots),))
            self._waiting[root] = deque()
            self._rotation.append(root)
        self._waiting[root].append(label)
        return Step(tuple(self._admit()))

    def settled(self, label: Label) -> Step[Label]:
        """A request and the clean-up of its answer are over, in time or late."""
        self._active.pop(label, None)
        self._unresolved.discard(label)
        return Step(tuple(self._admit()))

    def timed_out(self, label: Label) -> Step[Label]:
        """An active request passed its deadline; it keeps its slot until it settles."""
        if label not in self._active:
            return Step()
        self._unresolved.add(label)
        if not self._all_unresolved():
            return Step()
        rejected: list[tuple[Label, RejectReason]] = []
        for root in dict.fromkeys(self._active.values()):
            rejected += [(waiting, RejectReason.slots_unresolved) for waiting in self._drop_root(root)]
        return Step((), tuple(rejected))

    def expired(self, label: Label) -> Step[Label]:
        """A waiting request passed its deadline. Nothing happens when it no longer waits."""
        for root, line in self._waiting.items():
            if label in line:
                line.remove(label)
                if not line:
                    self._drop_root(root)
                return Step((), ((label, RejectReason.expired),))
        return Step()

    def drained(self, root: Root) -> Step[Label]:
        """The drain of `root` is over: its waiting requests fail, those of other roots are untouched."""
        return Step((), tuple((label, RejectReason.drained) for label in self._drop_root(root)))

    def _all_unresolved(self) -> bool:
        return len(self._unresolved) >= MAX_ACTIVE

    def _drop_root(self, root: Root) -> list[Label]:
        line = self._waiting.pop(root, None)
        if line is None:
            return []
        at = self._rotation.index(root)
        del self._rotation[at]
        if at < self._next:
            self._next -= 1
        return list(line)

    def _admit(self) -> list[Label]:
        started: list[Label] = []
        while self._rotation and len(self._active) < MAX_ACTIVE:
            count = len(self._rotation)
            turn = [self._rotation[(self._next + step) % count] for step in range(count)]
            root = min(turn, key=self.active)
            label = self._waiting[root].popleft()
            self._active[label] = root
            started.append(label)
            self._next = self._rotation.index(root) + 1
            if not self._waiting[root]:
                self._drop_root(root)
        return started

"""Which nonces were used: bounded, and closed to replay across restarts without a write for each request."""

import math
from heapq import heappop, heappush
from typing import Final

from .refusals import Reason, Refused
from .requests import MAX_SKEW_SECONDS

DEFAULT_CAPACITY: Final = 262_144


class NonceMemory:
    """Admits each (key id, nonce) once.

    A nonce is kept until its signature is too old to be accepted. What cannot be known is refused: a signature
    created before `started_at` (an earlier process may have taken it), and, when `capacity` nonces are held, one
    created no later than those that had to be forgotten. So memory is bounded and no signature is ever accepted
    twice by processes that run one after the other. `not_before` in the refusal says from when on `created` is
    accepted; the client signs again with that.
    """

    def __init__(self, started_at: float, capacity: int = DEFAULT_CAPACITY) -> None:
        if capacity < 1:
            raise ValueError(f"capacity must be at least 1, not {capacity}")
        # whole seconds: one that is partly before the start belongs to it whole
        self._floor = math.ceil(started_at)
        self._capacity = capacity
        self._seen: set[tuple[str, str]] = set()
        self._by_age: list[tuple[int, tuple[str, str]]] = []

    def __len__(self) -> int:
        return len(self._seen)

    @property
    def not_before(self) -> int:
        """The earliest `created`, in seconds since 1970, that is accepted."""
        return self._floor

    def admit(self, key_id: str, nonce: str, created: int, now: float) -> None:
        """Takes the nonce of a verified signature. Raises Refused when it was used, or might have been.

        Call it after the signature held: a stranger must not be able to fill the memory.
        """
        if created < self._floor:
            raise Refused(Reason.BEFORE_START, not_before=self._floor)
        entry = (key_id, nonce)
        if entry in self._seen:
            raise Refused(Reason.REPLAYED)
        self._forget(now)
        if created < self._floor:
            raise Refused(Reason.BEFORE_START, not_before=self._floor)
        self._seen.add(entry)
        heappush(self._by_age, (created, entry))

    def _forget(self, now: float) -> None:
        oldest_accepted = now - MAX_SKEW_SECONDS
        while self._by_age and (self._by_age[0][0] < oldest_accepted or len(self._by_age) >= self._capacity):
            created, entry = heappop(self._by_age)
            self._seen.discard(entry)
            # also for those that are too old: a clock that is set back must not bring them to life
            self._floor = max(self._floor, created + 1)

"""The state-writer lease: wait for it, keep it alive, give it back (spec state-plane-protocol 10).

    async with AsyncStateWriter(http).lease(identity) as lease:
        ...                     # nobody else writes the Git paths now
        lease.check()           # raises LeaseLost when it ran out meanwhile

A queued ticket cannot be withdrawn: who gives up waiting blocks those behind for up to two minutes.
"""

import asyncio
import logging
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

from moorage.protocols.state_writer import WriterClass

from .errors import ClientError, Conflict, InvalidAnswer
from .http import AsyncHttp, Http

PREFIX: Final = "/internal/state-writer/"
POLL_SECONDS: Final = 5.0
"""Between two polls of a queued ticket: far below the two minutes after which it counts as abandoned."""


MAX_BEAT_SECONDS: Final = 10.0
"""The longest pause between two heartbeats: a third of the shortest lease, however far this clock is behind."""

log = logging.getLogger("moorage.clients.state_writer")


class LeaseLost(ClientError):
    """The lease is over, or belongs to another: stop writing."""


class LeaseTimeout(ClientError):
    """The lease did not come within the time that the caller gave; `position` was the last place in the line."""

    def __init__(self, seconds: float, position: int) -> None:
        super().__init__(f"no state-writer lease within {seconds:g} s; place {position} in the line")
        self.position = position


@dataclass(frozen=True, slots=True)
class Writer:
    """Who asks. `ticket_id` and `owner` are fresh by default; a ticket id never lives twice."""

    repository: str
    branch: str
    workflow: str
    job: str
    run_id: str
    run_attempt: int = 1
    writer_class: WriterClass = WriterClass.ORDINARY
    ticket_id: str = field(default_factory=lambda: f"state-writer:{uuid.uuid4()}")
    owner: str = field(default_factory=lambda: str(uuid.uuid4()))

    def body(self) -> dict[str, Any]:
        """The members of an acquire request."""
        return {
            "ticket_id": self.ticket_id,
            "owner": self.owner,
            "branch": self.branch,
            "repository": self.repository,
            "workflow": self.workflow,
            "job": self.job,
            "run_id": self.run_id,
            "run_attempt": self.run_attempt,
            "writer_class": self.writer_class.value,
        }


@dataclass(frozen=True, slots=True)
class Ticket:
    """A ticket. `position` is 1-based while queued, else 0; times in ms since 1970, None while queued."""

    ticket_id: str
    owner: str
    seq: int
    leased: bool
    position: int
    lease_token: str | None = field(repr=False)
    lease_expires_at: int | None
    lease_deadline_at: int | None

    def claim(self) -> dict[str, str]:
        """The fencing triple. Raises LeaseLost without a lease."""
        if self.lease_token is None:
            raise LeaseLost(f"ticket {self.ticket_id} has no lease")
        return {"ticket_id": self.ticket_id, "owner": self.owner, "lease_token": self.lease_token}


def _ticket(value: Any) -> Ticket:
    found = value.get("ticket") if isinstance(value, dict) else None
    if not isinstance(found, dict) or found.get("state") not in ("queued", "leased"):
        raise InvalidAnswer("the answer is no ticket that waits or holds the lease")
    leased = found["state"] == "leased"
    token = found.get("leaseToken")
    if leased and (not isinstance(token, str) or not isinstance(found.get("leaseExpiresAt"), int)):
        raise InvalidAnswer("a lease has no token or no end")
    try:
        return Ticket(
            found["ticketId"],
            found["owner"],
            found["seq"],
            leased,
            found["position"],
            token if leased else None,
            found.get("leaseExpiresAt"),
            found.get("leaseDeadlineAt"),
        )
    except KeyError as error:
        raise InvalidAnswer(f"a ticket has no {error}") from None


class Lease:
    """A lease that is held; a task of its own prolongs it. `check()` before anything that must not be done twice."""

    def __init__(self, ticket: Ticket) -> None:
        self.ticket = ticket
        self._lost: LeaseLost | None = None

    @property
    def lost(self) -> bool:
        """Whether the lease is over."""
        return self._lost is not None

    def check(self) -> None:
        """Raises LeaseLost when the lease is over."""
        if self._lost is not None:
            raise self._lost

    def _lose(self, error: LeaseLost) -> None:
        self._lost = error


class AsyncStateWriter:
    """The coordinator over an `AsyncHttp`. `sleep` and `now` (seconds) are for tests."""

    def __init__(
        self,
        http: AsyncHttp,
        *,
        sleep: Callable[[float], Awaitable[Any]] = asyncio.sleep,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._http = http
        self._sleep = sleep
        self._now = now

    async def acquire(self, writer: Writer) -> Ticket:
        """Asks once: queues, polls, or gets the lease. Raises LeaseLost when the ticket has ended."""
        try:
            return _ticket(await self._http.json("POST", f"{PREFIX}acquire", writer.body(), check=_check_ticket))
        except Conflict as conflict:
            raise LeaseLost(f"ticket {writer.ticket_id}: {conflict.code}") from None

    async def heartbeat(self, ticket: Ticket) -> Ticket:
        """Prolongs the lease. Raises LeaseLost."""
        try:
            return _ticket(await self._http.json("POST", f"{PREFIX}heartbeat", ticket.claim(), check=_check_ticket))
        except Conflict as conflict:
            raise LeaseLost(f"ticket {ticket.ticket_id}: {conflict.code}") from None

    async def release(self, ticket: Ticket) -> None:
        """Gives the lease back; again is no error. Raises LeaseLost."""
        try:
            await self._http.json("POST", f"{PREFIX}release", ticket.claim())
        except Conflict as conflict:
            raise LeaseLost(f"ticket {ticket.ticket_id}: {conflict.code}") from None

    async def wait(self, writer: Writer, *, timeout: float | None = None, poll: float = POLL_SECONDS) -> Ticket:
        """Polls until the lease is there. `timeout` in seconds; raises LeaseTimeout, LeaseLost."""
        end = None if timeout is None else self._now() + timeout
        while not (ticket := await self.acquire(writer)).leased:
            if end is not None and self._now() + poll > end:
                raise LeaseTimeout(timeout or 0, ticket.position)
            await self._sleep(poll)
        return ticket

    @asynccontextmanager
    async def lease(
        self, writer: Writer, *, timeout: float | None = None, poll: float = POLL_SECONDS
    ) -> AsyncIterator[Lease]:
        """Waits for the lease, keeps it alive meanwhile, and gives it back.

        Raises LeaseTimeout, LeaseLost; at the end LeaseLost too when it ran out and the block did not notice.
        """
        lease = Lease(await self.wait(writer, timeout=timeout, poll=poll))
        beating = asyncio.create_task(self._beat(lease))
        try:
            yield lease
        except BaseException:
            await _stopped(beating)
            try:
                await self._give_back(lease)
            except ClientError as error:
                # what ended the block matters more; the lease runs out by itself
                log.warning("the state-writer lease could not be given back: %s", error)
            raise
        await _stopped(beating)
        await self._give_back(lease)
        lease.check()

    async def _give_back(self, lease: Lease) -> None:
        if not lease.lost:
            await self.release(lease.ticket)

    async def _beat(self, lease: Lease) -> None:
        while not lease.lost:
            ends = (lease.ticket.lease_expires_at or 0) / 1000
            await self._sleep(min(MAX_BEAT_SECONDS, max(1.0, (ends - self._now()) / 3)))
            try:
                lease.ticket = await self.heartbeat(lease.ticket)
            except LeaseLost as error:
                lease._lose(error)
            except ClientError:
                # not an answer of the coordinator: try again until the lease's own end
                if self._now() >= (lease.ticket.lease_expires_at or 0) / 1000:
                    lease._lose(LeaseLost(f"ticket {lease.ticket.ticket_id}: no heartbeat got through in time"))


async def _stopped(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


def _check_ticket(value: dict[str, Any]) -> None:
    _ticket(value)


class StateWriter:
    """The synchronous face of `AsyncStateWriter`, over an `Http`; heartbeats run on the client's own thread."""

    def __init__(self, http: Http) -> None:
        self._loop = http.loop
        self._writer = AsyncStateWriter(http.asynchronous)

    def acquire(self, writer: Writer) -> Ticket:
        """See `AsyncStateWriter.acquire`."""
        return self._loop.run(self._writer.acquire(writer))

    def heartbeat(self, ticket: Ticket) -> Ticket:
        """See `AsyncStateWriter.heartbeat`."""
        return self._loop.run(self._writer.heartbeat(ticket))

    def release(self, ticket: Ticket) -> None:
        """See `AsyncStateWriter.release`."""
        self._loop.run(self._writer.release(ticket))

    @contextmanager
    def lease(self, writer: Writer, *, timeout: float | None = None) -> Iterator[Lease]:
        """See `AsyncStateWriter.lease`."""
        manager = self._writer.lease(writer, timeout=timeout)
        lease = self._loop.run(manager.__aenter__())
        try:
            yield lease
        except BaseException as error:
            self._loop.run(manager.__aexit__(type(error), error, error.__traceback__))
            raise
        self._loop.run(manager.__aexit__(None, None, None))

"""The contract between the queue and the code host: what it asks, what it orders, and how a refusal looks.

An implementation keeps no state that matters: everything durable is in the queue. Every call leaves the object
after what
was written before it is durable, so that no effect precedes its record.
"""

from dataclasses import dataclass
from typing import Any, Literal, Protocol

from moorage.protocols.intake.versions import CommandIntake
from moorage.protocols.queue.decisions import Decision

Visibility = Literal["public", "private", "unknown"]
Acknowledgement = Literal["reaction", "status_comment"]


class CodeHostError(Exception):
    """The code host refused or did not answer.

    `status` is None without an answer; `body` is its JSON; `retry_at` in milliseconds, when it named a time;
    `retry_after` and
    `remaining` are its rate limit headers as sent. `perhaps_done`: the request went out and no answer came, so
    that what was
    ordered may have happened.
    """

    def __init__(
        self,
        message: str,
        status: int | None = None,
        body: Any = None,
        retry_at: int | None = None,
        retry_after: str | None = None,
        remaining: str | None = None,
        perhaps_done: bool = False,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.body = body
        self.retry_at = retry_at
        self.retry_after = retry_after
        self.remaining = remaining
        self.perhaps_done = perhaps_done


@dataclass(frozen=True, slots=True)
class Target:
    """An issue or a pull request now. `state` `missing`: there is none. `head_sha` of pull requests."""

    state: Literal["open", "closed", "missing"]
    head_sha: str | None = None
    updated_at: str | None = None
    is_draft: bool | None = None


@dataclass(frozen=True, slots=True)
class Comment:
    """A comment now. `item_number`: the issue or pull request that it belongs to; `body_digest`: hex SHA-256
    of its text.

    `updated_at` in milliseconds.
    """

    item_number: int
    body_digest: str
    updated_at: int | None


@dataclass(frozen=True, slots=True)
class Run:
    """A workflow run, or one attempt of it. `conclusion` is None while it is not completed."""

    attempt: int
    completed: bool
    conclusion: str | None


class CodeHost(Protocol):
    """What the queue needs. Every method raises CodeHostError when the host refuses or does not answer."""

    async def workflow_state(self, workflow: str) -> str:
        """The state of the workflow that works items off; `active` when it runs."""

    async def visibility(self, repository: str) -> Visibility:
        """Whether a repository is public."""

    async def target(self, decision: Decision) -> Target:
        """The item of a decision."""

    async def comment(self, intake: CommandIntake) -> Comment | None:
        """The comment that a command came from, or None when it is gone."""

    async def run(self, run_id: str, attempt: int | None) -> Run | None:
        """A run, or one attempt of it; None when there is none."""

    async def dispatch(self, event_type: str, payload: dict[str, Any]) -> None:
        """Hands work out."""

    asks_nobody: bool
    """Whether questions are answered without a call outside: then they do not wait for what was written before."""

    acknowledgements: tuple[Acknowledgement, ...]
    """What shows the author of a command that it was taken, in this order; empty where there is nobody to tell."""

    async def is_acknowledged(self, intake: CommandIntake, part: Acknowledgement) -> bool:
        """Whether the part is there already, or would change nothing if it were made again and is False for that."""

    async def acknowledge(self, intake: CommandIntake, part: Acknowledgement) -> None:
        """Makes the part: one write."""

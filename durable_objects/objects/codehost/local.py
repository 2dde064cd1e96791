"""Handing work out without a code host: a webhook, a command on this machine, or a list in memory for tests.

There is nobody to ask, so what was signed with the webhook secret is trusted: targets are open, repositories
public, comments
as the intake says.
"""

import asyncio
import hashlib
import hmac
import json
import shlex
from collections.abc import Callable
from typing import Any, Final

import httpx

from moorage.protocols.intake.versions import CommandIntake
from moorage.protocols.queue.decisions import Decision

from .contract import Acknowledgement, CodeHostError, Comment, Run, Target, Visibility

TIMEOUT_SECONDS: Final = 15.0
COMMAND_TIMEOUT_SECONDS: Final = 60.0
SIGNATURE: Final = "x-hub-signature-256"


class TrustingCodeHost:
    """What the two below share: every question is answered as the signed request has it."""

    asks_nobody = True
    acknowledgements: tuple[Acknowledgement, ...] = ()

    async def workflow_state(self, workflow: str) -> str:
        """Always active."""
        return "active"

    async def visibility(self, repository: str) -> Visibility:
        """Always public."""
        return "public"

    async def target(self, decision: Decision) -> Target:
        """Open, at the head that the decision names."""
        head = decision.source_head_sha
        return Target("open", head if isinstance(head, str) else None)

    async def comment(self, intake: CommandIntake) -> Comment | None:
        """As the intake says."""
        return Comment(intake.decision.item_number, intake.command_body_digest, intake.updated_at)

    async def run(self, run_id: str, attempt: int | None) -> Run | None:
        """Unknown: runs are ended by completion, by their caller's `terminal_runs`, or by silence."""
        return None

    async def is_acknowledged(self, intake: CommandIntake, part: Acknowledgement) -> bool:
        """Nobody to tell."""
        return True

    async def acknowledge(self, intake: CommandIntake, part: Acknowledgement) -> None:
        """Nobody to tell."""

    async def dispatch(self, event_type: str, payload: dict[str, Any]) -> None:
        """See the contract."""
        raise NotImplementedError


class WebhookCodeHost(TrustingCodeHost):
    """Dispatches are posted to `url` as `{event_type, client_payload}`, signed under `x-hub-signature-256`."""

    def __init__(self, url: str, secret: str, transport: httpx.AsyncBaseTransport | None = None) -> None:
        self._url = url
        self._secret = secret
        self._transport = transport

    async def dispatch(self, event_type: str, payload: dict[str, Any]) -> None:
        """See the contract; any 2xx is taken."""
        body = json.dumps({"event_type": event_type, "client_payload": payload}).encode()
        signature = "sha256=" + hmac.new(self._secret.encode(), body, hashlib.sha256).hexdigest()
        headers = {"content-type": "application/json", SIGNATURE: signature}
        try:
            async with httpx.AsyncClient(
                timeout=TIMEOUT_SECONDS, transport=self._transport, trust_env=False
            ) as client:
                response = await client.post(self._url, content=body, headers=headers)
        except (httpx.ConnectError, httpx.ConnectTimeout) as error:
            raise CodeHostError(f"dispatch webhook: {type(error).__name__}") from None
        except httpx.HTTPError as error:
            raise CodeHostError(f"dispatch webhook: {type(error).__name__}", perhaps_done=True) from None
        if not response.is_success:
            after = response.headers.get("retry-after")
            raise CodeHostError(f"dispatch webhook: {response.status_code}", response.status_code, retry_after=after)


class CommandCodeHost(TrustingCodeHost):
    """Each dispatch starts `command` (split like a shell would, without a shell) with the JSON on its standard input.

    The command hands the work to a worker and ends with 0 within a minute; anything else is an outage, tried
    again later.
    """

    def __init__(self, command: str) -> None:
        self._arguments = shlex.split(command)
        if not self._arguments:
            raise ValueError("EXACT_REVIEW_DISPATCH_COMMAND must name a program")

    async def dispatch(self, event_type: str, payload: dict[str, Any]) -> None:
        """See the contract."""
        body = json.dumps({"event_type": event_type, "client_payload": payload}).encode()
        try:
            process = await asyncio.create_subprocess_exec(
                *self._arguments, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.DEVNULL
            )
        except OSError as error:
            raise CodeHostError(f"dispatch command: {error}") from None
        try:
            async with asyncio.timeout(COMMAND_TIMEOUT_SECONDS):
                await process.communicate(body)
        except TimeoutError:
            process.kill()
            await process.wait()
            raise CodeHostError("dispatch command: no end within a minute", perhaps_done=True) from None
        if process.returncode != 0:
            raise CodeHostError(f"dispatch command: exit status {process.returncode}", 500)


class RecordingCodeHost(TrustingCodeHost):
    """For tests: keeps what was dispatched and acknowledged; `on_call` sees every call first and may raise or
    answer."""

    acknowledgements: tuple[Acknowledgement, ...] = ("status_comment",)

    def __init__(self, on_call: Callable[[str, tuple[Any, ...]], Any] | None = None) -> None:
        self.dispatches: list[dict[str, Any]] = []
        self.acknowledged: list[str] = []
        self._on_call = on_call

    def _seen(self, name: str, *arguments: Any) -> Any:
        return self._on_call(name, arguments) if self._on_call else None

    async def workflow_state(self, workflow: str) -> str:
        """See the contract."""
        return self._seen("workflow_state", workflow) or "active"

    async def target(self, decision: Decision) -> Target:
        """See the contract."""
        return self._seen("target", decision) or await super().target(decision)

    async def comment(self, intake: CommandIntake) -> Comment | None:
        """See the contract."""
        return self._seen("comment", intake) or await super().comment(intake)

    async def run(self, run_id: str, attempt: int | None) -> Run | None:
        """See the contract."""
        found: Run | None = self._seen("run", run_id, attempt)
        return found

    async def dispatch(self, event_type: str, payload: dict[str, Any]) -> None:
        """See the contract."""
        self._seen("dispatch", event_type, payload)
        self.dispatches.append({"event_type": event_type, "client_payload": payload})

    async def is_acknowledged(self, intake: CommandIntake, part: Acknowledgement) -> bool:
        """See the contract."""
        return intake.command_version_id in self.acknowledged

    async def acknowledge(self, intake: CommandIntake, part: Acknowledgement) -> None:
        """See the contract. Every call counts: whoever makes one twice is found out."""
        self._seen("acknowledge", intake)
        self.acknowledged.append(intake.command_version_id)

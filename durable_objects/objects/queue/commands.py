"""Commands on their way: verification, enqueue, effects. Rules: `moorage.protocols.intake`; spec
state-plane-protocol 6.

Each stage is durable before the next one begins, and every effect can be done again: a crash at any point
costs a repetition
that changes nothing.
"""

import logging
from functools import partial
from typing import Any

import msgspec
from msgspec import UNSET

from moorage.protocols.intake.admission import VISIBILITY_ATTEMPTS, Detail
from moorage.protocols.intake.versions import InvalidIntake, parse_intake
from moorage.protocols.queue.decisions import Decision
from moorage.protocols.queue.receipts import acknowledgement_write
from moorage.protocols.wire import Reply, reply, wire_method
from moorage.protocols.wire.intake import InvalidCommandIntake

from ...runtime.errors import DurableObjectAbort
from ...runtime.outgoing import outgoing
from ..codehost.contract import CodeHost, CodeHostError, Comment, Target
from ..intake import IntakeRecord
from .mutations import MutationMethods

logger = logging.getLogger(__name__)
EFFECT_ATTEMPTS = 16


class Rejected(Exception):
    """The code host shows that the command must not run."""

    def __init__(self, detail: Detail) -> None:
        super().__init__(detail.value)
        self.detail = detail


class CommandMethods(MutationMethods):
    """`command-intake`, and the alarm's part of it."""

    @wire_method
    async def admit_command(self, members: Any) -> Reply:
        """202 with the receipt; the version is durable before this returns."""
        try:
            intake = parse_intake(members)
        except InvalidIntake as error:
            logger.info("command intake: %s", error)
            raise InvalidCommandIntake from None
        if not self.target_enabled(intake.decision.target_repo):
            return reply({"ok": True, "accepted": False, "reason": "target not enabled"}, 202)
        await self.pass_gate(intake.decision.target_repo)
        found = self.command_intakes.admit_intake(intake, self.now())
        await self.reschedule()
        answer = {"ok": True, "accepted": found["accepted"]}
        names = {"deduped": "deduped", "reason": "reason", "commandVersionId": "command_version_id"}
        names["bayJourneyDeliveryId"] = "bay_journey_delivery_id"
        return reply({**answer, **{wire: found[name] for name, wire in names.items() if name in found}}, 202)

    async def run_intakes(self) -> None:
        """Works off due versions, each as far as it goes."""
        host = self.codehost
        if host is None:
            return
        for record in self.command_intakes.due(self.now()):
            try:
                await self._work_off(host, record)
            except DurableObjectAbort:
                raise
            except Exception:
                # one version that meets a defect must not hold back those behind it
                logger.exception("command %s", record.intake.command_version_id)
                self.command_intakes.defer(record, self.now(), "internal error")

    async def _work_off(self, host: CodeHost, record: IntakeRecord) -> None:
        version = record.intake.command_version_id
        while True:
            if not self.command_intakes.is_current(record):
                detail = Detail.NEWER if record.stage == "verify_pending" else Detail.SIBLING
                self.command_intakes.finish(version, "superseded", self.now(), detail.value)
                return
            try:
                if record.stage == "verify_pending":
                    verified = await self._verify(host, record)
                    if not self._keep_verified(record, verified):
                        continue
                elif record.stage == "enqueue_pending":
                    self._enqueue(record)
                else:
                    await self._acknowledge(host, record)
                    return
            except Rejected as refused:
                self.command_intakes.finish(version, "rejected", self.now(), refused.detail.value)
                return
            except CodeHostError as error:
                self._deferred(record, error)
                return
            after = self.command_intakes.get(version)
            if after is None or after.stage == record.stage:
                return
            record = after

    def _deferred(self, record: IntakeRecord, error: CodeHostError) -> None:
        if record.stage == "effects_pending" and record.attempts + 1 >= EFFECT_ATTEMPTS:
            # the review is in the queue: only its acknowledgement is given up
            self.command_intakes.finish(
                record.intake.command_version_id, "completed", self.now(), f"acknowledgement given up: {error}"
            )
            return
        self.command_intakes.defer(record, self.now(), str(error), error.retry_at)

    async def _verify(self, host: CodeHost, record: IntakeRecord) -> Decision:
        """The decision with what the code host confirms. Raises Rejected, CodeHostError."""
        intake, decision = record.intake, record.intake.decision
        visibility = await outgoing(lambda: host.visibility(decision.target_repo))
        if visibility == "private":
            raise Rejected(Detail.PRIVATE)
        if visibility == "unknown":
            if record.attempts + 1 >= VISIBILITY_ATTEMPTS:
                raise Rejected(Detail.VISIBILITY_EXHAUSTED)
            raise CodeHostError("target visibility unverified")
        comment = await outgoing(lambda: host.comment(intake))
        _check_comment(record, comment)
        target = await outgoing(lambda: host.target(decision))
        return _confirmed(decision, target)

    def _keep_verified(self, record: IntakeRecord, verified: Decision) -> bool:
        def write() -> bool:
            if not self.command_intakes.mark_verified(record, self.now()):
                return False
            self.command_intakes.advance(record.intake.command_version_id, "enqueue_pending", self.now(), verified)
            return True

        return bool(self.transaction(write))

    def _enqueue(self, record: IntakeRecord) -> None:
        """The review and the next stage, in one transaction: one command makes one review."""
        version = record.intake.command_version_id
        decision = record.verified_decision if record.verified_decision is not UNSET else record.intake.decision

        def write() -> None:
            self.admit_event(version, decision)
            self.command_intakes.advance(version, "effects_pending", self.now(), decision)

        self.transaction(write)

    async def _acknowledge(self, host: CodeHost, record: IntakeRecord) -> None:
        """Every part that is not there yet, each between its receipts; then the version is complete."""
        intake = record.intake
        for part in host.acknowledgements:
            write = acknowledgement_write(intake, part)
            if self.mutation_events.was_accepted(write.digest):
                continue
            if not await outgoing(partial(host.is_acknowledged, intake, part)):
                await self.write_outside(write, partial(host.acknowledge, intake, part))
        self.command_intakes.finish(record.intake.command_version_id, "completed", self.now(), None)


def _check_comment(record: IntakeRecord, comment: Comment | None) -> None:
    intake = record.intake
    if comment is None:
        raise Rejected(Detail.MISSING)
    if comment.item_number != intake.decision.item_number:
        raise Rejected(Detail.ITEM_MISMATCH)
    if comment.body_digest != intake.command_body_digest or comment.updated_at != intake.updated_at:
        raise Rejected(Detail.CHANGED)


def _confirmed(decision: Decision, target: Target) -> Decision:
    if target.state != "open":
        raise Rejected(Detail.NOT_OPEN)
    if isinstance(decision.source_head_sha, str) and decision.source_head_sha != target.head_sha:
        raise Rejected(Detail.HEAD_CHANGED)
    confirmed = msgspec.structs.replace(decision, source_comment_verified=True)
    if not decision.is_pull_request or target.head_sha is None:
        return confirmed
    return msgspec.structs.replace(confirmed, source_head_sha=target.head_sha, source_head_verified=True)

"""Claim, heartbeat, complete, reconcile. Rules: `moorage.protocols.queue.leases` and `endings`; spec 11.3 to 11.6."""

import dataclasses
from collections import Counter
from typing import Any

import msgspec

from moorage.protocols.javascript import iso_time
from moorage.protocols.queue import endings
from moorage.protocols.queue.completions import (
    Completion,
    TerminalRun,
    parse_completion,
    parse_runs,
    parse_terminal_runs,
)
from moorage.protocols.queue.endings import Ending, check_holder
from moorage.protocols.queue.items import HELD, QueueItem, silence_deadline
from moorage.protocols.queue.leases import claim, claim_answer, heartbeat, parse_claim, parse_heartbeat
from moorage.protocols.wire import InvalidJson, Reply, reply, wire_method
from moorage.protocols.wire.queue import (
    InvalidIncludeAllClaimed,
    InvalidRequestedRuns,
    InvalidRuns,
    InvalidTerminalRuns,
    LeaseNotClaimed,
    LeaseSuperseded,
)

from ...runtime.outgoing import outgoing
from ..codehost.contract import CodeHostError, Run
from .dead_letters import DeadLetterMethods
from .enqueue import EnqueueMethods

MAX_RUNS = 128
MAX_CLAIMS_OF_RUN = 2
EXPIRY_LOT = 500


class LeaseMethods(EnqueueMethods, DeadLetterMethods):
    """What a holder of a lease may call, and what takes a lease back."""

    async def _live(self, lease_id: str) -> QueueItem | None:
        """The item under the lease, or None; a lease that has ended by time is given back on the spot."""
        found = self.items.by_lease(lease_id)
        if found is None or found.state not in HELD or found.batch_id is not None or not self.is_expired(found):
            return found
        expired = found
        self.transaction(lambda: self.settle(expired, endings.expire(expired, self.now())))
        await self.reschedule()
        return None

    @wire_method
    async def claim_lease(self, members: dict[str, Any]) -> Reply:
        """200 with the decision of the lease. Refuses as spec state-plane-protocol 11.3 has it."""
        request = parse_claim(members)
        found = await self._live(request.lease_id)
        after = claim(found, request, self.now(), self.settings)
        self.transaction(lambda: self.items.put(after, found))
        return reply(claim_answer(after))

    @wire_method
    async def heartbeat_lease(self, members: dict[str, Any]) -> Reply:
        """200 `{ok, phase, lease_heartbeat_at}`. Any mismatch, and a dead lease, is `lease_not_active`."""
        request = parse_heartbeat(members)
        found = await self._live(request.lease_id)
        after = heartbeat(found, request, self.now())
        if after is not found:
            self.transaction(lambda: self.items.put(after, found))
            # silence from now on ends the lease sooner than its own end
            ends = silence_deadline(after, self.settings.heartbeat_grace_ms)
            if ends is not None:
                await self.wake(ends)
        at = after.lease_heartbeat_at
        return reply(
            {
                "ok": True,
                "phase": after.lease_phase or "review",
                "lease_heartbeat_at": iso_time(at) if at is not None else None,
            }
        )

    @wire_method
    async def complete_lease(self, members: dict[str, Any]) -> Reply:
        """200 `{ok, requeued}`. Not idempotent: a repeated completion is `lease_not_claimed`."""
        request = parse_completion(members, self.now())
        found = await self._live(request.lease_id)
        try:
            item = check_holder(found, request)
        except LeaseNotClaimed:
            by = self.supersessions.superseded_by(request)
            if by is None:
                raise
            raise LeaseSuperseded(superseded_by_revision=by) from None
        ending = endings.complete(item, request, self.now(), self.random(), self.dead_letter_room())
        self.transaction(lambda: self._complete(item, request, ending))
        await self.reschedule()
        return reply({"ok": True, "requeued": ending.requeued})

    def _complete(self, item: QueueItem, request: Completion, ending: Ending) -> None:
        self.end_lifecycle(item, ending, request.outcome, request.disposition)
        again = ending.item
        if ending.drift and again is not None and not item.has_newer_revision:
            # what was published stands for its revision: the source's later state is another one
            revision = self.next_revision(again.decision, item.revision + 1)
            ending = dataclasses.replace(ending, item=msgspec.structs.replace(again, revision=revision))
        self.settle(item, ending)

    def settle(self, item: QueueItem, ending: Ending) -> None:
        """Writes an ending: the item, the fresh review, the dead letter, the counters; inside the caller's
        transaction."""
        if ending.item is None:
            self.items.remove(item)
        else:
            self.items.put(ending.item, item)
        if item.has_newer_revision:
            self.end_overtaken(item, ending.item)
        for name in ending.counters:
            self.count(item.lane, name)
        if ending.burial is not None:
            self.bury(item, ending.burial)
        if ending.refresh is not None and self.items.get(ending.refresh.item_key) is None:
            self.create_review(ending.refresh)

    def reclaim_expired(self) -> int:
        """Gives back expired leases and wakes parked items whose time has come, a bounded lot; how many."""
        now, moved = self.now(), 0
        for lane in ("review", "publication"):
            for state in ("dispatching", "leased"):
                for item in self.items.due(lane, state, now, EXPIRY_LOT):
                    if item.batch_id is None:
                        self.settle(item, endings.expire(item, now))
                        moved += 1
            for item in self.items.due(lane, "parked", now, EXPIRY_LOT):
                self.items.put(endings.recover(item, now), item)
                moved += 1
        return moved

    @wire_method
    def claimed_runs(self, members: dict[str, Any]) -> Reply:
        """200 `{runs}`: which of the runs hold leases, by whichever attempt; at most two of each, 128 in all."""
        runs, everything = self._requested(members, InvalidRequestedRuns, empty_allowed=True)
        if not runs and not everything:
            raise InvalidRequestedRuns
        found = self._claimed(runs, everything)
        return reply({"runs": [_claimed_run(item) for item in found]})

    def _requested(
        self, members: dict[str, Any], error: type[Exception], empty_allowed: bool
    ) -> tuple[list[tuple[str, int | None]], bool]:
        everything = members.get("include_all_claimed", False)
        if not isinstance(everything, bool):
            raise InvalidIncludeAllClaimed
        runs = parse_runs(members.get("runs", members.get("run_ids") if error is InvalidRuns else None), MAX_RUNS)
        if runs is None or not (runs or everything or empty_allowed):
            raise error
        return runs, everything

    def _claimed(self, runs: list[tuple[str, int | None]], everything: bool) -> list[QueueItem]:
        found: dict[str, QueueItem] = {}
        for run_id, _ in runs:
            held = [item for item in self.items.by_run(run_id, MAX_RUNS) if item.state == "leased"]
            found.update((item.key, item) for item in held[:MAX_CLAIMS_OF_RUN])
        if everything:
            of_run: Counter[str | None] = Counter()
            for item in self.items.claimed(MAX_RUNS):
                of_run[item.claimed_run_id] += 1
                if item.state == "leased" and of_run[item.claimed_run_id] <= MAX_CLAIMS_OF_RUN:
                    found[item.key] = item
        return list(found.values())[:MAX_RUNS]

    @wire_method
    async def reconcile(self, members: dict[str, Any] | None) -> Reply:
        """Ends the leases of runs that ended. `terminal_runs` says how they ended; `runs` are looked up at the
        code host."""
        if members is None:
            raise InvalidJson
        if "terminal_runs" in members:
            ended = parse_terminal_runs(members["terminal_runs"], MAX_RUNS)
            if ended is None:
                raise InvalidTerminalRuns
            counts = self.transaction(lambda: self._end_runs(ended))
            await self.reschedule()
            return reply({"ok": True, **counts})
        runs, everything = self._requested(members, InvalidRuns, empty_allowed=False)
        claimed = self._claimed(runs, everything)
        looked_up, unavailable = await self._ask(claimed)
        counts = self.transaction(lambda: self._end_runs(looked_up))
        await self.reschedule()
        seen = {
            "requested": len(runs),
            "claimed": len(claimed),
            "terminal": len(looked_up),
            "unavailable": unavailable,
        }
        return reply({"ok": True, **seen, **counts})

    async def _ask(self, claimed: list[QueueItem]) -> tuple[list[TerminalRun], int]:
        """Which of the claimed runs have ended, and of how many the code host could not tell."""
        ended, unavailable = [], 0
        for item in claimed:
            run_id, held = item.claimed_run_id or "", item.claimed_run_attempt
            try:
                run = await self._run(run_id, None)
                if run is not None and run.completed and held is not None:
                    # the attempt that holds the lease counts; the run itself shows its latest one
                    run = await self._run(run_id, held) or run
            except CodeHostError:
                unavailable += 1
                continue
            if run is None:
                unavailable += 1
            elif run.completed:
                outcome = {"success": "success", "cancelled": "cancelled"}.get(run.conclusion or "", "failure")
                ended.append(
                    TerminalRun(run_id, run.attempt, held, item.claim_generation or 0, outcome)  # type: ignore[arg-type]
                )
        return ended, unavailable

    async def _run(self, run_id: str, attempt: int | None) -> Run | None:
        host = self.codehost
        if host is None:
            raise CodeHostError("no code host is configured")
        return await outgoing(lambda: host.run(run_id, attempt))

    def _end_runs(self, ended: list[TerminalRun]) -> dict[str, int]:
        counts = {"reconciled": 0, "requeued": 0, "completed": 0}
        for run in ended:
            for item in self.items.by_run(run.run_id, MAX_RUNS):
                held = (item.claimed_run_attempt, item.claim_generation or 0)
                if item.state != "leased" or item.batch_id or held != (run.claimed_run_attempt, run.claim_generation):
                    continue
                ending = self._end_of_run(item, run)
                self.end_lifecycle(item, ending, run.outcome, None)
                self.settle(item, ending)
                counts["reconciled"] += 1
                counts["requeued"] += ending.requeued
                counts["completed"] += ending.item is None
        return counts

    def _end_of_run(self, item: QueueItem, run: TerminalRun) -> Ending:
        request = Completion(
            lease_id=item.lease_id or "",
            item_key=item.key,
            lease_revision=item.lease_revision,
            claim_generation=item.claim_generation,
            run_id=run.run_id,
            run_attempt=item.claimed_run_attempt,
            outcome=run.outcome,
        )
        return endings.complete(item, request, self.now(), self.random(), self.dead_letter_room())


def _claimed_run(item: QueueItem) -> dict[str, Any]:
    return {
        "run_id": item.claimed_run_id,
        "run_attempt": item.claimed_run_attempt,
        "claim_generation": item.claim_generation,
    }

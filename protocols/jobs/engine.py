"""The verbs of the queue over a database and the four interfaces, the same for one file and for a Durable Object.

Everything with an effect is handed in: `transact` runs the steps of an operation in one transaction, `query` those
that only read, `now` and `draw` give time and randomness, the ports see files, and `validate` knows JSON Schema. So
nothing here does I/O of its own.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol, TypeVar

from . import claim as claiming
from . import ids, judgments, operate, read, submit
from .catalogue import (
    SKILL_PREFIX,
    Body,
    Extension,
    Target,
    chained_fixers,
    disable_matches,
    precondition_applies,
)
from .errors import Refused
from .findings import Bucket, suppressed, suppressions_of, view
from .ports import AgentPresence, ExtensionCatalogue, SuppressionStore, TargetResolver
from .record import Recorded, RecordRequest, close_record, open_record
from .rendering import SKILL_TEMPLATE
from .reports import ReportVerdict, read_report
from .schemas import CANONICAL, SKILL, Validator, parse_schema
from .settings import resolve_retention
from .shapes import credentialed_job
from .steps import Steps
from .submit import SubmitOptions, SubmitPlan, Submitted

T = TypeVar("T")
Surface = Literal["operator", "http", "internal"]
FAN_OUT_REASONS = {"duplicate": "duplicate", "running-conflict": "duplicate"}
FAN_OUT_REFUSALS = frozenset({"duplicate", "running-conflict", "drift", "unreadable", "no-findings"})


class Transact(Protocol):
    """Runs the steps of one operation in one transaction: commits its return, rolls back its exception."""

    def __call__(self, steps: Steps[T]) -> T:
        """The operation's outcome."""
        ...


class Log(Protocol):
    """The operations log: one line an operation, never with a nonce."""

    def __call__(self, op: str, detail: Mapping[str, Any]) -> None:
        """Writes one line."""
        ...


@dataclass(frozen=True, slots=True)
class SubmitOutcome:
    """A submit of one job. `advisories` are for a person, on standard error."""

    submitted: Submitted
    advisories: tuple[str, ...] = ()

    def shape(self) -> dict[str, Any]:
        """The job with its nonce."""
        return credentialed_job(self.submitted.job)


@dataclass(frozen=True, slots=True)
class FanOut:
    """A submit over every target: what was queued and what was refused, neither fatal to the other."""

    submitted: tuple[Submitted, ...]
    refused: tuple[dict[str, Any], ...]
    advisories: tuple[str, ...] = ()

    def shape(self) -> dict[str, Any]:
        """The JSON answer."""
        done = [{"id": item.job["id"], "nodeId": item.job["node_id"]} for item in self.submitted]
        counts = {"submitted": len(done), "refused": len(self.refused), "total": len(done) + len(self.refused)}
        return {"submitted": done, "refused": list(self.refused), "counts": counts}


@dataclass(frozen=True)
class JobEngine:
    """A queue. Every method is one verb; when it raises `Refused`, it changed nothing, if not said otherwise."""

    transact: Transact
    query: Transact
    targets: TargetResolver
    catalogue: ExtensionCatalogue
    presence: AgentPresence
    suppressions: SuppressionStore
    config: Callable[[], Mapping[str, Any]]
    validate: Validator
    now: Callable[[], int]
    draw: ids.Draw
    log: Log

    # -- submit -------------------------------------------------------------------------------------------------

    def submit(
        self,
        name: str,
        options: SubmitOptions,
        *,
        node: str | None = None,
        every: bool = False,
        surface: Surface = "operator",
    ) -> SubmitOutcome | FanOut:
        """Queues one job, or with `every` one for each target that meets the precondition (spec 7)."""
        if every:
            if node is not None:
                raise Refused("usage", "give -n or --all, not both")
            return exhaust(self.submit_all(name, options, surface=surface))
        plan, advisories = self._plan(name, options, node, False, surface)
        target = None if node is None else submit.check_target(self.targets.get(node), node)
        submitted = self._submit_one(plan, target)
        return SubmitOutcome(submitted, (*advisories, *self._lift(plan, target)))

    def _plan(
        self, name: str, options: SubmitOptions, node: str | None, every: bool, surface: Surface
    ) -> tuple[SubmitPlan, tuple[str, ...]]:
        """The plan of a submit, and the advisories so far; everything before the target is looked up."""
        skill = None
        if name.startswith(SKILL_PREFIX) and surface == "http":
            skill = self.catalogue.skill(name.removeprefix(SKILL_PREFIX))
        plan = submit.plan_submit(
            name,
            self.catalogue.all(),
            skill,
            self.query(operate.disabled_keys()),
            self.config(),
            options,
            node=node,
            every=every,
        )
        return plan, self._gate(plan, surface)

    def _gate(self, plan: SubmitPlan, surface: Surface) -> tuple[str, ...]:
        if surface == "internal" or (surface == "http" and plan.extension.nodeless):
            return ()
        state = self.presence.state()
        if state == "absent":
            raise Refused(
                "no-agent",
                "no processing agent is installed: jobs are claimed and recorded by your own agent. "
                "`moorage jobs agent install` writes its instructions; then ask the agent to process the queue",
            )
        if state == "stale":
            return ("the agent's instructions are older than this version; `moorage jobs agent install` renews them",)
        return ()

    def _submit_one(self, plan: SubmitPlan, target: Target | None, suffix: str | None = None) -> Submitted:
        body, digest = Body(None), None
        issues: Sequence[Mapping[str, Any]] = ()
        if target is not None:
            body = self.targets.read_body(target.path)
            digest = None if body.text is None else self.targets.body_hash(body.text)
            if plan.fixes == "issues":
                issues = self.targets.issues(target.path, plan.extension.precondition.analyzer_ids)
        return self.transact(submit.submit_one(plan, target, body, digest, issues, self.now(), self.draw, suffix))

    def submit_all(
        self, name: str, options: SubmitOptions, *, surface: Surface = "operator"
    ) -> Generator[None, None, FanOut]:
        """Queues a job for each target that meets the precondition, each in a transaction of its own.

        A generator, so that whoever has others to serve can do so between two targets.
        """
        plan, advisories = self._plan(name, options, None, True, surface)
        targets = [
            target
            for target in self.targets.list()
            if not target.virtual and precondition_applies(plan.extension.precondition, target)
        ]
        submitted: list[Submitted] = []
        refused: list[dict[str, Any]] = []
        words = list(advisories)
        for target, suffix in zip(targets, self._ascending(len(targets)), strict=True):
            try:
                submitted.append(self._submit_one(plan, target, suffix))
            except Refused as error:
                if error.code not in FAN_OUT_REFUSALS:
                    raise
                entry: dict[str, Any] = {"nodeId": target.path}
                if "existingId" in error.detail:
                    entry["existingId"] = error.detail["existingId"]
                entry["reason"] = FAN_OUT_REASONS.get(error.code, error.code)
                if error.detail.get("cause"):
                    entry["detail"] = error.detail["cause"]
                refused.append(entry)
            else:
                words += self._lift(plan, target)
            yield
        return FanOut(tuple(submitted), tuple(refused), tuple(words))

    def _ascending(self, count: int) -> list[str | None]:
        """Random id suffixes in ascending order, so that a fan-out is claimed in the order of its targets."""
        drawn: set[str] = set()
        while len(drawn) < min(count, 16_384):
            drawn.add(self.draw(2))
        suffixes: list[str | None] = [*sorted(drawn)]
        return suffixes + [None] * (count - len(suffixes))

    def _lift(self, plan: SubmitPlan, target: Target | None) -> tuple[str, ...]:
        """Lifts a standing dismissal of a finder that is asked for a fresh judgment (spec 7). Never a refusal."""
        if target is None or plan.extension.kind != "analyzer":
            return ()
        words: tuple[str, ...] = ()
        entries = suppressions_of(plan.extension.id, list(self.suppressions.get(target.path)))
        if entries:
            types = ", ".join(sorted(str(entry.get("type") or "every type") for entry in entries))
            if self.suppressions.consented():
                self.suppressions.remove(target.path, entries)
                words = (f"{target.path}: {plan.extension.id} is no longer dismissed ({types})",)
            else:
                words = (
                    f"{target.path}: {plan.extension.id} is dismissed ({types}) and the sidecar may not be edited; "
                    "its findings will be recorded hidden, see `findings --dismissed`",
                )
        self.suppressions.refresh(target.path)
        return words

    # -- claim and record ---------------------------------------------------------------------------------------

    def claim(self, name: str | None = None) -> claiming.ClaimOutcome:
        """Reaps, then claims the next job. A missing content is in the outcome: the job is failed by then."""
        outcome = self.transact(claiming.claim(self.now(), self.draw, name))
        for job in outcome.reaped:
            self.log("jobs.reap", {"id": job, "reason": "abandoned"})
        if isinstance(outcome.handover, claiming.ContentMissing):
            self.log("jobs.claim", {"id": outcome.handover.id, "reason": "job-file-missing"})
        return outcome

    def record(self, request: RecordRequest, read_text: Callable[[], str]) -> Recorded:
        """Closes a job. `read_text` reads the report, called only once the nonce and the state are right (JB-1).

        An invalid report closes the job as failed and comes back as an outcome with its `problem`.
        """
        try:
            job = self.query(open_record(request))
            extension = self._recorded_extension(job["extension_id"], job["extension_kind"])
            verdict = self._judge(job["extension_kind"], extension, read_text) if request.completed else None
            enabled = extension is not None and self.enabled(extension)
            target = self.targets.get(job["node_id"])
            recorded = self.transact(
                close_record(
                    job, request, verdict, extension, target, enabled=enabled, now=self.now(), draw=self.draw
                )
            )
        except Refused as error:
            self.log("jobs.record", {"id": request.id, "refused": error.code})
            raise
        if recorded.completed and enabled and job["extension_kind"] == "analyzer" and job["auto_fix"]:
            self._chain(job["extension_id"], job["node_id"])
        return recorded

    def _recorded_extension(self, identifier: str, kind: str) -> Extension | None:
        if identifier.startswith(SKILL_PREFIX):
            return skill_extension(identifier.removeprefix(SKILL_PREFIX), "0.0.0", "")
        return next((e for e in self.catalogue.all() if e.id == identifier and e.kind == kind), None)

    def _judge(self, kind: str, extension: Extension | None, read_text: Callable[[], str]) -> ReportVerdict:
        if extension is None or extension.report_schema_text is None:
            raise Refused("extension-invalid", "the extension's report schema cannot be read; the job stays running")
        try:
            schema = parse_schema(extension.report_schema_text)
        except ValueError as error:
            raise Refused("extension-invalid", f"{extension.id}: its report schema is not usable: {error}") from error
        return read_report(read_text(), kind, schema, self.validate)

    def enabled(self, extension: Extension) -> bool:
        """Whether an extension is neither disabled itself nor through its plugin."""
        return extension.enabled and not disable_matches(self.query(operate.disabled_keys()), extension.id)

    def _chain(self, finder: str, node: str) -> None:
        """Submits the finder's fixers after its record's commit. Refusals are silent (spec 20)."""
        for extension in chained_fixers(finder, self.catalogue.all()):
            try:
                self.submit(f"{extension.kind}:{extension.id}", SubmitOptions(), node=node, surface="internal")
            except Refused as error:
                self.log("jobs.chain", {"extension": extension.id, "node": node, "refused": error.code})

    # -- the operator's verbs -----------------------------------------------------------------------------------

    def close(self, verb: operate.Verb, job: str) -> None:
        """Cancels or fails one job."""
        try:
            self.transact(operate.close_one(verb, job, self.now(), self.draw))
        except Refused as error:
            self.log(f"jobs.{verb}", {"id": job, "refused": error.code})
            raise

    def close_all(self, verb: operate.Verb) -> int:
        """Cancels or fails every queued and running job; how many."""
        return self.transact(operate.close_all(verb, self.now(), self.draw))

    def disable(self, key: str) -> tuple[str, ...]:
        """Disables an extension or a plugin; the queued jobs that this cancelled."""
        self._known(key)
        cancelled = self.transact(operate.disable(key, self.now(), self.draw))
        if cancelled:
            self.log("jobs.cancel", {"trigger": f"disable {key}", "count": len(cancelled)})
        return cancelled

    def enable(self, key: str) -> bool:
        """Takes the toggle back; whether it was set."""
        self._known(key)
        return self.transact(operate.enable(key))

    def _known(self, key: str) -> None:
        if not any(disable_matches((key,), extension.id) for extension in self.catalogue.all()):
            raise Refused("not-found", f"no extension or plugin {key!r} is installed")

    def prune(self, *, dry_run: bool = False) -> operate.Pruned:
        """Deletes terminal jobs past their retention, and contents without a job."""
        policy = resolve_retention(self.config())
        return self.transact(operate.prune(self.now(), policy, dry_run=dry_run))

    def doctor(self) -> list[read.Check]:
        """The job checks; changes nothing."""
        estimates: dict[tuple[str, str], int] = {
            (extension.kind, extension.id): extension.estimate_seconds
            for extension in self.catalogue.all()
            if extension.estimate_seconds is not None
        }
        return self.query(read.doctor(self.now(), estimates))

    # -- findings -----------------------------------------------------------------------------------------------

    def _body_hash(self, path: str) -> str | None:
        target = self.targets.get(path)
        return None if target is None else target.body_hash

    def _body_hashes(self, paths: Sequence[str]) -> dict[str, str | None]:
        """The stored body hashes of targets, looked up before the transaction that goes by them: a target may be one
        that is asked for over the network, and nobody else could write meanwhile.
        """
        return {path: self._body_hash(path) for path in paths}

    def findings(self, wanted: judgments.FindingFilter, bucket: Bucket = "default") -> dict[str, Any]:
        """The findings verb's JSON answer."""
        every = self.query(judgments.findings(wanted, self._body_hash))
        mirrors = {finding["nodeId"]: list(self.suppressions.mirrored(finding["nodeId"])) for finding in every}
        hidden = [
            finding["id"]
            for finding in every
            if finding["origin"] == "extension"
            and suppressed(finding["extensionId"], finding["type"], mirrors[finding["nodeId"]])
        ]
        shown = view(every, hidden, bucket)
        return {
            "ok": True,
            "kind": "findings",
            "findings": list(shown.findings),
            "total": len(shown.findings),
            "dismissedExcluded": shown.dismissed_excluded,
            "fixedExcluded": shown.fixed_excluded,
        }

    def set_resolution(self, identifier: int, state: str | None, note: str | None = None) -> dict[str, Any]:
        """Resolves, dismisses or reopens one finding by hand; the finding after it."""
        hashes = self._body_hashes(self.query(judgments.node_of(identifier)))
        steps = judgments.set_resolution(identifier, state, note, self.now(), hashes.get)
        return self.transact(steps)

    def prune_findings(self, *, dry_run: bool = False) -> dict[str, int]:
        """Deletes the stale findings."""
        hashes = self._body_hashes(self.query(judgments.nodes()))
        return self.transact(judgments.prune_stale(hashes, dry_run=dry_run))

    def clear_findings(self, node: str | None, *, dry_run: bool = False) -> dict[str, int]:
        """Deletes the findings of one target, or all."""
        return self.transact(judgments.clear(node, dry_run=dry_run))

    # -- reads --------------------------------------------------------------------------------------------------

    def read(self, steps: Steps[T]) -> T:
        """Runs an operation of `read`."""
        return self.query(steps)


def exhaust(work: Generator[None, None, T]) -> T:
    """Runs a gradual operation to its end."""
    try:
        while True:
            next(work)
    except StopIteration as stop:
        outcome: T = stop.value
        return outcome


def skill_extension(name: str, version: str, body: str) -> Extension:
    """An installed skill as an action: a fixed wrapper template and the one skill schema (spec 21)."""
    return Extension(
        id=f"{SKILL_PREFIX}{name}",
        version=version,
        kind="action",
        prompt=SKILL_TEMPLATE,
        report_schema_text=json.dumps(CANONICAL[SKILL], indent=2),
        skill_body=body,
    )


def public_catalogue(extensions: Sequence[Extension]) -> list[dict[str, Any]]:
    """What a listing of extensions shows."""
    return [
        {
            "id": extension.id,
            "kind": extension.kind,
            "version": extension.version,
            "mode": extension.mode,
            "enabled": extension.enabled,
            "estimateSeconds": extension.estimate_seconds,
            "problem": extension.problem,
        }
        for extension in extensions
    ]

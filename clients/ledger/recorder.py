"""Recording: one durable file an event, under the producer's lock (spec action-ledger 8)."""

import os
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from enum import Enum
from typing import Any, Protocol, Unpack

from moorage.protocols.ledger.canonical import Json
from moorage.protocols.ledger.derivation import UNSET, derived_input, phase_transition
from moorage.protocols.ledger.events import Event, build_event
from moorage.protocols.ledger.inputs import Action, EventOptions, Evidence, Learning, Privacy, ReceiptOptions, Subject
from moorage.protocols.ledger.markers import PRODUCER_LOCK
from moorage.protocols.ledger.parts import producer_record
from moorage.protocols.ledger.producers import is_enabled, partition_date, workflow_producer
from moorage.protocols.ledger.refusals import LedgerRefusal
from moorage.protocols.ledger.timestamps import millisecond_text

from .files import TrustedRoot
from .locks import Waiting, held_lock
from .mutations import Mutation, MutationContext, Receipts
from .spool import has_event, lock_path, read_seal, write_event, write_marker


class ProjectionSink(Protocol):
    """What takes an event for live delivery once it is durable."""

    def submit(self, recorder: "Recorder", event: Event) -> None:
        """Queues `event`; never raises and never waits for the network."""
        ...


def wall_clock_ms() -> int:
    """Milliseconds since the epoch."""
    return time.time_ns() // 1_000_000


def plain(value: Json) -> Json:
    """`value` with enum members and tuples turned into the texts and lists that they stand for."""
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, Mapping):
        return {plain(key): plain(member) for key, member in value.items()}
    if isinstance(value, list | tuple):
        return [plain(member) for member in value]
    return value


class Recorder:
    """Records events of one workflow run below one spool root.

    `environment` is read at every call, as the run's settings; `now_ms` is the writer's clock. `projections` gets
    each durable event, when a live copy is wanted. Several threads and processes may record at once.
    """

    def __init__(
        self,
        root: TrustedRoot | str,
        *,
        environment: Mapping[str, str] | None = None,
        now_ms: Callable[[], int] = wall_clock_ms,
        projections: ProjectionSink | None = None,
        waiting: Waiting | None = None,
    ) -> None:
        self.root = TrustedRoot(root) if isinstance(root, str) else root
        self.environment: Mapping[str, str] = os.environ if environment is None else environment
        self.now_ms = now_ms
        self.waiting = waiting
        self._projections = projections
        # Whether a mutation of this recorder was accepted or of unknown outcome: what later terminals must report.
        self.mutated = False

    @property
    def enabled(self) -> bool:
        """Whether this environment records at all."""
        return is_enabled(self.environment)

    def record_action_event(
        self,
        *,
        scope: str,
        identity: Json,
        type: str,
        component: str,
        subject: Subject | Mapping[str, Any],
        action: Action | Mapping[str, Any],
        operation: str | None = None,
        operation_identity: Json = UNSET,
        attempt_identity: Json = UNSET,
        parent_event_id: str | None = None,
        phase_seq: int = 1,
        idempotency_identity: Json = UNSET,
        learning: Learning | Mapping[str, Any] | None = None,
        evidence: Sequence[Evidence | Mapping[str, Any]] | None = None,
        attributes: Mapping[str, Any] | None = None,
        privacy: Privacy | Mapping[str, Any] | None = None,
        occurred_at: str = UNSET,
    ) -> Event | None:
        """Records one event and returns it as stored: the first writer's, on replay. None when recording is off.

        `subject`, `action`, `learning`, `evidence` and `privacy` have the camelCase members of spec action-ledger 3;
        enum members count as their values. Identities are plain JSON trees that are hashed and never stored. An
        action with `mutation` true needs `idempotency_identity`. Nothing is written when the event is refused.
        """
        if not self.enabled:
            return None
        # a default that is UNSET stays it: `plain` leaves what it does not know as it is
        given = derived_input(
            producer=workflow_producer(self.environment, component),
            scope=str(plain(scope)),
            identity=plain(identity),
            type=str(plain(type)),
            subject=plain(subject),
            action=plain(action),
            operation=operation,
            operation_identity=plain(operation_identity),
            attempt_identity=plain(attempt_identity),
            parent_event_id=parent_event_id,
            phase_seq=phase_seq,
            idempotency_identity=plain(idempotency_identity),
            learning=plain(learning),
            evidence=plain(evidence),
            attributes=plain(attributes),
            privacy=plain(privacy),
        )
        if occurred_at is not UNSET:
            given["occurredAt"] = occurred_at
        event = build_event(given, recorded_at=millisecond_text(self.now_ms()))
        return self.store(event, partition_date(self.environment))

    def record_phase_event(
        self,
        *,
        phase: str,
        status: str,
        identity: Json,
        component: str,
        subject: Subject | Mapping[str, Any],
        retryable: bool,
        mutation: bool,
        reason_code: str | None = None,
        **options: Unpack[EventOptions],
    ) -> Event | None:
        """Records a transition of a phase: scope, type and action name are the phase.

        `options` are those of `record_action_event`. Raises phase-type, phase-status, phase-reason for words outside
        the vocabulary (`vocabulary.Phase`, `Status`, `Reason`).
        """
        if not self.enabled:
            return None
        transition = phase_transition(
            str(plain(phase)),
            str(plain(status)),
            plain(identity),
            retryable=retryable,
            mutation=mutation,
            reason_code=None if reason_code is None else str(plain(reason_code)),
        )
        return self.record_action_event(**transition, component=component, subject=subject, **options)

    def store(self, event: Event, date: str) -> Event:
        """Spools a built event under its producer's lock: seal check, marker, file, projection (spec 8, step 5)."""
        with held_lock(self.root, lock_path(event.producer), PRODUCER_LOCK, self.waiting):
            return self.store_locked(event, date)

    def store_locked(self, event: Event, date: str) -> Event:
        """`store` for a caller that holds the producer's lock."""
        if read_seal(self.root, event.producer) is not None and not has_event(self.root, event):
            raise LedgerRefusal(
                "sealed", "the producer is finalised; record under a new invocation identity", event.event_id
            )
        write_marker(self.root, event.producer, date)
        stored, _ = write_event(self.root, event)
        if self._projections is not None:
            self._projections.submit(self, stored)
        return stored

    def mutation(
        self,
        *,
        phase: str,
        identity: Json,
        idempotency_identity: Json = UNSET,
        component: str,
        subject: Subject | Mapping[str, Any],
        dispatch: bool = False,
        rejected_on: tuple[type[BaseException], ...] = (),
        **options: Unpack[ReceiptOptions],
    ) -> AbstractContextManager[Mutation]:
        """Surrounds one outside write with durable receipts: `with recorder.mutation(…) as write:`.

        `identity` differs for every try, `idempotency_identity` names the effect and is the same for all of them.
        `dispatch` is for a workflow dispatch. An exception of `rejected_on` means that nothing was written, any other
        that the outcome is unknown; both go on to the caller. Raises missing-idempotency.
        """
        if idempotency_identity is UNSET:
            raise LedgerRefusal("missing-idempotency", "a mutation names its outside effect", "idempotency_identity")
        receipts = Receipts(phase, identity, idempotency_identity, component, plain(subject), options)
        return MutationContext(self, receipts, "dispatch" if dispatch else "mutation", rejected_on)

    def producer(self, component: str) -> dict[str, Any]:
        """The stored producer object of this run and component."""
        return producer_record(workflow_producer(self.environment, component))


def record_action_event(root: TrustedRoot | str, **options: Any) -> Event | None:
    """`Recorder(root).record_action_event(**options)`, for callers that record once."""
    return Recorder(root).record_action_event(**options)


def record_phase_event(root: TrustedRoot | str, **options: Any) -> Event | None:
    """`Recorder(root).record_phase_event(**options)`, for callers that record once."""
    return Recorder(root).record_phase_event(**options)

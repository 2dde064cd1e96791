"""The one object of the state plane: instance `global`, class `ExactReviewQueue`.

Records, cursors, the writer lease, command intakes and the review queue are one object with a module of code for each
subject, because direct publication must commit the record tuple and the end of the lease together (architecture
4, spec state-plane-storage 1). Two objects would need an idempotent, resumable step between them on the hottest
path; one object needs a transaction. What is given up is spreading those subjects over several objects, which the
reference does not do either. This class only puts the subjects together: a line for the mixin, a line for the
store.
"""

from typing import Any

from ..runtime import DurableObject
from .artifact_receipts import ArtifactReceiptMethods, ArtifactReceiptStore
from .clock import clock_of
from .codehost.configured import configured_code_host
from .cursors import CursorMethods, CursorStore
from .queue.service import ReviewQueueMethods
from .records import RecordMethods, Records
from .snapshot_upload_rows import SnapshotUploads
from .snapshot_uploads import SnapshotUploadMethods
from .snapshots import Snapshots
from .state_writer import StateWriter, StateWriterMethods, terms_of
from .store_calls import artifact_operations, call, intake_operations

RETIRED_TABLES = (
    "state_append_window",
    "state_append_receipts",
    "state_append_drains",
    "state_append_meta",
    "state_append_dead_letters",
    "exact_review_review_telemetry",
)
"""Tables of the retired projection into Git and of review telemetry: dropped outright, their data is not carried over
(spec state-plane-storage 7)."""


def drop_retired_tables(storage: Any) -> None:
    """Drops the tables of earlier releases that nothing reads any more."""
    for table in RETIRED_TABLES:
        storage.sql.exec(f'DROP TABLE IF EXISTS "{table}"')


class ExactReviewQueue(
    CursorMethods,
    RecordMethods,
    SnapshotUploadMethods,
    StateWriterMethods,
    ArtifactReceiptMethods,
    ReviewQueueMethods,
    DurableObject,
):
    """See the module. Tables are made, and upgraded, at construction."""

    def __init__(self, ctx: Any, env: Any) -> None:
        super().__init__(ctx, env)
        now = clock_of(ctx)
        drop_retired_tables(ctx.storage)
        self.now = now
        self.cursors = CursorStore(ctx.storage, now)
        self.records = Records(ctx.storage, now)
        self.snapshots = Snapshots(ctx.storage)
        self.snapshot_uploads = SnapshotUploads(ctx.storage, now)
        self.state_writer = StateWriter(ctx.storage, now, terms_of(env))
        self.artifact_receipts = ArtifactReceiptStore(ctx.storage, getattr(env, "STATE_SNAPSHOTS", None))
        self.open_queue(ctx, env, now, configured_code_host(env, now))

    async def call_store(self, store: str, op: str, args: list[Any]) -> dict[str, Any]:
        """A recorded store call, for the test hook alone; nothing that is served reaches it."""
        operations = {
            "artifact-receipts": artifact_operations(self.artifact_receipts),
            "command-intake": intake_operations(self.command_intakes),
        }
        return await call(operations[store], op, args)

    def next_wake(self) -> int | None:
        """When the review queue, or the clean-up of a snapshot upload, is next due by itself; or None."""
        bound = getattr(self.env, "STATE_SNAPSHOTS", None) is not None
        times = (super().next_wake(), self.snapshot_uploads.next_due() if bound else None)
        return min((time for time in times if time is not None), default=None)

    async def uploads_changed(self) -> None:
        """Sets the alarm for the clean-up of a new upload."""
        await self.reschedule()

    async def alarm(self, info: Any = None) -> None:
        """What is due by itself: snapshot uploads that ran out, and everything of the review queue."""
        await self.clean_snapshot_uploads()
        await self.run_alarm()

"""The built-in publish stage: the commit, then the clean-up that it authorises."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeVar

from moorage.protocols.sessions import SessionManifest
from moorage.protocols.sessions import cleanup as cleanup_rules
from moorage.protocols.sessions import commits as rules
from moorage.protocols.sessions.commits import Place
from moorage.protocols.sessions.documents import builtins
from moorage.protocols.sessions.lifecycle import Result, bounded

from .cleaning import clean
from .objects import Objects
from .publishing import Published, publish
from .reading import read_current
from .stages import StageContext
from .store import LocalStore

T = TypeVar("T")
Open = Callable[[], Awaitable[Objects]]
Root = Literal["workdir", "spool"]
MAX_LEFT = 16
"""Targets that stay incomplete and are named in the record of the stage; the obligation has all of them."""


@dataclass(frozen=True, slots=True)
class PublishStage:
    """Publishes what the manifest holds, under `place`, with the session's publish lock held.

    `open_objects` opens the store. `holder` names this publisher, uniquely. `cleanup`: what goes after a verified
    commit, below `roots`. `step` hears of each step; tests stop the process there.
    """

    name: str
    folder: Path
    store: LocalStore
    place: Place
    open_objects: Open
    holder: str
    cleanup: Sequence[tuple[Root, str]] = ()
    roots: Mapping[str, Path] | None = None
    include_inputs: bool = False
    step: Callable[[str], None] = lambda name: None

    def __call__(self, context: StageContext) -> Result:
        """Raises Busy, PublishRefused, ReadRefused, SaveFailed, and whatever the store raises."""
        manifest = context.manifest
        candidates = rules.candidates(manifest, self.store.pipeline, include_inputs=self.include_inputs)
        with self.store.publishing():
            published = self._with_objects(
                lambda objects: publish(
                    objects, self.place, context.run_id, self.folder, candidates, holder=self.holder, step=self.step
                )
            )
            context.say(f"published run {context.run_id}: {len(candidates)} artifacts")
            left = self._clean(context, published)
        metadata: dict[str, Any] = {
            "commit": builtins(published.identity),
            "artifacts": len(candidates),
            "unchanged": published.unchanged,
        }
        if left:
            # bounded: what is committed must not fail for the length of its metadata
            metadata["cleanup_incomplete"] = [bounded(line, 200) for line in left[:MAX_LEFT]]
            metadata["cleanup_incomplete_count"] = len(left)
            for line in left:
                context.say(f"not cleaned up: {line}")
        return Result(metadata=metadata)

    def _clean(self, context: StageContext, published: Published) -> list[str]:
        """An earlier obligation first, under the run that authorised it; then, if that is complete, this one's."""
        roots = self.roots or {"workdir": self.folder}
        manifest, left = clean(context.manifest, roots, context.save, context.now, self.step)
        if left:
            return left
        recorded = cleanup_rules.record(manifest, context.run_id, published.identity, self.cleanup)
        if recorded == manifest:
            return left
        manifest = context.save(recorded)
        self.step("obligation")
        return clean(manifest, roots, context.save, context.now, self.step)[1]

    def validate(self, manifest: SessionManifest) -> bool:
        """The resume validator: the verified current commit is the recorded one, and nothing is left to clean up."""
        record = manifest.stages.get(self.name)
        if record is None or not isinstance(record.metadata, dict) or cleanup_rules.incomplete(manifest):
            return False
        current = self._with_objects(lambda objects: read_current(objects, self.place))
        return current is not None and builtins(current.pointer.commit) == record.metadata.get("commit")

    def _with_objects(self, work: Callable[[Objects], Awaitable[T]]) -> T:
        return run_with(self.open_objects, work)


def run_with(open_objects: Open, work: Callable[[Objects], Awaitable[T]]) -> T:
    """The result of `work` on a store that is opened for it and closed after it."""

    async def whole() -> T:
        objects = await open_objects()
        try:
            return await work(objects)
        finally:
            await objects.close()

    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(whole())
    # called from a program's own loop, which this call holds up: another loop, in a thread of its own
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(lambda: asyncio.run(whole())).result()

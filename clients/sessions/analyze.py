"""The artifact stage: reconciliation, one checkpoint for each artifact made, the retry collection on an error.

Rules: `moorage.protocols.sessions.artifacts`; order: spec session-manifest 8.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from msgspec import UnsetType

from moorage.protocols.sessions import SessionManifest
from moorage.protocols.sessions import artifacts as rules
from moorage.protocols.sessions.artifacts import Configuration, Configured
from moorage.protocols.sessions.documents import AnalyzeArtifact
from moorage.protocols.sessions.lifecycle import Result

from .errors import SessionFailure, describe
from .files import is_intact, measured
from .stages import StageContext

Make = Callable[[StageContext, Configured], Mapping[str, Any] | None]
"""Makes one artifact at its configured path; returns bounded, non-secret provenance or None."""


@dataclass(frozen=True, slots=True)
class ArtifactStage:
    """The artifact stage over `folder`.

    `configure` resolves the artifacts with their present fingerprints, which may depend on what earlier stages left.
    `makes`: by key. `selected`: keys, None for all configured.
    """

    name: str
    folder: Path
    configure: Callable[[SessionManifest], Configuration]
    makes: Mapping[str, Make]
    selected: tuple[str, ...] | None = None

    def _configuration(self, manifest: SessionManifest) -> tuple[Configuration, tuple[str, ...]]:
        """The configuration and the closure of what is selected."""
        configuration = self.configure(manifest)
        missing = [key for key in configuration.artifacts if key not in self.makes]
        if missing:
            raise SessionFailure(f"artifact {missing[0]}: nothing is configured to make it")
        return configuration, configuration.closure(self.selected)

    def _records(self, manifest: SessionManifest) -> dict[str, AnalyzeArtifact]:
        record = manifest.stages.get(self.name)
        if record is None or not isinstance(record.analyze_artifacts, dict):
            return {}
        return record.analyze_artifacts

    def _intact(self, records: Mapping[str, AnalyzeArtifact]) -> set[str]:
        found = set()
        for key, record in records.items():
            output, size = record.output, record.output_size
            if isinstance(output, UnsetType) or isinstance(size, UnsetType):
                continue
            if is_intact(self.folder, output.path, output.sha256, size):
                found.add(key)
        return found

    def validate(self, manifest: SessionManifest) -> bool:
        """The resume validator: every artifact of the selected closure is usable and on disk."""
        configuration, selected = self._configuration(manifest)
        records = self._records(manifest)
        intact = self._intact(records)
        return all(
            key in intact and rules.is_usable(configuration.artifacts[key], records.get(key)) for key in selected
        )

    def __call__(self, context: StageContext) -> Result:
        """Makes what is not current of the selected closure, one checkpoint each; none may be needed.

        Raises what an artifact's making raised, or SaveFailed of a checkpoint, after the retry collection was handed
        over.
        """
        configuration, selected = self._configuration(context.manifest)
        run_id = context.run_id
        former = self._records(context.manifest)
        identities = {key: rules.identity(record) for key, record in former.items()}
        saved = former
        working = rules.reconciled(configuration, former, selected, self._intact(former), run_id, context.now())
        made = 0
        for key in selected:
            configured = configuration.artifacts[key]
            if rules.is_usable(configured, working.get(key)):
                continue
            context.say(f"artifact {key}")
            try:
                candidate = self._made(context, configuration, key, working, identities.get(key))
                context.checkpoint(candidate)
            except Exception as error:
                # of a failed checkpoint the candidate goes too: the new bytes on disk stay incidental
                context.install(rules.failed(configuration, working, key, describe(error), run_id, context.now()))
                raise
            working = saved = candidate
            made += 1
        if working != saved:
            context.checkpoint(working)
        outputs = rules.outputs(configuration, working)
        return Result(outputs, metadata={"artifacts_made": made, "artifacts_reused": len(selected) - made})

    def _made(
        self,
        context: StageContext,
        configuration: Configuration,
        key: str,
        working: Mapping[str, AnalyzeArtifact],
        former: tuple[Any, ...] | None,
    ) -> dict[str, AnalyzeArtifact]:
        configured = configuration.artifacts[key]
        provenance = self.makes[key](context, configured)
        found = measured(self.folder, configured.source_id, configured.path)
        if found.size == 0:
            raise SessionFailure(f"artifact {key}: its output {configured.path} is empty")
        return rules.completed(
            configuration,
            working,
            key,
            sha256=found.sha256,
            size=found.size,
            run_id=context.run_id,
            now=context.now(),
            provenance=provenance,
            former=former,
        )

"""Compares what a manifest records with what is on disk."""

from pathlib import Path

from msgspec import UnsetType

from moorage.protocols.sessions import Pipeline, SessionManifest, Status

from .files import is_intact


def differences(folder: Path, manifest: SessionManifest, pipeline: Pipeline) -> tuple[int, list[str]]:
    """The number of files compared, and one line for each that is missing or has other bytes.

    Outputs of succeeded stages, current artifacts, and durable artifacts whose path no stage has claimed since.
    Files that a finished clean-up has deleted are not missed.
    """
    expected: dict[str, tuple[str, str, int]] = {}
    for name in pipeline.order:
        record = manifest.stages.get(name)
        if record is None:
            continue
        if record.status is Status.SUCCEEDED:
            for output in record.outputs:
                expected[output.path] = (f"{name}/{output.id}", output.sha256, output.size)
        if isinstance(record.analyze_artifacts, dict):
            for key, artifact in record.analyze_artifacts.items():
                output_, size = artifact.output, artifact.output_size
                if not isinstance(output_, UnsetType) and not isinstance(size, UnsetType):
                    expected[output_.path] = (f"{name}/{key}", output_.sha256, size)
    for durable in manifest.artifacts:
        expected.setdefault(durable.path, (durable.id, durable.sha256, durable.size))
    gone = _cleaned(manifest)
    wrong = []
    checked = 0
    for path, (owner, sha256, size) in expected.items():
        if any(path == target or path.startswith(f"{target}/") for target in gone) and not (folder / path).exists():
            continue
        checked += 1
        if not is_intact(folder, path, sha256, size):
            wrong.append(f"{path}: it is missing or not what {owner} recorded")
    return checked, wrong


def _cleaned(manifest: SessionManifest) -> set[str]:
    cleanup = manifest.post_publish_cleanup
    if isinstance(cleanup, UnsetType):
        return set()
    return {target.path for target in cleanup.targets if target.completed and target.root == "workdir"}

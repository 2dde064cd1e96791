"""Extensions described by manifest files, and installed skills (spec job-lifecycle 21, 23)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from moorage.protocols.jobs.catalogue import KINDS, Extension
from moorage.protocols.jobs.engine import skill_extension
from moorage.protocols.jobs.errors import Refused
from moorage.protocols.jobs.manifests import ManifestError, parse_manifest

from .folder import JobsFolder
from .targets import parse_frontmatter, split_frontmatter

MANIFEST, PROMPT, SCHEMA = "manifest.json", "prompt.md", "report.schema.json"


class FileExtensions:
    """`extensions/<plugin>/<kind>s/<id>/manifest.json`, in the order of these paths."""

    def __init__(self, folder: JobsFolder) -> None:
        self._folder = folder

    def all(self) -> Sequence[Extension]:
        """Every extension. A manifest that is not usable is there with its `problem`."""
        found: list[Extension] = []
        for kind in KINDS:
            for file in sorted(self._folder.extensions.glob(f"*/{kind}s/*/{MANIFEST}")):
                plugin, name = file.parts[-4], file.parts[-2]
                found.append(_load(file, Extension(id=f"{plugin}/{name}", version="", kind=kind)))
        return found

    def skill(self, name: str) -> Extension | None:
        """An installed skill; its version is the `version` of its own header, else 0.0.0."""
        if not name or name.startswith(".") or "/" in name or "\\" in name:
            return None
        text = _text(self._folder.skills / name / "SKILL.md")
        if text is None:
            return None
        block, body = split_frontmatter(text)
        try:
            version = parse_frontmatter(block).get("version")
        except Refused:
            version = None
        return skill_extension(name, str(version) if version is not None else "0.0.0", body)

    def skills(self) -> Sequence[Extension]:
        """Every installed skill."""
        names = sorted(file.parent.name for file in self._folder.skills.glob("*/SKILL.md"))
        return [skill for name in names if (skill := self.skill(name)) is not None]


def _text(path: Path) -> str | None:
    try:
        return path.read_bytes().decode()
    except (OSError, UnicodeDecodeError):
        return None


def _load(file: Path, place: Extension) -> Extension:
    """The extension of a manifest; `place` is the id and kind that its folder says."""
    try:
        manifest = json.loads(file.read_bytes())
        extension = parse_manifest(manifest, _text(file.with_name(PROMPT)), _text(file.with_name(SCHEMA)))
    except (OSError, ValueError, RecursionError) as error:
        words = str(error) if isinstance(error, ManifestError) else f"{MANIFEST} cannot be read as JSON: {error}"
        return Extension(id=place.id, version="", kind=place.kind, problem=words)
    if (extension.id, extension.kind) != (place.id, place.kind):
        words = f"the manifest says {extension.kind} {extension.id}, its folder {place.kind} {place.id}"
        return Extension(id=place.id, version=extension.version, kind=place.kind, problem=words)
    return extension

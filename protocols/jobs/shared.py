"""What a shared queue keeps in place of files: bodies of `install`, `targets` and `agent`, checked
(spec job-lifecycle 23)."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec

from .catalogue import Extension, Target
from .engine import skill_extension
from .errors import Refused
from .hashes import text_hash
from .manifests import ManifestError, identity, parse_manifest
from .shapes import frontmatter_hash, row_of_target
from .wire import Body

AGENT_VERSION = 1
"""Version of the processing instructions. An agent with an older one is stale, and still served."""

Name = Annotated[str, msgspec.Meta(min_length=1, max_length=1000)]
SkillName = Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$")]


class InstalledExtension(Body, frozen=True):
    """One extension: its manifest, and the texts beside it as they are."""

    manifest: dict[str, Any]
    prompt: str | None = None
    report_schema: str | None = None

    def parse(self) -> Extension:
        """The extension, with a `problem` when its manifest is refused. Raises `ManifestError`."""
        return parse_manifest(self.manifest, self.prompt, self.report_schema)


class InstalledSkill(Body, frozen=True):
    """One skill: the version of its own header, and its body."""

    body: str
    version: str = "0.0.0"

    def parse(self, name: str) -> Extension:
        """The skill as an action."""
        return skill_extension(name, self.version, self.body)


class InstallBody(Body, frozen=True):
    """`install`: replaces all extensions, skills and settings of the queue."""

    extensions: list[InstalledExtension]
    skills: dict[SkillName, InstalledSkill] = {}
    config: dict[str, Any] = {}

    def check(self) -> None:
        """Raises `Refused("extension-invalid")` for a manifest without an identity, or one that is there twice."""
        seen: set[tuple[str, str]] = set()
        for index, entry in enumerate(self.extensions):
            try:
                key = identity(entry.manifest)
            except ManifestError as error:
                raise Refused("extension-invalid", f"extensions[{index}]: {error}") from error
            if key in seen:
                raise Refused("extension-invalid", f"extensions[{index}]: {key[1]} {key[0]} is there twice")
            seen.add(key)


class GivenTarget(Body, frozen=True):
    """One target with its body, which the queue keeps: there are no files to read it from later."""

    path: Name
    kind: Name
    provider: Name
    frontmatter: dict[str, Any] = {}
    annotations: dict[str, Any] = {}
    virtual: bool = False
    body: str | None = None

    def row(self) -> tuple[Any, ...]:
        """The bindings of `sql.UPSERT_NODE`. Raises `Refused("usage")` without a body and not `virtual`."""
        if self.body is None and not self.virtual:
            raise Refused("usage", f"{self.path}: a target has a body, or is virtual")
        digest = "" if self.body is None else text_hash(self.body)
        front = "" if self.body is None else frontmatter_hash(self.frontmatter)
        target = Target(self.path, self.kind, self.provider, digest, front, self.frontmatter, virtual=self.virtual)
        return row_of_target(target, self.annotations, self.body)


class TargetsBody(Body, frozen=True):
    """`targets`: adds or replaces these; with `replace` every other one is forgotten. `remove` forgets some."""

    targets: list[GivenTarget] = []
    replace: bool = False
    remove: list[Name] = []


class AgentBody(Body, frozen=True):
    """`agent`: an agent says that it processes the queue. 0 says that none does any more.

    An `agentEndpoint`, which an earlier protocol had, is ignored like every unknown member.
    """

    version: Annotated[int, msgspec.Meta(ge=0, le=1_000_000)] = AGENT_VERSION


class HeldClaimBody(Body, frozen=True):
    """`claim` over HTTP: `waitSeconds` holds the request until a job is there.

    The wait is cut at `routes.WAIT_LIMIT_SECONDS`. While it is held, expired jobs are reaped at their expiry, and
    every `interval` seconds if that is given.
    """

    filter: str | None = None
    wait_seconds: Annotated[float, msgspec.Meta(ge=0)] = 0
    interval: Annotated[int, msgspec.Meta(ge=1)] | None = None

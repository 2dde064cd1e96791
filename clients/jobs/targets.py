"""Targets that are files under a folder, as they were when `scan` last looked (spec job-lifecycle 23).

The queue stores hashes, never bodies: what is rendered is read at the submit, and refused when it drifted.
Settings, all under `jobs.targets`: `include` (globs, `**/*.md`), `rules` (`{"match": glob, "kind", "provider"}`, the
first match wins, `markdown` otherwise), `virtual` (names that have no content), `followExternalSymlinks`.
"""

from __future__ import annotations

import fnmatch
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from moorage.protocols.jobs import sql
from moorage.protocols.jobs.catalogue import Body, Target, matches_id
from moorage.protocols.jobs.errors import Refused
from moorage.protocols.jobs.hashes import text_hash
from moorage.protocols.jobs.settings import jobs_settings
from moorage.protocols.jobs.shapes import frontmatter_hash, row_of_target, target_of_row
from moorage.protocols.jobs.steps import Row, Statement, Steps

from .database import QueueDatabase
from .folder import JobsFolder, check_unicode, read_json
from .sidecars import read_annotations

FENCE = "---"


def split_frontmatter(text: str) -> tuple[str | None, str]:
    """The frontmatter's text, None without a block, and the body: everything after the closing line."""
    lines = text.splitlines(keepends=True)
    if not lines or lines[0].rstrip("\r\n") != FENCE:
        return None, text
    for index, line in enumerate(lines[1:], 1):
        if line.rstrip("\r\n") == FENCE:
            return "".join(lines[1:index]), "".join(lines[index + 1 :])
    return None, text


def parse_frontmatter(text: str | None) -> dict[str, Any]:
    """The members of a frontmatter block. Raises `Refused("unreadable")` when it is no YAML mapping."""
    if text is None or not text.strip():
        return {}
    try:
        import yaml
    except ImportError as error:
        raise Refused("unreadable", "frontmatter needs the extra `jobs`: pip install moorage[jobs]") from error
    try:
        value = yaml.safe_load(text)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise Refused("unreadable", f"the frontmatter is not YAML: {str(error).splitlines()[0]}") from error
    if not isinstance(value, dict):
        raise Refused("unreadable", "the frontmatter must be a mapping")
    members = json.loads(json.dumps({str(key): item for key, item in value.items()}, default=str))
    try:
        check_unicode(members)
    except ValueError as error:
        raise Refused("unreadable", f"the frontmatter: {error}") from error
    return dict(members)


@dataclass(frozen=True, slots=True)
class Seen:
    """One target as its files are now. `body` is None for a virtual one."""

    target: Target
    annotations: Mapping[str, Any]
    body: str | None


@dataclass(frozen=True, slots=True)
class Scan:
    """What a scan found. `problems` are for a person; none stops the scan."""

    targets: int
    problems: tuple[str, ...]


class FolderFiles:
    """The files of a project that are targets, as they are now."""

    def __init__(self, folder: JobsFolder) -> None:
        self._folder = folder

    def _settings(self) -> Mapping[str, Any]:
        value = jobs_settings(self._folder.config()).get("targets", {})
        if not isinstance(value, dict):
            raise Refused("invalid-setting", "jobs.targets must be an object")
        return value

    def read(self, path: str) -> tuple[str | None, str | None]:
        """A file's text, or None and why it cannot be had."""
        file = self._folder.root / path
        try:
            if not self._settings().get("followExternalSymlinks") and not _inside(file, self._folder.root):
                return None, "a symbolic link out of the folder, which jobs.targets.followExternalSymlinks forbids"
            return file.read_bytes().decode(), None
        except FileNotFoundError:
            return None, "broken symbolic link" if file.is_symlink() else "file deleted"
        except PermissionError:
            return None, "permission denied"
        except UnicodeDecodeError:
            return None, "the file is not UTF-8"
        except OSError as error:
            return None, error.strerror or str(error)

    def _paths(self) -> Iterator[str]:
        seen: set[str] = set()
        include = self._settings().get("include", ["**/*.md"])
        if not isinstance(include, list) or not all(isinstance(item, str) for item in include):
            raise Refused("invalid-setting", "jobs.targets.include must be a list of globs")
        for pattern in include:
            for file in self._folder.root.glob(pattern):
                parts = file.relative_to(self._folder.root).parts
                if not any(part.startswith(".") for part in parts) and (file.is_file() or file.is_symlink()):
                    seen.add("/".join(parts))
        yield from sorted(seen)

    def _kind(self, path: str) -> tuple[str, str]:
        for rule in self._settings().get("rules", []):
            if not isinstance(rule, dict) or not isinstance(rule.get("match"), str):
                raise Refused("invalid-setting", "jobs.targets.rules: every rule is an object with match, a glob")
            if fnmatch.fnmatchcase(path, rule["match"]):
                return str(rule.get("kind", "markdown")), str(rule.get("provider", "markdown"))
        return "markdown", "markdown"

    def look(self, problems: list[str]) -> Iterator[Seen]:
        """Every target, by path, then the virtual ones. What is wrong with a file is appended to `problems`."""
        for path in self._paths():
            if not path.isprintable() or path != path.encode("utf-8", "replace").decode():
                problems.append(f"{path!r}: a name with characters that cannot be shown is left out")
                continue
            text, cause = self.read(path)
            if text is None:
                problems.append(f"{path}: {cause}")
                continue
            block, body = split_frontmatter(text)
            held: dict[str, Any] = {}
            frontmatter: dict[str, Any] = {}
            try:
                frontmatter = parse_frontmatter(block)
            except Refused as error:
                problems.append(f"{path}: {error.message}")
            try:
                held = read_annotations(self._folder.root, path)
            except Refused as error:
                problems.append(error.message)
            kind, provider = self._kind(path)
            target = Target(path, kind, provider, text_hash(body), frontmatter_hash(frontmatter), frontmatter)
            yield Seen(target, held, body)
        for name in self._settings().get("virtual", []):
            kind, provider = self._kind(name)
            yield Seen(Target(name, kind, provider, "", "", virtual=True), {}, None)


class FileTargets:
    """Files under a folder, by their path from it with forward slashes, as the last scan stored them."""

    def __init__(self, folder: JobsFolder, database: QueueDatabase) -> None:
        self._folder = folder
        self._files = FolderFiles(folder)
        self._database = database

    def get(self, path: str) -> Target | None:
        """The target as the last scan saw it."""
        rows = self._database.query(_rows(Statement(sql.NODE, (path,))))
        return target_of_row(rows[0]) if rows else None

    def list(self) -> Sequence[Target]:
        """Every scanned target, by path."""
        return [target_of_row(row) for row in self._database.query(_rows(Statement(sql.NODES)))]

    def read_body(self, path: str) -> Body:
        """The file's body now, or why it cannot be had."""
        text, cause = self._files.read(path)
        return Body(None, cause) if text is None else Body(split_frontmatter(text)[1])

    def body_hash(self, text: str) -> str:
        """SHA-256 of the text after the frontmatter block."""
        return text_hash(text)

    def issues(self, path: str, analyzer_ids: Sequence[str]) -> Sequence[Mapping[str, Any]]:
        """The issues of `issues.json` for this target: `{"node", "analyzerId", "severity", "message", "data"}`.

        An issue's analyzer is stored short, an action names it qualified (spec 12).
        """
        found: list[Mapping[str, Any]] = []
        stored = read_json(self._folder.issues_file, [])
        for issue in stored if isinstance(stored, list) else ():
            if not isinstance(issue, dict) or issue.get("node") != path:
                continue
            short = str(issue.get("analyzerId", ""))
            if any(name == short or matches_id(short, name) or matches_id(name, short) for name in analyzer_ids):
                data = issue.get("data")
                shown = dict(data) if isinstance(data, dict) else {}
                found.append({**shown, "severity": issue.get("severity"), "message": issue.get("message")})
        return found

    def scan(self) -> Scan:
        """Looks at every file and stores what is there now; what is gone is forgotten. One transaction."""
        problems: list[str] = []
        rows = [row_of_target(seen.target, seen.annotations, None) for seen in self._files.look(problems)]
        self._database.transact(_replace(rows))
        return Scan(len(rows), tuple(problems))


def _inside(file: Path, root: Path) -> bool:
    return file.resolve().is_relative_to(root.resolve())


def _rows(statement: Statement) -> Steps[list[Row]]:
    return (yield statement)


def _replace(rows: list[tuple[Any, ...]]) -> Steps[None]:
    yield Statement("DELETE FROM scan_nodes")
    for row in rows:
        yield Statement(sql.UPSERT_NODE, row)

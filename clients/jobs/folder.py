"""Where a project keeps its queue: everything under `.moorage/jobs` of the project's folder."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from moorage.protocols.jobs.errors import Refused


@dataclass(frozen=True, slots=True)
class JobsFolder:
    """The files of one project's queue."""

    root: Path

    @property
    def home(self) -> Path:
        """The folder that holds all of them."""
        return self.root / ".moorage" / "jobs"

    @property
    def database(self) -> Path:
        """The queue itself."""
        return self.home / "queue.sqlite"

    @property
    def config_file(self) -> Path:
        """Settings, a JSON object with the member `jobs`."""
        return self.home / "config.json"

    @property
    def extensions(self) -> Path:
        """Manifests: `<plugin>/<kind>s/<id>/manifest.json` with `prompt.md` and `report.schema.json` beside it."""
        return self.home / "extensions"

    @property
    def skills(self) -> Path:
        """Installed skills: `<name>/SKILL.md`."""
        return self.home / "skills"

    @property
    def agent_file(self) -> Path:
        """The instructions of the processing agent; their being there is what the gate looks at."""
        return self.home / "process-jobs.md"

    @property
    def issues_file(self) -> Path:
        """Open issues of deterministic analyzers, a JSON list."""
        return self.home / "issues.json"

    @property
    def operations_log(self) -> Path:
        """One JSON line for each refused transition and each cascade."""
        return self.home / "operations.log"

    def config(self) -> Mapping[str, Any]:
        """The settings, empty without a file. Raises `Refused("invalid-setting")`."""
        value = read_json(self.config_file, {})
        if not isinstance(value, dict):
            raise Refused("invalid-setting", f"{self.config_file} must hold a JSON object")
        return value

    def log(self, op: str, detail: Mapping[str, Any], *, now: int) -> None:
        """Appends one line to the operations log; a log that cannot be written stops nothing."""
        line = json.dumps({"timestamp": now, "op": op, **detail}) + "\n"
        try:
            with self.operations_log.open("a", encoding="utf-8") as file:
                file.write(line)
        except OSError:
            return


def read_json(path: Path, default: Any) -> Any:
    """The JSON value of a file, `default` without one. Raises `Refused("invalid-setting")` naming the file."""
    try:
        value = json.loads(path.read_bytes())
        check_unicode(value)
    except FileNotFoundError:
        return default
    except (OSError, ValueError, RecursionError) as error:
        raise Refused("invalid-setting", f"{path} cannot be read as JSON: {error}") from error
    return value


def check_unicode(value: Any) -> None:
    """Raises ValueError when a text in a JSON value holds half of a surrogate pair, which nothing can store."""
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise ValueError("a text holds half of a surrogate pair") from None


def write_whole(path: Path, text: str) -> None:
    """Replaces a file in one step: whoever reads it sees the old text or the new one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8", newline="") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(name, (path.stat().st_mode & 0o7777) if path.exists() else 0o644)
        os.replace(name, path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise

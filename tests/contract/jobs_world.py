"""The surroundings of a job sequence: a project's folder laid from the fixture, and the command run in it."""

import io
import json
import sqlite3
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import click

from moorage.clients.jobs.cli import command
from moorage.clients.jobs.environment import Environment
from moorage.clients.jobs.folder import JobsFolder
from moorage.clients.jobs.local import Ambient, LocalQueue
from moorage.clients.jobs.presence import FilePresence
from moorage.clients.jobs.sidecars import sidecar_of

Row = dict[str, Any]
TABLES = {
    "jobs": ("state_jobs", ("id",)),
    "contents": ("state_job_contents", ("content_hash",)),
    "executions": ("state_executions", ("id",)),
    "summaries": ("state_summaries", ("node_id", "summarizer_action_id")),
    "findings": ("state_findings", ("id",)),
}


def camel(name: str) -> str:
    head, *rest = name.split("_")
    return head + "".join(part.title() for part in rest)


@dataclass(frozen=True)
class Done:
    """One run of the command."""

    exit: int
    stdout: str
    stderr: str


@dataclass
class World:
    """A project's folder. The clock stands at `now`; waiting moves it, so that no test waits for real."""

    root: Path
    fixture: dict[str, Any]
    now: int = 0
    waited: float = 0.0
    config: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.folder = JobsFolder(self.root)
        self.merge_config(self.fixture["config"])
        for target in self.fixture["targets"]:
            self.write(target["path"], target["text"])
        for extension in self.fixture["extensions"]:
            self._lay(extension)
        FilePresence(self.folder).install()
        self.scan()

    # -- surroundings -------------------------------------------------------------------------------------------

    def write(self, path: str, text: str) -> None:
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(text.encode())

    def scan(self) -> None:
        with LocalQueue.open(self.root, ambient=self.ambient(), create=True) as queue:
            assert queue.scan().problems == ()

    def merge_config(self, settings: dict[str, Any]) -> None:
        def merge(into: dict[str, Any], more: dict[str, Any]) -> None:
            for key, value in more.items():
                if isinstance(value, dict) and isinstance(into.get(key), dict):
                    merge(into[key], value)
                else:
                    into[key] = value

        merge(self.config, settings)
        self.folder.home.mkdir(parents=True, exist_ok=True)
        self.folder.config_file.write_text(json.dumps(self.config))

    def home_of(self, qualified: str, kind: str | None = None) -> Path:
        plugin, _, name = qualified.partition("/")
        kinds = [kind] if kind else ["action", "analyzer"]
        found = [self.folder.extensions / plugin / f"{each}s" / name for each in kinds]
        return next((path for path in found if path.exists()), found[0])

    def _lay(self, extension: dict[str, Any]) -> None:
        home = self.home_of(extension["id"], extension["kind"])
        home.mkdir(parents=True)
        names = {"estimateSeconds": "probExpectedDurationSeconds", "nodeless": "probNodeless"}
        manifest = {
            names.get(key, key): value for key, value in extension.items() if key not in ("prompt", "reportSchema")
        }
        (home / "manifest.json").write_text(json.dumps(manifest))
        if "prompt" in extension:
            (home / "prompt.md").write_text(extension["prompt"])
        if "reportSchema" in extension:
            (home / "report.schema.json").write_text(json.dumps(extension["reportSchema"], indent=2))

    def set_up(self, step: dict[str, Any]) -> None:
        getattr(self, f"_setup_{step['setup']}")(step)

    def _setup_config(self, step: dict[str, Any]) -> None:
        self.merge_config(step["settings"])

    def _setup_write_target(self, step: dict[str, Any]) -> None:
        self.write(step["path"], step["text"])

    _setup_write_file = _setup_write_target

    def _setup_remove_target(self, step: dict[str, Any]) -> None:
        (self.root / step["path"]).unlink()

    def _setup_rescan(self, step: dict[str, Any]) -> None:
        self.scan()

    def _setup_set_tags(self, step: dict[str, Any]) -> None:
        sidecar_of(self.root, step["path"]).write_text(json.dumps({"annotations": {"tags": step["tags"]}}))
        self.scan()

    def _setup_uninstall_agent(self, step: dict[str, Any]) -> None:
        FilePresence(self.folder).remove()

    def _setup_stale_agent(self, step: dict[str, Any]) -> None:
        self.folder.agent_file.write_text("instructions of an earlier version")

    def _setup_edit_template(self, step: dict[str, Any]) -> None:
        file = self.home_of(step["extension"]) / "prompt.md"
        file.write_text(file.read_text() + "Be brief.\n")

    def _setup_edit_schema(self, step: dict[str, Any]) -> None:
        file = self.home_of(step["extension"]) / "report.schema.json"
        file.write_text(json.dumps({**json.loads(file.read_text()), "description": "edited"}, indent=2))

    def _setup_bump_version(self, step: dict[str, Any]) -> None:
        file = self.home_of(step["extension"]) / "manifest.json"
        file.write_text(json.dumps({**json.loads(file.read_text()), "version": step["version"]}))

    def _setup_delete_content(self, step: dict[str, Any]) -> None:
        self._execute(
            "DELETE FROM state_job_contents WHERE content_hash = (SELECT content_hash FROM state_jobs WHERE id = ?)",
            step["job"],
        )

    def _setup_delete_job_row(self, step: dict[str, Any]) -> None:
        self._execute("DELETE FROM state_jobs WHERE id = ?", step["job"])

    def _setup_delete_database(self, step: dict[str, Any]) -> None:
        for suffix in ("", "-wal", "-shm"):
            self.folder.database.with_name(self.folder.database.name + suffix).unlink(missing_ok=True)

    def _execute(self, sql: str, *bindings: Any) -> None:
        connection = sqlite3.connect(self.folder.database)
        try:
            with connection:
                connection.execute(sql, bindings)
        finally:
            connection.close()

    # -- the command --------------------------------------------------------------------------------------------

    def ambient(self) -> Ambient:
        def sleep(seconds: float) -> None:
            self.waited += seconds

        return Ambient(now=lambda: self.now + int(self.waited * 1000), monotonic=lambda: self.waited, sleep=sleep)

    backend: ClassVar[Any] = None
    """What the command opens in place of the folder's queue; None for that."""

    def run(self, argv: list[str], stdin: str | None = None) -> Done:
        out, err = io.StringIO(), io.StringIO()
        environment = Environment(
            root=self.root,
            working=self.root,
            ambient=self.ambient(),
            stdin=lambda: stdin or "",
            stdout=out,
            stderr=err,
            interactive=lambda: False,
            backend=self.backend,
        )
        return Done(invoke(command, argv, environment), out.getvalue(), err.getvalue())

    def run_parallel(self, argv: list[str], stdin: str | None, count: int) -> list[Done]:
        with ThreadPoolExecutor(count) as pool:
            return list(pool.map(lambda _: self.run(argv, stdin), range(count)))

    # -- the tables ---------------------------------------------------------------------------------------------

    def tables(self) -> dict[str, dict[tuple[Any, ...], Row]]:
        """Every table by key, rows with camelCase names; empty without a database."""
        if not self.folder.database.exists():
            return {name: {} for name in TABLES}
        connection = sqlite3.connect(self.folder.database)
        connection.row_factory = sqlite3.Row
        try:
            return {
                name: {
                    tuple(row[part] for part in key): {camel(column): row[column] for column in row.keys()}  # noqa: SIM118
                    for row in connection.execute(f"SELECT * FROM {table} ORDER BY rowid")
                }
                for name, (table, key) in TABLES.items()
            }
        finally:
            connection.close()


def invoke(group: click.Group, argv: list[str], environment: Environment) -> int:
    """The exit status of the command."""
    try:
        status = group.main(argv, prog_name="moorage jobs", obj=environment, standalone_mode=False)
    except click.ClickException as error:
        environment.err(error.format_message())
        return error.exit_code
    except click.Abort:
        return 1
    return status if isinstance(status, int) else 0


Maker = Callable[[Path, dict[str, Any]], World]


def read_sequences(path: Path) -> Iterator[dict[str, Any]]:
    """The sequences of a file."""
    yield from json.loads(path.read_text())["sequences"]

"""What a shared job queue keeps where a local one reads files: targets with their bodies, extensions, skills,
settings and the agent, in the tables of the `JobQueue` object."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from moorage.protocols.jobs import shared, sql
from moorage.protocols.jobs.catalogue import Body, Extension, Target
from moorage.protocols.jobs.errors import Refused
from moorage.protocols.jobs.hashes import text_hash
from moorage.protocols.jobs.ports import Presence
from moorage.protocols.jobs.records import parse_record, record_target
from moorage.protocols.jobs.settings import jobs_settings
from moorage.protocols.jobs.shapes import target_of_row
from moorage.protocols.jobs.steps import Row, Statement, Steps, run_steps
from moorage.protocols.jobs.wire import parse

T = TypeVar("T")

INSTALLED = """CREATE TABLE IF NOT EXISTS installed (
  kind TEXT NOT NULL, position INTEGER NOT NULL, name TEXT NOT NULL, value_json TEXT NOT NULL,
  PRIMARY KEY (kind, name))"""
KNOWN = "CREATE TABLE IF NOT EXISTS known_queues (name TEXT PRIMARY KEY)"
EXTENSION, SKILL, CONFIG, AGENT = "extension", "skill", "config", "agent"


class QueueStorage:
    """The queue's tables over `ctx.storage`, made by the first thing that is stored.

    So a queue that was only asked about leaves nothing behind. `name` is what a refusal calls it.
    """

    def __init__(self, storage: Any, name: str) -> None:
        self._storage = storage
        self._name = name
        self._made = False
        if self.made:
            # tables that a later version added
            storage.transactionSync(self._create)

    @property
    def made(self) -> bool:
        """Whether anything was ever stored here. Not to be asked inside a transaction, which may be undone."""
        if not self._made:
            self._made = bool(self.rows("SELECT 1 AS one FROM sqlite_master WHERE name = 'installed'"))
        return self._made

    def require(self) -> None:
        """Raises `Refused("no-database")` when nothing was ever stored here."""
        if not self.made:
            raise Refused("no-database", f"there is no queue {self._name}: nothing was pushed to it")

    def _create(self) -> None:
        for statement in (*sql.SCHEMA, INSTALLED, KNOWN):
            self._storage.sql.exec(statement)

    def store(self, steps: Steps[T]) -> T:
        """Runs an operation in one transaction, in which the tables are made if need be."""

        def run() -> T:
            self._create()
            return run_steps(steps, self.execute)

        outcome: T = self._storage.transactionSync(run)
        return outcome

    def execute(self, statement: Statement) -> list[Row]:
        """The rows of one statement."""
        rows: list[Row] = self._storage.sql.exec(statement.sql, *statement.bindings).toArray()
        return rows

    def transact(self, steps: Steps[T]) -> T:
        """Runs an operation in one transaction."""
        outcome: T = self._storage.transactionSync(lambda: run_steps(steps, self.execute))
        return outcome

    def query(self, steps: Steps[T]) -> T:
        """Runs an operation that only reads. Nothing else runs meanwhile: there is no await in it."""
        return run_steps(steps, self.execute)

    def rows(self, text: str, *bindings: Any) -> list[Row]:
        """The rows of a statement given as text."""
        return self.execute(Statement(text, bindings))


class StoredTargets:
    """Targets with their bodies, and those canonical records that `records` holds for this call.

    What was given last is what is rendered, so a target cannot drift between the two; the check is an identity.
    """

    def __init__(self, storage: QueueStorage, records: Mapping[str, str | None] | None = None) -> None:
        self._storage = storage
        self._records = records or {}

    def get(self, path: str) -> Target | None:
        """The target, or the live record of that name."""
        name = parse_record(path)
        if name is not None:
            content = self._records.get(path)
            return None if content is None else record_target(path, name, content)
        rows = self._storage.rows(sql.NODE, path)
        return target_of_row(rows[0]) if rows else None

    def list(self) -> Sequence[Target]:
        """Every target, by path. Records are named one by one."""
        return [target_of_row(row) for row in self._storage.rows(sql.NODES)]

    def read_body(self, path: str) -> Body:
        """The body as it was given."""
        if parse_record(path) is not None:
            content = self._records.get(path)
            return Body(content, None if content is not None else "the record is gone")
        rows = self._storage.rows(sql.NODE, path)
        return Body(rows[0]["body"] if rows else None, None if rows else "the target is gone")

    def body_hash(self, text: str) -> str:
        """SHA-256 of the body."""
        return text_hash(text)

    def issues(self, path: str, analyzer_ids: Sequence[str]) -> Sequence[Mapping[str, Any]]:
        """None: deterministic analyzers run where the files are."""
        return []


class StoredCatalogue:
    """Extensions and skills as they were installed last."""

    def __init__(self, storage: QueueStorage) -> None:
        self._storage = storage

    def _values(self, kind: str, name: str | None = None) -> list[Row]:
        text = "SELECT name, value_json FROM installed WHERE kind = ?"
        if name is None:
            return self._storage.rows(text + " ORDER BY position", kind)
        return self._storage.rows(text + " AND name = ?", kind, name)

    def all(self) -> Sequence[Extension]:
        """Every extension, actions first, each kind in the order of its installation."""
        found: list[Extension] = []
        for row in self._values(EXTENSION):
            entry: shared.InstalledExtension = parse(json.loads(row["value_json"]), shared.InstalledExtension)
            found.append(entry.parse())
        return sorted(found, key=lambda extension: extension.kind != "action")

    def skill(self, name: str) -> Extension | None:
        """An installed skill."""
        rows = self._values(SKILL, name)
        if not rows:
            return None
        entry: shared.InstalledSkill = parse(json.loads(rows[0]["value_json"]), shared.InstalledSkill)
        return entry.parse(name)

    def config(self) -> Mapping[str, Any]:
        """The settings."""
        rows = self._values(CONFIG)
        value: dict[str, Any] = json.loads(rows[0]["value_json"]) if rows else {}
        return value

    def state(self) -> Presence:
        """Whether an agent said that it processes the queue, and with which instructions."""
        rows = self._values(AGENT)
        version = json.loads(rows[0]["value_json"]) if rows else 0
        return "absent" if version == 0 else "stale" if version < shared.AGENT_VERSION else "present"

    def install(self, body: shared.InstallBody) -> Steps[None]:
        """Replaces extensions, skills and settings."""
        body.check()
        yield Statement("DELETE FROM installed WHERE kind <> ?", (AGENT,))
        for position, entry in enumerate(body.extensions):
            value = {
                "manifest": entry.manifest,
                "prompt": entry.prompt,
                "reportSchema": entry.report_schema,
            }
            name = f"{entry.manifest['kind']}:{entry.manifest['id']}"
            yield _put(EXTENSION, position, name, value)
        for position, (name, skill) in enumerate(body.skills.items()):
            yield _put(SKILL, position, name, {"body": skill.body, "version": skill.version})
        yield _put(CONFIG, 0, CONFIG, body.config)

    def announce(self, body: shared.AgentBody) -> Steps[None]:
        """Stores what an agent said."""
        yield _put(AGENT, 0, AGENT, body.version)


def _put(kind: str, position: int, name: str, value: Any) -> Statement:
    return Statement(
        "INSERT INTO installed (kind, position, name, value_json) VALUES (?, ?, ?, ?)"
        " ON CONFLICT (kind, name) DO UPDATE SET position = excluded.position, value_json = excluded.value_json",
        (kind, position, name, json.dumps(value)),
    )


def put_targets(body: shared.TargetsBody) -> Steps[int]:
    """Stores targets; how many there are afterwards."""
    if body.replace:
        yield Statement("DELETE FROM scan_nodes")
    for path in body.remove:
        yield Statement("DELETE FROM scan_nodes WHERE path = ?", (path,))
    for target in body.targets:
        if parse_record(target.path) is not None:
            raise Refused("usage", f"{target.path} names a canonical record, which is read where it lives")
        yield Statement(sql.UPSERT_NODE, target.row())
    rows = yield Statement("SELECT count(*) AS n FROM scan_nodes")
    return int(rows[0]["n"])


def register(name: str) -> Steps[None]:
    """Remembers the name of a queue that something was installed in."""
    yield Statement("INSERT INTO known_queues (name) VALUES (?) ON CONFLICT DO NOTHING", (name,))


class StoredSuppressions:
    """Suppressions in the annotations that were given with a target. `config` holds the consent to lift them."""

    def __init__(self, storage: QueueStorage, config: Callable[[], Mapping[str, Any]]) -> None:
        self._storage = storage
        self._config = config

    def _annotations(self, path: str) -> dict[str, Any]:
        rows = self._storage.rows(sql.NODE, path)
        value: dict[str, Any] = json.loads(rows[0]["annotations_json"]) if rows else {}
        return value

    def get(self, path: str) -> Sequence[Mapping[str, Any]]:
        """The suppressions of a target."""
        value = self._annotations(path).get("suppressions")
        return [entry for entry in value if isinstance(entry, dict)] if isinstance(value, list) else []

    def mirrored(self, path: str) -> Sequence[Mapping[str, Any]]:
        """The same: the annotations here are the mirror of those where the files are."""
        return self.get(path)

    def consented(self) -> bool:
        """Whether `jobs.allowSidecarEdits` is true."""
        return jobs_settings(self._config()).get("allowSidecarEdits") is True

    def remove(self, path: str, entries: Sequence[Mapping[str, Any]]) -> None:
        """Removes the entries here; the sidecar where the files are is its author's."""
        held = self._annotations(path)
        held["suppressions"] = [entry for entry in self.get(path) if entry not in entries]
        self._storage.rows("UPDATE scan_nodes SET annotations_json = ? WHERE path = ?", json.dumps(held), path)

    def refresh(self, path: str) -> None:
        """Nothing to do: there is no second copy here."""

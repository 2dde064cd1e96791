"""A job queue in memory: the engine over SQLite in memory and plain Python values behind its four interfaces."""

import random
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

from moorage.clients.jobs.validation import validate
from moorage.protocols.jobs import sql, wire
from moorage.protocols.jobs.catalogue import Body, Extension, Precondition, Target
from moorage.protocols.jobs.engine import JobEngine, Surface, skill_extension
from moorage.protocols.jobs.hashes import text_hash
from moorage.protocols.jobs.ports import Presence
from moorage.protocols.jobs.schemas import FINDINGS, REPORT_BASE, SUMMARY, TAGS
from moorage.protocols.jobs.steps import Row, Statement, Steps, run_steps

T = TypeVar("T")
PROMPT = "Do it.\n\n{{userContent}}\n"


def extension(name: str, kind: Any = "action", schema: str = REPORT_BASE, **more: Any) -> Extension:
    """A probabilistic extension whose reports are of a canonical schema."""
    text = '{"allOf": [{"$ref": "' + schema + '"}]}'
    given = {"version": "1.0.0", "prompt": PROMPT, "report_schema_text": text, "estimate_seconds": 60, **more}
    return Extension(id=name, kind=kind, **given)


EXTENSIONS = (
    extension("fx/brief"),
    extension("fx/digest", schema=SUMMARY),
    extension("fx/tagger", schema=TAGS),
    extension("fx/mend", precondition=Precondition(analyzer_ids=("fx/probe",))),
    extension("fx/repoint", precondition=Precondition(analyzer_ids=("core/links",))),
    extension("fx/ping", nodeless=True),
    extension("fx/probe", "analyzer", FINDINGS),
    Extension(id="core/links", kind="analyzer", version="1.0.0", mode="deterministic"),
)


class MemoryQueue:
    """`queue.call("submit", {…})`. Everything that the ports see is a plain attribute, to be changed by tests."""

    def __init__(self, extensions: Sequence[Extension] = EXTENSIONS, *, now: int = 1_782_993_600_000) -> None:
        self.connection = sqlite3.connect(":memory:", isolation_level=None)
        self.connection.row_factory = lambda cursor, values: {
            column[0]: value for column, value in zip(cursor.description, values, strict=True)
        }
        for statement in sql.SCHEMA:
            self.connection.execute(statement)
        self.now = now
        self.random = random.Random(7)
        self.extensions = list(extensions)
        self.bodies: dict[str, str] = {"a.md": "Body a.", "b.md": "Body b."}
        self.stored: dict[str, Target] = {}
        self.issue_list: dict[str, list[dict[str, Any]]] = {}
        self.presence: Presence = "present"
        self.settings: dict[str, Any] = {}
        self.suppressed: dict[str, list[dict[str, Any]]] = {}
        self.mirror: dict[str, list[dict[str, Any]]] = {}
        self.consent = False
        self.log: list[tuple[str, dict[str, Any]]] = []
        self.skills: dict[str, str] = {}
        self.scan()
        self.engine = JobEngine(
            transact=self.transact,
            query=self.query,
            targets=self,
            catalogue=self,
            presence=self,
            suppressions=Suppressions(self),
            config=lambda: self.settings,
            validate=validate,
            now=lambda: self.now,
            draw=lambda count: self.random.randbytes(count).hex(),
            log=lambda op, detail: self.log.append((op, dict(detail))),
        )

    def call(self, verb: str, body: Mapping[str, Any], surface: Surface = "operator") -> Any:
        """Runs a verb."""
        return wire.call(self.engine, verb, body, surface)

    def close(self) -> None:
        """Closes the database."""
        self.connection.close()

    # -- the database -------------------------------------------------------------------------------------------

    def execute(self, statement: Statement) -> list[Row]:
        rows: list[Row] = self.connection.execute(statement.sql, statement.bindings).fetchall()
        return rows

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        self.connection.execute("BEGIN")
        try:
            yield
        except BaseException:
            self.connection.execute("ROLLBACK")
            raise
        self.connection.execute("COMMIT")

    def transact(self, steps: Steps[T]) -> T:
        with self._transaction():
            return run_steps(steps, self.execute)

    def query(self, steps: Steps[T]) -> T:
        return run_steps(steps, self.execute)

    def rows(self, table: str) -> list[Row]:
        return self.execute(Statement(f"SELECT * FROM {table} ORDER BY 1"))

    def execute_all(self, table: str) -> list[Row]:
        """The rows in the order of their insertion."""
        return self.execute(Statement(f"SELECT * FROM {table} ORDER BY rowid"))

    # -- the interfaces -----------------------------------------------------------------------------------------

    def scan(self) -> None:
        """The stored targets now equal the bodies."""
        self.stored = {
            path: Target(path, "markdown", "markdown", text_hash(text), "front") for path, text in self.bodies.items()
        }

    def get(self, path: str) -> Target | None:
        return self.stored.get(path)

    def list(self) -> Sequence[Target]:
        return [self.stored[path] for path in sorted(self.stored)]

    def read_body(self, path: str) -> Body:
        return Body(self.bodies.get(path), "file deleted")

    def body_hash(self, text: str) -> str:
        return text_hash(text)

    def issues(self, path: str, analyzer_ids: Sequence[str]) -> Sequence[Mapping[str, Any]]:
        return self.issue_list.get(path, [])

    def all(self) -> Sequence[Extension]:
        return self.extensions

    def skill(self, name: str) -> Extension | None:
        return skill_extension(name, "1.0.0", self.skills[name]) if name in self.skills else None

    def state(self) -> Presence:
        return self.presence


class Suppressions:
    """Suppressions of the queue's attributes."""

    def __init__(self, queue: MemoryQueue) -> None:
        self._queue = queue

    def get(self, path: str) -> Sequence[Mapping[str, Any]]:
        return self._queue.suppressed.get(path, [])

    def mirrored(self, path: str) -> Sequence[Mapping[str, Any]]:
        return self._queue.mirror.get(path, [])

    def consented(self) -> bool:
        return self._queue.consent

    def remove(self, path: str, entries: Sequence[Mapping[str, Any]]) -> None:
        self._queue.suppressed[path] = [e for e in self._queue.suppressed[path] if e not in entries]

    def refresh(self, path: str) -> None:
        self._queue.mirror[path] = [dict(entry) for entry in self._queue.suppressed.get(path, [])]

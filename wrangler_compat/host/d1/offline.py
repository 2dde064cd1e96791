"""A database without a server: seeding it, and its migrations."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from moorage.durable_objects.runtime import Runtime
from moorage.durable_objects.runtime.statements import split

from ...config import WorkerConfig
from ...config.model import D1Database as Declared
from ..statelock import StateLock
from ..values import Presentation
from .database import D1Database
from .store import NAMESPACE, D1Store


class D1CommandError(Exception):
    """What was asked for is not there or cannot be done; the text says what is."""


def declared(config: WorkerConfig, name: str) -> Declared:
    """The database that `name` names by binding, name or id. Raises D1CommandError that lists those there are."""
    for database in config.d1_databases:
        if name in (database.binding, database.database_name, database.database_id):
            return database
    known = ", ".join(database.binding for database in config.d1_databases) or "none"
    raise D1CommandError(f"{config.path or config.folder} declares no D1 database {name!r}; it declares: {known}")


@asynccontextmanager
async def opened(state: Path, database: Declared) -> AsyncIterator[D1Database]:
    """The database in a state folder that no server uses. Raises StateInUse, OSError or sqlite3.Error."""
    state.mkdir(parents=True, exist_ok=True)
    lock = StateLock(state)
    lock.acquire()
    try:
        runtime = Runtime(state)
        store = runtime.namespace(NAMESPACE, D1Store).getByName(database.storage_name)
        try:
            await runtime.start()
            yield D1Database(store, runtime.clock.now, Presentation())
        finally:
            await runtime.close()
    finally:
        lock.release()


async def execute(database: D1Database, text: str) -> list[Any]:
    """Runs the statements of `text` in one transaction, all or none; a result as `all()` gives it for each."""
    statements = [database.prepare(statement.sql) for statement in split(text) if statement.keyword]
    if not statements:
        raise D1CommandError("the text holds no SQL statement")
    return list(await database.batch(statements))


@dataclass(frozen=True, slots=True)
class Migrations:
    """The files of a database's migrations, and the table that says which have been applied."""

    folder: Path
    table: str

    @classmethod
    def of(cls, config: WorkerConfig, database: Declared) -> "Migrations":
        """Where the configuration says; `migrations` beside it, and `d1_migrations`, where it says nothing."""
        return cls(config.folder / (database.migrations_dir or "migrations"), database.migrations_table)

    def names(self) -> list[str]:
        """The files, in the order in which they are applied. Raises D1CommandError without the folder."""
        if not self.folder.is_dir():
            raise D1CommandError(f"there is no folder of migrations {self.folder}")
        return sorted(path.name for path in self.folder.iterdir() if path.suffix == ".sql")

    async def pending(self, database: D1Database) -> list[str]:
        """The files that have not been applied yet."""
        await database.exec(
            f"CREATE TABLE IF NOT EXISTS {self._quoted} (id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT UNIQUE, "
            "applied_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP NOT NULL)"
        )
        applied: Sequence[Sequence[Any]] = await database.prepare(f"SELECT name FROM {self._quoted}").raw()
        done = {row[0] for row in applied}
        return [name for name in self.names() if name not in done]

    async def apply(self, database: D1Database, name: str) -> None:
        """Runs one file and remembers it, in one transaction."""
        text = (self.folder / name).read_text(encoding="utf-8")
        statements = [database.prepare(statement.sql) for statement in split(text) if statement.keyword]
        remember = database.prepare(f"INSERT INTO {self._quoted} (name) VALUES (?)").bind(name)
        await database.batch([*statements, remember])

    @property
    def _quoted(self) -> str:
        return '"' + self.table.replace('"', '""') + '"'

"""Many queued jobs at once, for tests and benchmarks: rows as a submit writes them, in one transaction."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from moorage.clients.jobs.database import QueueDatabase
from moorage.clients.jobs.folder import JobsFolder
from moorage.protocols.jobs import sql
from moorage.protocols.jobs.hashes import text_hash
from moorage.protocols.jobs.steps import Statement, Steps


def job_row(number: int) -> tuple[Any, ...]:
    """The bindings of one queued job; its id ends with the number."""
    key = text_hash(f"content {number}")
    return (
        f"d-20260101-{number:06d}-0000", "fx/brief", "1.0.0", "action", 0, None, f"notes/{number}.md", key,
        f"{number:032x}", 0, "queued", None, None, None, number, None, None, None, None,
    )  # fmt: skip


def bulk(count: int, progress: Callable[[int], None] = lambda _: None) -> Steps[None]:
    """Inserts that many queued jobs with their contents."""
    for number in range(count):
        row = job_row(number)
        yield Statement(sql.INSERT_CONTENT, (row[7], f"content {number}", number))
        yield Statement(sql.INSERT_JOB, row)
        progress(number)


def fill(root: Path, count: int) -> None:
    """A queue in `root` with that many jobs."""
    database = QueueDatabase(JobsFolder(root).database, create=True)
    try:
        database.transact(bulk(count))
    finally:
        database.close()

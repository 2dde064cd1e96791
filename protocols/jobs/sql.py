"""The tables of the queue and its statements, shared by the local engine and the `JobQueue` object
(spec job-lifecycle 2). SQLite 3.40 or newer."""

from __future__ import annotations

from .states import TRANSITIONS, Status, Trigger

JOB_COLUMNS = (
    "id", "extension_id", "extension_version", "extension_kind", "auto_fix", "finding_ids_json", "node_id",
    "content_hash", "nonce", "priority", "status", "failure_reason", "runner", "ttl_seconds", "created_at",
    "claimed_at", "finished_at", "expires_at", "submitted_by",
)  # fmt: skip

EXECUTION_COLUMNS = (
    "id", "kind", "extension_id", "extension_version", "node_ids_json", "content_hash", "status", "failure_reason",
    "exit_code", "runner", "started_at", "finished_at", "duration_ms", "tokens_in", "tokens_out", "model",
    "report_json", "job_id",
)  # fmt: skip

FINDING_COLUMNS = (
    "id", "node_id", "extension_id", "extension_version", "origin", "type", "severity", "message", "detail",
    "confidence", "model", "resolution", "resolution_actor", "resolution_note", "resolution_by", "resolution_at",
    "body_hash_at_generation", "generated_at", "job_id",
)  # fmt: skip

# `state_findings.id` never names another finding again: a frozen subset must not hit a later one (spec 24, JB-10).
# The index by status has the order of claims behind it, so that a claim takes its first entry; a reap finds what is
# due in the index of expiries. Of `state_events` only the oldest rows go, so its numbers rise without a counter.
SCHEMA: tuple[str, ...] = (
    """CREATE TABLE IF NOT EXISTS state_jobs (
  id TEXT PRIMARY KEY, extension_id TEXT NOT NULL, extension_version TEXT NOT NULL, extension_kind TEXT NOT NULL,
  auto_fix INTEGER NOT NULL DEFAULT 0, finding_ids_json TEXT, node_id TEXT NOT NULL, content_hash TEXT NOT NULL,
  nonce TEXT NOT NULL, priority INTEGER NOT NULL DEFAULT 0, status TEXT NOT NULL, failure_reason TEXT, runner TEXT,
  ttl_seconds INTEGER, created_at INTEGER NOT NULL, claimed_at INTEGER, finished_at INTEGER, expires_at INTEGER,
  submitted_by TEXT)""",
    "CREATE INDEX IF NOT EXISTS ix_state_jobs_status ON state_jobs (status, priority DESC, created_at, id)",
    """CREATE INDEX IF NOT EXISTS ix_state_jobs_expiry ON state_jobs (expires_at)
  WHERE status = 'running' AND expires_at IS NOT NULL""",
    "CREATE INDEX IF NOT EXISTS ix_state_jobs_content ON state_jobs (content_hash)",
    """CREATE UNIQUE INDEX IF NOT EXISTS ix_state_jobs_extension_node_hash
  ON state_jobs (extension_id, node_id, content_hash) WHERE status IN ('queued', 'running')""",
    """CREATE TABLE IF NOT EXISTS state_job_contents (
  content_hash TEXT PRIMARY KEY, content TEXT NOT NULL, created_at INTEGER NOT NULL)""",
    """CREATE TABLE IF NOT EXISTS state_executions (
  id TEXT PRIMARY KEY, kind TEXT NOT NULL, extension_id TEXT NOT NULL, extension_version TEXT NOT NULL,
  node_ids_json TEXT NOT NULL, content_hash TEXT, status TEXT NOT NULL, failure_reason TEXT, exit_code INTEGER,
  runner TEXT, started_at INTEGER NOT NULL, finished_at INTEGER NOT NULL, duration_ms INTEGER, tokens_in INTEGER,
  tokens_out INTEGER, model TEXT, report_json TEXT, job_id TEXT)""",
    """CREATE TABLE IF NOT EXISTS state_summaries (
  node_id TEXT NOT NULL, kind TEXT NOT NULL, summarizer_action_id TEXT NOT NULL, summarizer_version TEXT NOT NULL,
  body_hash_at_generation TEXT NOT NULL, generated_at INTEGER NOT NULL, model TEXT, summary_json TEXT NOT NULL,
  PRIMARY KEY (node_id, summarizer_action_id))""",
    """CREATE TABLE IF NOT EXISTS state_findings (
  id INTEGER PRIMARY KEY AUTOINCREMENT, node_id TEXT NOT NULL, extension_id TEXT NOT NULL,
  extension_version TEXT NOT NULL, origin TEXT NOT NULL, type TEXT NOT NULL, severity TEXT NOT NULL,
  message TEXT NOT NULL, detail TEXT, confidence REAL NOT NULL, model TEXT, resolution TEXT, resolution_actor TEXT,
  resolution_note TEXT, resolution_by TEXT, resolution_at INTEGER, body_hash_at_generation TEXT NOT NULL,
  generated_at INTEGER NOT NULL, job_id TEXT)""",
    "CREATE INDEX IF NOT EXISTS ix_state_findings_node ON state_findings (node_id, extension_id)",
    """CREATE TABLE IF NOT EXISTS state_events (
  seq INTEGER PRIMARY KEY, envelope_json TEXT NOT NULL)""",
    "CREATE TABLE IF NOT EXISTS disabled_extensions (key TEXT PRIMARY KEY)",
    """CREATE TABLE IF NOT EXISTS scan_nodes (
  path TEXT PRIMARY KEY, kind TEXT NOT NULL, provider TEXT NOT NULL, body_hash TEXT NOT NULL,
  frontmatter_hash TEXT NOT NULL, frontmatter_json TEXT NOT NULL, annotations_json TEXT NOT NULL,
  virtual INTEGER NOT NULL DEFAULT 0, body TEXT)""",
)


def _marks(columns: tuple[str, ...]) -> str:
    return ", ".join("?" * len(columns))


def transition(
    trigger: Trigger, *, where: str, extra: str = "", returning: str = "id", index: str | None = None
) -> str:
    """The guarded statement of a transition: its rows are the jobs that moved.

    Bindings: those of `extra`, then the finishing time if the transition finishes, then those of `where`.
    """
    rule = TRANSITIONS[trigger]
    reason = f"'{rule.reason}'" if rule.reason else "NULL"
    # `=` for a single state: SQLite recognises the condition of a partial index in it, and not in a list of one
    sources = ", ".join(f"'{status}'" for status in rule.sources)
    guard = f"status IN ({sources})" if len(rule.sources) > 1 else f"status = {sources}"
    finished = ", finished_at = ?" if rule.finishes else ""
    table = "state_jobs" if index is None else f"state_jobs INDEXED BY {index}"
    return (
        f"UPDATE {table} SET status = '{rule.to}', failure_reason = {reason}{extra}{finished} "
        f"WHERE {where} AND {guard} RETURNING {returning}"
    )


BY_ID = "id = ?"
ALL = "1 = 1"

MATCHES_FILTER = "(extension_id = ? OR substr(extension_id, instr(extension_id, '/') + 1) = ?)"


def _claim(condition: str) -> str:
    """The atomic claim (spec 14, step 2). The outer guard settles a race for the same id. Ties end with the id."""
    return transition(
        Trigger.CLAIM,
        extra=(
            ", claimed_at = ?, runner = 'agent',"
            " expires_at = CASE WHEN ttl_seconds IS NULL THEN NULL ELSE ? + ttl_seconds * 1000 END"
        ),
        where=(
            f"id = (SELECT id FROM state_jobs WHERE status = '{Status.QUEUED}'{condition}"
            " ORDER BY priority DESC, created_at, id LIMIT 1)"
        ),
        returning=", ".join(JOB_COLUMNS),
    )


CLAIM = _claim("")
CLAIM_FILTERED = _claim(f" AND {MATCHES_FILTER}")
REAP = transition(Trigger.REAP, where="expires_at IS NOT NULL AND expires_at < ?", index="ix_state_jobs_expiry")
CANCEL = transition(Trigger.CANCEL, where=BY_ID)
CANCEL_ALL = transition(Trigger.CANCEL, where=ALL)
FAIL = transition(Trigger.FAIL, where=BY_ID)
FAIL_ALL = transition(Trigger.FAIL, where=ALL)
SUPERSEDE = transition(Trigger.SUPERSEDE, where=BY_ID)
DISABLE = transition(
    Trigger.DISABLE,
    where="(extension_id = ? OR (instr(extension_id, '/') > 0"
    " AND substr(extension_id, 1, instr(extension_id, '/') - 1) = ?))",
)
RECORD = {
    trigger: transition(trigger, where=BY_ID)
    for trigger in (
        Trigger.RECORD_COMPLETED,
        Trigger.RECORD_INVALID,
        Trigger.RECORD_FAILED,
        Trigger.CONTENT_MISSING,
    )
}

INSERT_JOB = (
    f"INSERT INTO state_jobs ({', '.join(JOB_COLUMNS)}) VALUES ({_marks(JOB_COLUMNS)})"
    f" ON CONFLICT DO NOTHING RETURNING {', '.join(JOB_COLUMNS)}"
)
INSERT_CONTENT = (
    "INSERT INTO state_job_contents (content_hash, content, created_at) VALUES (?, ?, ?) ON CONFLICT DO NOTHING"
)
INSERT_EXECUTION = (
    f"INSERT INTO state_executions ({', '.join(EXECUTION_COLUMNS)}) VALUES ({_marks(EXECUTION_COLUMNS)})"
    " ON CONFLICT DO NOTHING RETURNING id"
)
INSERT_FINDING = (
    f"INSERT INTO state_findings ({', '.join(FINDING_COLUMNS[1:])}) VALUES ({_marks(FINDING_COLUMNS[1:])})"
)
UPSERT_SUMMARY = """INSERT INTO state_summaries (node_id, kind, summarizer_action_id, summarizer_version,
 body_hash_at_generation, generated_at, model, summary_json) VALUES (?, ?, ?, ?, ?, ?, ?, ?)
 ON CONFLICT (node_id, summarizer_action_id) DO UPDATE SET kind = excluded.kind,
 summarizer_version = excluded.summarizer_version, body_hash_at_generation = excluded.body_hash_at_generation,
 generated_at = excluded.generated_at, model = excluded.model, summary_json = excluded.summary_json"""
INSERT_EVENT = "INSERT INTO state_events (envelope_json) VALUES (?)"

JOB = f"SELECT {', '.join(JOB_COLUMNS)} FROM state_jobs WHERE id = ?"
LIST_JOBS = f"SELECT {', '.join(JOB_COLUMNS)} FROM state_jobs"
NEWEST_FIRST = " ORDER BY created_at DESC, id DESC"
CONTENT = "SELECT content FROM state_job_contents WHERE content_hash = ?"
ACTIVE_TWIN = """SELECT id FROM state_jobs WHERE extension_id = ? AND node_id = ? AND content_hash = ?
 AND status IN ('queued', 'running')"""
SIBLINGS = """SELECT id, status, finding_ids_json, content_hash FROM state_jobs
 WHERE extension_id = ? AND node_id = ? AND status IN ('queued', 'running') ORDER BY created_at, id"""
FINDINGS_OF_NODE = f"SELECT {', '.join(FINDING_COLUMNS)} FROM state_findings WHERE node_id = ? ORDER BY id"
NODE_COLUMNS = (
    "path", "kind", "provider", "body_hash", "frontmatter_hash", "frontmatter_json", "annotations_json", "virtual",
    "body",
)  # fmt: skip
NODE = f"SELECT {', '.join(NODE_COLUMNS)} FROM scan_nodes WHERE path = ?"
# without the bodies: all of them at once are more than a fan-out may hold
NODES = f"SELECT {', '.join(NODE_COLUMNS[:-1])} FROM scan_nodes ORDER BY path"
UPSERT_NODE = (
    f"INSERT INTO scan_nodes ({', '.join(NODE_COLUMNS)}) VALUES ({_marks(NODE_COLUMNS)})"
    f" ON CONFLICT (path) DO UPDATE SET {', '.join(f'{name} = excluded.{name}' for name in NODE_COLUMNS[1:])}"
)

"""Tables and statements of the record store (spec state-plane-storage 2.1). Every statement has a name.

Names of tables and columns are the reference's, so that data and tools carry over. Differences, each for speed: the
journal has no rowid and one index by repository, section and store revision (exports merge one ordered scan per
section, so no scan ever meets a row that it does not give), live records have an index of their own (a list must not
walk over tombstones), the rows of one item lie together, and the contents of commits lie in the order in which they
were written: keyed by their shas, which are random, every one of them would dirty a page of an index more. A store
that was made under the reference's layout keeps its tables; commits in `exact_review_record_backfill` are read there.
"""

from typing import Final

SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS exact_review_canonical_records (
  repo_slug TEXT NOT NULL,
  section TEXT NOT NULL CHECK (section IN ('items', 'closed', 'plans', 'decision-packets')),
  item_id INTEGER NOT NULL CHECK (item_id >= 1),
  content TEXT,
  digest TEXT CHECK (digest IS NULL OR length(digest) = 64),
  byte_length INTEGER NOT NULL CHECK (byte_length >= 0),
  chunk_count INTEGER NOT NULL CHECK (chunk_count >= 0),
  deleted INTEGER NOT NULL CHECK (deleted IN (0, 1)),
  revision INTEGER NOT NULL CHECK (revision >= 1),
  item_key TEXT NOT NULL,
  claim_generation INTEGER NOT NULL CHECK (claim_generation >= 1),
  updated_at INTEGER NOT NULL,
  PRIMARY KEY (repo_slug, item_id, section),
  CHECK (
    (deleted = 1 AND content IS NULL AND digest IS NULL AND byte_length = 0 AND chunk_count = 0)
    OR (deleted = 0 AND digest IS NOT NULL AND (content IS NULL) = (chunk_count > 0))
  )
) STRICT;
CREATE INDEX IF NOT EXISTS exact_review_canonical_records_live
  ON exact_review_canonical_records (repo_slug, section, item_id) WHERE deleted = 0;
CREATE TABLE IF NOT EXISTS exact_review_canonical_record_chunks (
  repo_slug TEXT NOT NULL,
  section TEXT NOT NULL,
  item_id INTEGER NOT NULL,
  chunk_index INTEGER NOT NULL CHECK (chunk_index >= 0),
  content_base64 TEXT NOT NULL,
  PRIMARY KEY (repo_slug, section, item_id, chunk_index)
) STRICT;
CREATE TABLE IF NOT EXISTS exact_review_record_backfill (
  repo_slug TEXT NOT NULL,
  section TEXT NOT NULL,
  record_id TEXT NOT NULL,
  content TEXT,
  digest TEXT NOT NULL CHECK (length(digest) = 64),
  byte_length INTEGER NOT NULL CHECK (byte_length >= 0),
  chunk_count INTEGER NOT NULL CHECK (chunk_count >= 0),
  updated_at INTEGER NOT NULL,
  PRIMARY KEY (repo_slug, section, record_id),
  CHECK ((content IS NULL) = (chunk_count > 0))
) STRICT;
CREATE TABLE IF NOT EXISTS exact_review_record_backfill_chunks (
  repo_slug TEXT NOT NULL,
  section TEXT NOT NULL,
  record_id TEXT NOT NULL,
  chunk_index INTEGER NOT NULL CHECK (chunk_index >= 0),
  content_base64 TEXT NOT NULL,
  PRIMARY KEY (repo_slug, section, record_id, chunk_index)
) STRICT;
CREATE TABLE IF NOT EXISTS exact_review_commit_records (
  store_revision INTEGER PRIMARY KEY CHECK (store_revision >= 1),
  content TEXT,
  byte_length INTEGER NOT NULL CHECK (byte_length >= 0),
  chunk_count INTEGER NOT NULL CHECK (chunk_count >= 0),
  CHECK ((content IS NULL) = (chunk_count > 0))
) STRICT;
CREATE TABLE IF NOT EXISTS exact_review_record_export_index (
  repo_slug TEXT NOT NULL,
  section TEXT NOT NULL CHECK (section IN ('items', 'closed', 'plans', 'decision-packets', 'commits')),
  record_id TEXT NOT NULL,
  digest TEXT,
  deleted INTEGER NOT NULL CHECK (deleted IN (0, 1)),
  revision INTEGER NOT NULL CHECK (revision >= 0),
  store_revision INTEGER NOT NULL UNIQUE CHECK (store_revision >= 1),
  source TEXT NOT NULL CHECK (source IN ('canonical', 'backfill')),
  updated_at INTEGER NOT NULL,
  PRIMARY KEY (repo_slug, section, record_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS exact_review_record_export_index_by_section
  ON exact_review_record_export_index (repo_slug, section, store_revision);
CREATE TABLE IF NOT EXISTS exact_review_record_export_meta (
  singleton INTEGER PRIMARY KEY CHECK (singleton = 1),
  current_revision INTEGER NOT NULL CHECK (current_revision >= 0),
  journal_compared INTEGER NOT NULL DEFAULT 0
) STRICT;
INSERT OR IGNORE INTO exact_review_record_export_meta (singleton, current_revision)
  VALUES (1, (SELECT coalesce(max(store_revision), 0) FROM exact_review_record_export_index));
CREATE TABLE IF NOT EXISTS canonical_record_tuple_receipts (
  delivery_id TEXT PRIMARY KEY,
  fingerprint TEXT NOT NULL CHECK (length(fingerprint) = 64),
  revision INTEGER NOT NULL CHECK (revision >= 1),
  sequence INTEGER NOT NULL,
  received_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS canonical_record_tuple_receipts_by_age
  ON canonical_record_tuple_receipts (received_at, delivery_id);
"""

HAS_COMPARED: Final = """
SELECT count(*) AS present FROM pragma_table_info('exact_review_record_export_meta') WHERE name = 'journal_compared'
"""
ADD_COMPARED: Final = """
ALTER TABLE exact_review_record_export_meta ADD COLUMN journal_compared INTEGER NOT NULL DEFAULT 0
"""
COMPARED: Final = "SELECT journal_compared FROM exact_review_record_export_meta"
SET_COMPARED: Final = "UPDATE exact_review_record_export_meta SET journal_compared = 1"

SAMPLE_UNSEEDED: Final = """
SELECT count(*) AS missing FROM (
  SELECT repo_slug, section, record_id FROM (
    SELECT repo_slug, section, CAST(item_id AS TEXT) AS record_id
    FROM exact_review_canonical_records ORDER BY rowid DESC LIMIT 8)
  UNION ALL SELECT repo_slug, section, record_id FROM (
    SELECT repo_slug, section, CAST(item_id AS TEXT) AS record_id
    FROM exact_review_canonical_records ORDER BY rowid LIMIT 8)
  UNION ALL SELECT repo_slug, section, record_id FROM (
    SELECT repo_slug, section, record_id FROM exact_review_record_backfill ORDER BY rowid DESC LIMIT 8)
) AS stored
WHERE NOT EXISTS (
  SELECT 1 FROM exact_review_record_export_index AS journal
  WHERE journal.repo_slug = stored.repo_slug AND journal.section = stored.section
    AND journal.record_id = stored.record_id
)
"""
"""Looks at the oldest and newest rows alone: comparing all of 400,000 would cost every waking of the object 60 ms."""

SEED_JOURNAL: Final = """
INSERT INTO exact_review_record_export_index
  (repo_slug, section, record_id, digest, deleted, revision, store_revision, source, updated_at)
SELECT repo_slug, section, record_id, digest, deleted, revision,
       (SELECT current_revision FROM exact_review_record_export_meta)
         + row_number() OVER (ORDER BY updated_at, repo_slug, section, record_id),
       source, updated_at
FROM (
  SELECT repo_slug, section, CAST(item_id AS TEXT) AS record_id, digest, deleted, revision,
         'canonical' AS source, updated_at
  FROM exact_review_canonical_records
  UNION ALL
  SELECT repo_slug, section, record_id, digest, 0, 1, 'backfill', updated_at
  FROM exact_review_record_backfill
) AS stored
WHERE NOT EXISTS (
  SELECT 1 FROM exact_review_record_export_index AS journal
  WHERE journal.repo_slug = stored.repo_slug AND journal.section = stored.section
    AND journal.record_id = stored.record_id
)
"""

CATCH_UP_COUNTER: Final = """
UPDATE exact_review_record_export_meta
SET current_revision = max(current_revision,
  (SELECT coalesce(max(store_revision), 0) FROM exact_review_record_export_index))
"""

CURRENT_REVISION: Final = "SELECT current_revision FROM exact_review_record_export_meta"

TAKE_REVISIONS: Final = """
UPDATE exact_review_record_export_meta SET current_revision = current_revision + ?1 RETURNING current_revision
"""

READ_RECORD: Final = """
SELECT content, digest, byte_length, chunk_count, deleted, revision, updated_at
FROM exact_review_canonical_records WHERE repo_slug = ?1 AND section = ?2 AND item_id = ?3
"""

READ_TUPLE: Final = """
SELECT section, digest, revision, chunk_count FROM exact_review_canonical_records
WHERE repo_slug = ?1 AND item_id = ?2 AND section IN ('items', 'closed', 'plans', 'decision-packets')
"""

READ_CHUNKS: Final = """
SELECT content_base64 FROM exact_review_canonical_record_chunks
WHERE repo_slug = ?1 AND section = ?2 AND item_id = ?3 ORDER BY chunk_index
"""

DELETE_CHUNKS: Final = """
DELETE FROM exact_review_canonical_record_chunks WHERE repo_slug = ?1 AND section = ?2 AND item_id = ?3
"""

INSERT_CHUNK: Final = """
INSERT INTO exact_review_canonical_record_chunks (repo_slug, section, item_id, chunk_index, content_base64)
VALUES (?1, ?2, ?3, ?4, ?5)
"""

READ_BACKFILL_CHUNKS: Final = """
SELECT content_base64 FROM exact_review_record_backfill_chunks
WHERE repo_slug = ?1 AND section = ?2 AND record_id = ?3 ORDER BY chunk_index
"""

INSERT_BACKFILL_CHUNK: Final = """
INSERT INTO exact_review_record_backfill_chunks (repo_slug, section, record_id, chunk_index, content_base64)
VALUES (?1, ?2, ?3, ?4, ?5)
"""

UPSERT_RECORD: Final = """
INSERT INTO exact_review_canonical_records
  (repo_slug, section, item_id, content, digest, byte_length, chunk_count, deleted, revision, item_key,
   claim_generation, updated_at)
VALUES {rows}
ON CONFLICT (repo_slug, section, item_id) DO UPDATE SET
  content = excluded.content, digest = excluded.digest, byte_length = excluded.byte_length,
  chunk_count = excluded.chunk_count, deleted = excluded.deleted, revision = excluded.revision,
  item_key = excluded.item_key, claim_generation = excluded.claim_generation, updated_at = excluded.updated_at
"""

UPSERT_JOURNAL: Final = """
INSERT INTO exact_review_record_export_index
  (repo_slug, section, record_id, digest, deleted, revision, store_revision, source, updated_at)
VALUES {rows}
ON CONFLICT (repo_slug, section, record_id) DO UPDATE SET
  digest = excluded.digest, deleted = excluded.deleted, revision = excluded.revision,
  store_revision = excluded.store_revision, source = excluded.source, updated_at = excluded.updated_at
"""


def upsert_records(count: int) -> str:
    """Returns the statement for `count` sections of one item.

    Bindings: slug, number, revision, item key, claim generation, time; then per section its name, content, digest,
    byte length, chunk count, deleted.
    """
    rows = ", ".join(
        f"(?1, ?{at}, ?2, ?{at + 1}, ?{at + 2}, ?{at + 3}, ?{at + 4}, ?{at + 5}, ?3, ?4, ?5, ?6)"
        for at in range(7, 7 + 6 * count, 6)
    )
    return UPSERT_RECORD.format(rows=rows)


def upsert_journal(count: int) -> str:
    """Returns the statement for the journal rows of `count` sections of one item.

    Bindings: slug, id, revision, time; then per section its name, digest, deleted, store revision.
    """
    rows = ", ".join(
        f"(?1, ?{at}, ?2, ?{at + 1}, ?{at + 2}, ?3, ?{at + 3}, 'canonical', ?4)" for at in range(5, 5 + 4 * count, 4)
    )
    return UPSERT_JOURNAL.format(rows=rows)


RECORD_STATEMENTS: Final = {count: upsert_records(count) for count in range(1, 5)}
JOURNAL_STATEMENTS: Final = {count: upsert_journal(count) for count in range(1, 5)}

READ_RECEIPT: Final = "SELECT fingerprint, revision FROM canonical_record_tuple_receipts WHERE delivery_id = ?1"

WRITE_RECEIPT: Final = """
INSERT INTO canonical_record_tuple_receipts (delivery_id, fingerprint, revision, sequence, received_at)
VALUES (?1, ?2, ?3, ?3, ?4)
"""

OLDEST_RECEIPT: Final = "SELECT min(received_at) AS oldest FROM canonical_record_tuple_receipts"

PRUNE_RECEIPTS: Final = """
DELETE FROM canonical_record_tuple_receipts WHERE delivery_id IN (
  SELECT delivery_id FROM canonical_record_tuple_receipts
  WHERE received_at <= ?1 ORDER BY received_at, delivery_id LIMIT ?2)
"""

NEWEST_RECONCILE: Final = """
SELECT delivery_id FROM canonical_record_tuple_receipts
WHERE delivery_id >= ?1 AND delivery_id < ?2 AND revision = ?3 ORDER BY received_at DESC, delivery_id DESC LIMIT 1
"""

LIST_LIVE: Final = """
SELECT item_id, digest, revision, updated_at FROM exact_review_canonical_records
WHERE repo_slug = ?1 AND section = ?2 AND item_id > ?3 AND deleted = 0 ORDER BY item_id LIMIT ?4
"""

EXPORT_SECTION: Final = """
SELECT journal.store_revision, journal.section, journal.record_id, journal.digest, journal.deleted, journal.revision,
       journal.updated_at, record.content, record.byte_length, record.chunk_count
FROM exact_review_record_export_index AS journal
LEFT JOIN exact_review_canonical_records AS record
  ON record.repo_slug = journal.repo_slug AND record.section = journal.section
  AND record.item_id = CAST(journal.record_id AS INTEGER)
WHERE journal.repo_slug = ?1 AND journal.section = ?2 AND journal.store_revision > ?3
ORDER BY journal.store_revision LIMIT ?4
"""

_COMMIT_CONTENT: Final = """
FROM exact_review_record_export_index AS journal
LEFT JOIN exact_review_commit_records AS written ON written.store_revision = journal.store_revision
LEFT JOIN exact_review_record_backfill AS imported
  ON written.store_revision IS NULL AND imported.repo_slug = journal.repo_slug
  AND imported.section = journal.section AND imported.record_id = journal.record_id
"""
_COMMIT_COLUMNS: Final = """coalesce(written.content, imported.content) AS content,
       coalesce(written.byte_length, imported.byte_length) AS byte_length,
       coalesce(written.chunk_count, imported.chunk_count) AS chunk_count"""

EXPORT_COMMITS: Final = f"""
SELECT journal.store_revision, journal.section, journal.record_id, journal.digest, journal.deleted, journal.revision,
       journal.updated_at, {_COMMIT_COLUMNS}
{_COMMIT_CONTENT}
WHERE journal.repo_slug = ?1 AND journal.section = ?2 AND journal.store_revision > ?3
ORDER BY journal.store_revision LIMIT ?4
"""

LIST_SLUGS: Final = """
WITH RECURSIVE repositories (repo_slug) AS (
  SELECT min(repo_slug) FROM exact_review_record_export_index
  UNION ALL
  SELECT (SELECT min(journal.repo_slug) FROM exact_review_record_export_index AS journal
          WHERE journal.repo_slug > repositories.repo_slug)
  FROM repositories WHERE repositories.repo_slug IS NOT NULL
)
SELECT repositories.repo_slug,
  (SELECT max(latest) FROM (
    SELECT (SELECT max(journal.store_revision) FROM exact_review_record_export_index AS journal
            WHERE journal.repo_slug = repositories.repo_slug AND journal.section = sections.value) AS latest
    FROM json_each('["items","closed","plans","decision-packets","commits"]') AS sections)) AS revision
FROM repositories WHERE repositories.repo_slug IS NOT NULL ORDER BY repositories.repo_slug
"""

READ_COMMIT_DIGESTS: Final = """
SELECT record_id, digest FROM exact_review_record_export_index
WHERE repo_slug = ?1 AND section = 'commits' AND record_id IN (SELECT value FROM json_each(?2))
"""

COMMITS_PER_STATEMENT: Final = 32
"""Rows of one insert, so that its bindings stay below the platform's 100."""


def insert_commits(count: int) -> str:
    """Returns the statement for the contents of `count` commit records.

    Bindings: store revision, content, byte length per record.
    """
    rows = ", ".join(f"(?{at}, ?{at + 1}, ?{at + 2}, 0)" for at in range(1, 1 + 3 * count, 3))
    return (
        f"INSERT INTO exact_review_commit_records (store_revision, content, byte_length, chunk_count) VALUES {rows}"
    )


def insert_commit_journal(count: int) -> str:
    """Returns the statement for the journal rows of `count` commit records.

    Bindings: slug, time; then sha, digest, store revision per record.
    """
    rows = ", ".join(
        f"(?1, 'commits', ?{at}, ?{at + 1}, 0, 1, ?{at + 2}, 'backfill', ?2)" for at in range(3, 3 + 3 * count, 3)
    )
    return (
        "INSERT INTO exact_review_record_export_index"
        " (repo_slug, section, record_id, digest, deleted, revision, store_revision, source, updated_at)"
        f" VALUES {rows}"
    )


COMMIT_STATEMENTS: Final = {count: insert_commits(count) for count in range(1, COMMITS_PER_STATEMENT + 1)}
COMMIT_JOURNAL_STATEMENTS: Final = {
    count: insert_commit_journal(count) for count in range(1, COMMITS_PER_STATEMENT + 1)
}

INSERT_LARGE_COMMIT: Final = """
INSERT INTO exact_review_commit_records (store_revision, content, byte_length, chunk_count)
VALUES (?1, NULL, ?2, ?3)
"""

LIVE_IDS: Final = """
SELECT record_id FROM exact_review_record_export_index
WHERE repo_slug = ?1 AND section = ?2 AND record_id > ?3 AND deleted = 0 ORDER BY record_id LIMIT ?4
"""

LIVE_AT_OR_BELOW: Final = """
SELECT section, record_id FROM exact_review_record_export_index
WHERE repo_slug = ?1 AND section = ?2 AND store_revision <= ?3 AND deleted = 0
"""

READ_COMMIT: Final = f"""
SELECT {_COMMIT_COLUMNS}
{_COMMIT_CONTENT}
WHERE journal.repo_slug = ?1 AND journal.section = ?2 AND journal.record_id = ?3
"""

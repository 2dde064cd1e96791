-- The review queue (spec state-plane-storage 2.6). Times are integer milliseconds.
-- An item is JSON; what is searched by has columns and indexes, so that no operation scans the queue.

CREATE TABLE IF NOT EXISTS exact_review_queue_items (
  item_key TEXT PRIMARY KEY,
  item_json TEXT NOT NULL,
  lane TEXT NOT NULL CHECK (lane IN ('review', 'publication')),
  state TEXT NOT NULL CHECK (state IN ('pending', 'dispatching', 'leased', 'parked')),
  target_key TEXT NOT NULL,
  target_repo TEXT NOT NULL,
  due_at INTEGER,
  created_at INTEGER NOT NULL,
  lease_id TEXT,
  claimed_run_id TEXT,
  batch_id TEXT
) STRICT, WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS exact_review_queue_items_due
  ON exact_review_queue_items (lane, state, due_at, created_at, item_key);
CREATE INDEX IF NOT EXISTS exact_review_queue_items_age
  ON exact_review_queue_items (lane, state, created_at, item_key);
CREATE INDEX IF NOT EXISTS exact_review_queue_items_target
  ON exact_review_queue_items (lane, target_repo, state, due_at, created_at, item_key);
CREATE INDEX IF NOT EXISTS exact_review_queue_items_key ON exact_review_queue_items (target_key, lane DESC, item_key);
CREATE UNIQUE INDEX IF NOT EXISTS exact_review_queue_items_lease
  ON exact_review_queue_items (lease_id) WHERE lease_id IS NOT NULL;
CREATE INDEX IF NOT EXISTS exact_review_queue_items_run
  ON exact_review_queue_items (claimed_run_id, item_key) WHERE claimed_run_id IS NOT NULL;

CREATE INDEX IF NOT EXISTS exact_review_queue_items_publications
  ON exact_review_queue_items (item_key) WHERE lane = 'publication';

-- How many items are where; kept with every write of an item.
CREATE TABLE IF NOT EXISTS exact_review_queue_counts (
  lane TEXT NOT NULL,
  state TEXT NOT NULL,
  items INTEGER NOT NULL,
  PRIMARY KEY (lane, state)
) STRICT, WITHOUT ROWID;

-- The same for each repository, with the item that it would hand out next.
CREATE TABLE IF NOT EXISTS exact_review_queue_targets (
  lane TEXT NOT NULL,
  target_repo TEXT NOT NULL,
  pending INTEGER NOT NULL DEFAULT 0,
  dispatching INTEGER NOT NULL DEFAULT 0,
  leased INTEGER NOT NULL DEFAULT 0,
  parked INTEGER NOT NULL DEFAULT 0,
  head_due_at INTEGER,
  head_created_at INTEGER,
  PRIMARY KEY (lane, target_repo)
) STRICT, WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS exact_review_queue_targets_head
  ON exact_review_queue_targets (lane, head_due_at, head_created_at, target_repo) WHERE head_due_at IS NOT NULL;

CREATE TABLE IF NOT EXISTS exact_review_queue_deliveries (
  delivery_id TEXT PRIMARY KEY,
  received_at INTEGER NOT NULL,
  authenticated_body_fingerprint TEXT,
  scheduled_disposition_json TEXT
) STRICT, WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS exact_review_queue_deliveries_age
  ON exact_review_queue_deliveries (received_at, delivery_id);

CREATE TABLE IF NOT EXISTS exact_review_queue_meta (
  singleton INTEGER PRIMARY KEY CHECK (singleton = 1),
  schema_version INTEGER NOT NULL,
  migrated_at INTEGER NOT NULL,
  storage_generation INTEGER NOT NULL DEFAULT 1,
  dispatcher_json TEXT,
  shed_since_reset INTEGER NOT NULL DEFAULT 0
) STRICT;

CREATE TABLE IF NOT EXISTS exact_review_queue_edit_semantic (
  item_key TEXT PRIMARY KEY,
  fingerprint TEXT NOT NULL,
  observed_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE IF NOT EXISTS exact_review_queue_ingress (
  fingerprint TEXT NOT NULL,
  route TEXT NOT NULL,
  target_branch TEXT NOT NULL,
  received_at INTEGER NOT NULL,
  admitted_at INTEGER,
  PRIMARY KEY (fingerprint, route)
) STRICT, WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS exact_review_queue_ingress_age ON exact_review_queue_ingress (received_at);

CREATE TABLE IF NOT EXISTS exact_review_publication_heads (
  target_key TEXT PRIMARY KEY,
  source_revision INTEGER NOT NULL,
  updated_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE IF NOT EXISTS exact_review_queue_supersessions (
  audit_id INTEGER PRIMARY KEY AUTOINCREMENT,
  item_key TEXT NOT NULL,
  prior_revision INTEGER NOT NULL,
  next_revision INTEGER NOT NULL,
  lease_id TEXT NOT NULL,
  run_id TEXT,
  run_attempt INTEGER,
  claim_generation INTEGER,
  protocol_version INTEGER,
  source_action TEXT NOT NULL,
  reason_code TEXT NOT NULL,
  superseded_at INTEGER NOT NULL
) STRICT;
CREATE INDEX IF NOT EXISTS exact_review_queue_supersessions_lease ON exact_review_queue_supersessions (lease_id);
CREATE INDEX IF NOT EXISTS exact_review_queue_supersessions_age ON exact_review_queue_supersessions (superseded_at);

CREATE TABLE IF NOT EXISTS exact_review_queue_metrics (
  name TEXT PRIMARY KEY,
  value INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS exact_review_queue_metric_buckets (
  bucket_start INTEGER NOT NULL,
  name TEXT NOT NULL,
  count INTEGER NOT NULL,
  PRIMARY KEY (bucket_start, name)
) STRICT, WITHOUT ROWID;

-- One row: where the store stands.
CREATE TABLE IF NOT EXISTS store (
    one        INTEGER PRIMARY KEY CHECK (one = 1),
    identity   TEXT    NOT NULL,
    revision   INTEGER NOT NULL, -- the newest commit
    position   INTEGER NOT NULL, -- the newest version
    compacted  INTEGER NOT NULL, -- the oldest revision that can be read
    swept      INTEGER NOT NULL, -- the position up to which compaction has deleted rows
    generation INTEGER NOT NULL  -- grows when indexes or secrets are declared anew
) STRICT;
INSERT INTO store (one, identity, revision, position, compacted, swept, generation)
VALUES (1, lower(hex(randomblob(16))), 0, 0, 0, 0, 0)
ON CONFLICT DO NOTHING;

-- Every change of every document, in the order of commits. Rows are added and, by compaction, deleted. The past of
-- a document is found from its head on, by `previous`.
CREATE TABLE IF NOT EXISTS version (
    position    INTEGER PRIMARY KEY,
    revision    INTEGER NOT NULL,
    container   TEXT    NOT NULL,
    partition   TEXT    NOT NULL,
    id          TEXT    NOT NULL,
    previous    INTEGER,          -- the position of the document's version before; negative: a tombstone
    expired     INTEGER NOT NULL, -- deleted because its time had come
    etag        TEXT,             -- none: a tombstone
    body        TEXT,
    sealing_key TEXT,
    expires_at  INTEGER           -- microseconds since the epoch
) STRICT;
CREATE INDEX IF NOT EXISTS version_by_container ON version (container, revision);
CREATE INDEX IF NOT EXISTS version_by_partition ON version (partition, revision);
CREATE INDEX IF NOT EXISTS version_by_sealing_key ON version (sealing_key) WHERE sealing_key IS NOT NULL;

-- The newest version of each document.
CREATE TABLE IF NOT EXISTS head (
    container  TEXT    NOT NULL,
    partition  TEXT    NOT NULL,
    id         TEXT    NOT NULL,
    revision   INTEGER NOT NULL,
    position   INTEGER NOT NULL,
    etag       TEXT,
    expires_at INTEGER,
    PRIMARY KEY (container, partition, id)
) STRICT, WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS head_by_expiry ON head (expires_at) WHERE expires_at IS NOT NULL;

-- Under which values the indexes have a document, from one revision to another.
CREATE TABLE IF NOT EXISTS entry (
    container TEXT    NOT NULL,
    name      TEXT    NOT NULL,
    value     TEXT    NOT NULL,
    partition TEXT    NOT NULL,
    id        TEXT    NOT NULL,
    since     INTEGER NOT NULL,
    until     INTEGER,
    PRIMARY KEY (container, name, value, partition, id, since)
) STRICT, WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS entry_by_key ON entry (container, partition, id) WHERE until IS NULL;
CREATE INDEX IF NOT EXISTS entry_by_end ON entry (until) WHERE until IS NOT NULL;

-- Released and expired leases stay: their tokens must not come again.
CREATE TABLE IF NOT EXISTS lease (
    name       TEXT    PRIMARY KEY,
    holder     TEXT    NOT NULL,
    token      INTEGER NOT NULL,
    expires_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- When the store was at which revision, as far as compaction needs to know.
CREATE TABLE IF NOT EXISTS mark (
    revision INTEGER PRIMARY KEY,
    at       INTEGER NOT NULL
) STRICT;

CREATE TABLE IF NOT EXISTS retired_key (
    id TEXT PRIMARY KEY
) STRICT, WITHOUT ROWID;

-- The containers as they were last declared. Not ready: the indexes are being built.
CREATE TABLE IF NOT EXISTS container (
    name          TEXT    PRIMARY KEY,
    specification TEXT    NOT NULL,
    ready         INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

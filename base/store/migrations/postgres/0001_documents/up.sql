-- One row: where the store stands. Writers lock it for the length of a batch, which puts commits in the order
-- of their revisions.
CREATE TABLE IF NOT EXISTS store (
    one        bigint PRIMARY KEY CHECK (one = 1),
    identity   text   NOT NULL,
    revision   bigint NOT NULL, -- the newest commit
    position   bigint NOT NULL, -- the newest version
    compacted  bigint NOT NULL, -- the oldest revision that can be read
    swept      bigint NOT NULL, -- the position up to which compaction has deleted rows
    generation bigint NOT NULL  -- grows when indexes or secrets are declared anew
) WITH (fillfactor = 10);
INSERT INTO store (one, identity, revision, position, compacted, swept, generation)
VALUES (1, replace(gen_random_uuid()::text, '-', ''), 0, 0, 0, 0, 0)
ON CONFLICT DO NOTHING;

-- Every change of every document, in the order of commits. Rows are added and, by compaction, deleted. The past of
-- a document is found from its head on, by `previous`.
-- Collation "C" everywhere: lists are in the order of bytes, on every engine.
CREATE TABLE IF NOT EXISTS version (
    position    bigint PRIMARY KEY,
    revision    bigint NOT NULL,
    container   text   COLLATE "C" NOT NULL,
    partition   text   COLLATE "C" NOT NULL,
    id          text   COLLATE "C" NOT NULL,
    previous    bigint,          -- the position of the document's version before; negative: a tombstone
    expired     bigint NOT NULL, -- deleted because its time had come
    etag        text,            -- none: a tombstone
    body        text,
    sealing_key text,
    expires_at  bigint           -- microseconds since the epoch
);
CREATE INDEX IF NOT EXISTS version_by_container ON version (container, revision);
CREATE INDEX IF NOT EXISTS version_by_partition ON version (partition, revision);
CREATE INDEX IF NOT EXISTS version_by_sealing_key ON version (sealing_key) WHERE sealing_key IS NOT NULL;

-- The newest version of each document.
CREATE TABLE IF NOT EXISTS head (
    container  text   COLLATE "C" NOT NULL,
    partition  text   COLLATE "C" NOT NULL,
    id         text   COLLATE "C" NOT NULL,
    revision   bigint NOT NULL,
    position   bigint NOT NULL,
    etag       text,
    expires_at bigint,
    PRIMARY KEY (container, partition, id)
);
CREATE INDEX IF NOT EXISTS head_by_expiry ON head (expires_at) WHERE expires_at IS NOT NULL;

-- Under which values the indexes have a document, from one revision to another.
CREATE TABLE IF NOT EXISTS entry (
    container text   COLLATE "C" NOT NULL,
    name      text   COLLATE "C" NOT NULL,
    value     text   COLLATE "C" NOT NULL,
    partition text   COLLATE "C" NOT NULL,
    id        text   COLLATE "C" NOT NULL,
    since     bigint NOT NULL,
    until     bigint,
    PRIMARY KEY (container, name, value, partition, id, since)
);
CREATE INDEX IF NOT EXISTS entry_by_key ON entry (container, partition, id) WHERE until IS NULL;
CREATE INDEX IF NOT EXISTS entry_by_end ON entry (until) WHERE until IS NOT NULL;

-- Released and expired leases stay: their tokens must not come again.
CREATE TABLE IF NOT EXISTS lease (
    name       text   COLLATE "C" PRIMARY KEY,
    holder     text   NOT NULL,
    token      bigint NOT NULL,
    expires_at bigint NOT NULL
);

-- When the store was at which revision, as far as compaction needs to know.
CREATE TABLE IF NOT EXISTS mark (
    revision bigint PRIMARY KEY,
    at       bigint NOT NULL
);

CREATE TABLE IF NOT EXISTS retired_key (
    id text COLLATE "C" PRIMARY KEY
);

-- The containers as they were last declared. Not ready: the indexes are being built.
CREATE TABLE IF NOT EXISTS container (
    name          text   COLLATE "C" PRIMARY KEY,
    specification text   NOT NULL,
    ready         bigint NOT NULL
);

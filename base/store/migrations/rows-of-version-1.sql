-- What a program of schema version 1 has written: two documents, one of them changed, one deleted; an index
-- entry that ended and one that lasts; a lease. Never edited: later versions must read it.
UPDATE store SET revision = 5, position = 5;
INSERT INTO container (name, specification, ready) VALUES
    ('notes', '{"name":"notes","indexes":{"colour":"/colour"},"secrets":[],"sealed":false}', 1);
INSERT INTO version (position, revision, container, partition, id, previous, expired, etag, body, sealing_key, expires_at) VALUES
    (1, 1, 'notes', 'ada', 'first', NULL, 0, '1-0badcafe', '{"colour":"red"}', NULL, NULL),
    (2, 2, 'notes', 'ada', 'second', NULL, 0, '2-0badcafe', '{"colour":"red"}', NULL, NULL),
    (3, 3, 'notes', 'ada', 'first', 1, 0, '3-0badcafe', '{"colour":"blue"}', NULL, NULL),
    (4, 4, 'notes', 'bob', 'gone', NULL, 0, '4-0badcafe', '{}', NULL, 1763164800000000),
    (5, 5, 'notes', 'bob', 'gone', 4, 1, NULL, NULL, NULL, NULL);
INSERT INTO head (container, partition, id, revision, position, etag, expires_at) VALUES
    ('notes', 'ada', 'first', 3, 3, '3-0badcafe', NULL),
    ('notes', 'ada', 'second', 2, 2, '2-0badcafe', NULL),
    ('notes', 'bob', 'gone', 5, 5, NULL, NULL);
INSERT INTO entry (container, name, value, partition, id, since, until) VALUES
    ('notes', 'colour', 'red', 'ada', 'first', 1, 3),
    ('notes', 'colour', 'blue', 'ada', 'first', 3, NULL),
    ('notes', 'colour', 'red', 'ada', 'second', 2, NULL);
INSERT INTO lease (name, holder, token, expires_at) VALUES ('work', 'ada', 7, 0);
INSERT INTO mark (revision, at) VALUES (2, 1763164800000000);

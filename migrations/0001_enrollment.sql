-- Times are whole seconds since 1970. WITHOUT ROWID: the primary key is the table, so a new row is one row written.

CREATE TABLE token (
  hash TEXT PRIMARY KEY NOT NULL,           -- SHA-256 of the token, hex
  id TEXT NOT NULL,                         -- UUIDv7, what an operator names it by
  kind TEXT NOT NULL,                       -- bootstrap | runner
  tenant TEXT NOT NULL,
  runner_id TEXT,                           -- of a runner token
  note TEXT,
  created_at INTEGER NOT NULL,
  expires_at INTEGER,
  revoked_at INTEGER,
  used_at INTEGER,                          -- of a bootstrap token
  used_by TEXT,                             -- hash of the public key that used it
  enrollment_id TEXT                        -- the enrollment that it was used for
) WITHOUT ROWID;
CREATE UNIQUE INDEX token_id ON token (id);

CREATE TABLE enrollment (
  id TEXT PRIMARY KEY NOT NULL,             -- UUIDv7
  mode TEXT NOT NULL,
  source TEXT NOT NULL,                     -- AWS account, cluster name or empty
  tenant TEXT NOT NULL,
  identity TEXT NOT NULL,                   -- ARN, sub, token id
  runner_id TEXT,
  token_id TEXT,
  instance_id TEXT,
  enrolled_at INTEGER NOT NULL,
  -- The certificate reserved at enrollment: written before it is signed, so that a retry signs the same content.
  public_key_hash TEXT NOT NULL,
  serial TEXT NOT NULL,
  spiffe_id TEXT NOT NULL,
  not_before INTEGER NOT NULL,
  not_after INTEGER NOT NULL,
  issuer TEXT NOT NULL,                     -- key identifier of the issuing certificate, hex
  -- What the fleet knows of it since, rewritten at most once an hour.
  seen_at INTEGER NOT NULL,
  live_until INTEGER NOT NULL,              -- end of the newest certificate known here
  connected INTEGER NOT NULL DEFAULT 0,
  version TEXT,
  ended_at INTEGER,
  ended_reason TEXT
) WITHOUT ROWID;
CREATE INDEX enrollment_public_key ON enrollment (public_key_hash);

CREATE TABLE event (
  id TEXT PRIMARY KEY NOT NULL,             -- the request id, a UUIDv7: sorts by time
  time INTEGER NOT NULL,
  outcome TEXT NOT NULL,
  reason TEXT,
  proven INTEGER NOT NULL,                  -- whether the caller had proven anything
  mode TEXT,
  tenant TEXT,
  source TEXT,
  identity TEXT,
  runner_id TEXT,
  enrollment_id TEXT,
  serial TEXT,
  spiffe_id TEXT,
  instance_id TEXT,
  colo TEXT,
  detail TEXT,
  claimed TEXT                              -- JSON: what the caller said and did not prove
) WITHOUT ROWID;

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
-- These two hold a row only where there is something to do.
CREATE INDEX token_revoked ON token (revoked_at) WHERE revoked_at IS NOT NULL;
-- Empty unless somebody minted a reserved ID by hand: each enrollment looks here, not through every token.
CREATE INDEX token_reserved_id ON token (runner_id) WHERE instr(runner_id, '/') > 0;

CREATE TABLE enrollment (
  id TEXT PRIMARY KEY NOT NULL,             -- UUIDv7
  mode TEXT NOT NULL,
  source TEXT NOT NULL,                     -- AWS account, cluster name or empty
  tenant TEXT NOT NULL,
  identity TEXT NOT NULL,                   -- ARN, sub, token id
  runner_id TEXT,
  token_id TEXT,
  claims TEXT NOT NULL,                     -- JSON: what was proven; decided on anew at each use
  instance_id TEXT,
  enrolled_at INTEGER NOT NULL,
  -- The certificate reserved at enrollment: written before it is signed, so that a retry signs the same content.
  public_key_hash TEXT NOT NULL,
  serial TEXT NOT NULL,
  trust_domain TEXT NOT NULL,
  not_before INTEGER NOT NULL,
  not_after INTEGER NOT NULL,
  issuer TEXT NOT NULL,                     -- key identifier of the issuing certificate, hex
  signature TEXT,                           -- of that certificate, base64url; written after the first answer
  begun_at INTEGER,                         -- when its object began: at the first renewal or connection
  -- The fleet row: what is known of it since, rewritten at most once an hour.
  seen_at INTEGER NOT NULL,
  live_until INTEGER NOT NULL,              -- end of the newest certificate known here, or of a provisioned one
  connected INTEGER NOT NULL DEFAULT 0,
  agent TEXT,                               -- what the runner says it is, `muster/<version>`
  newest_issuer TEXT,                       -- of the newest certificate known here; null: still `issuer`
  ended_at INTEGER,
  ended_reason TEXT,
  cut_at INTEGER,                           -- when the runner's tunnel was last closed for a ban
  drain_at INTEGER                          -- when an operator asked for it to be drained; null again once it was told
) WITHOUT ROWID;
CREATE INDEX enrollment_public_key ON enrollment (public_key_hash);
-- Finds those that share a runner ID, and those of a revoked runner token.
CREATE INDEX enrollment_runner_id ON enrollment (runner_id, live_until) WHERE runner_id IS NOT NULL;
CREATE INDEX enrollment_drain ON enrollment (drain_at) WHERE drain_at IS NOT NULL;

-- Who is cut off by hand.
CREATE TABLE ban (
  kind TEXT NOT NULL,                       -- enrollment | runner-id | identity | token | tenant
  value TEXT NOT NULL,
  note TEXT,
  created_at INTEGER NOT NULL,
  swept_at INTEGER,                         -- when the last runner that it names had been told
  PRIMARY KEY (kind, value)
) WITHOUT ROWID;

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

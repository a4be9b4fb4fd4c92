-- Who is cut off by hand.

CREATE TABLE ban (
  kind TEXT NOT NULL,                       -- enrollment | runner-id | identity | token | tenant
  value TEXT NOT NULL,
  note TEXT,
  created_at INTEGER NOT NULL,
  swept_at INTEGER,                         -- when the last runner that it names had been told
  PRIMARY KEY (kind, value)
) WITHOUT ROWID;

-- Key identifier of the issuer of the newest certificate known here; null: still the one of the enrollment.
ALTER TABLE enrollment ADD COLUMN newest_issuer TEXT;
-- When the runner's tunnel was last closed for a ban.
ALTER TABLE enrollment ADD COLUMN cut_at INTEGER;
-- When an operator asked for it to be drained; empty again when the object of the enrollment has been told.
ALTER TABLE enrollment ADD COLUMN drain_at INTEGER;

-- Of an enrollment that has a runner ID: finds those that share it, and those of a revoked runner token.
CREATE INDEX enrollment_runner_id ON enrollment (runner_id, live_until) WHERE runner_id IS NOT NULL;
-- These hold a row only where there is something to do.
CREATE INDEX token_revoked ON token (revoked_at) WHERE revoked_at IS NOT NULL;
CREATE INDEX enrollment_drain ON enrollment (drain_at) WHERE drain_at IS NOT NULL;

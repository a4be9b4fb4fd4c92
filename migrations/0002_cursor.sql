-- How far a job that goes through a table a part at a time has come.
CREATE TABLE cursor (
  name TEXT PRIMARY KEY NOT NULL,           -- of the job
  at TEXT NOT NULL                          -- the last key that it has seen
) WITHOUT ROWID;

// Writes events after the answer, in the background. Those of requests that end while a write is under way go together in
// the next one: D1 has one writer, and a call costs far more than a row in it.

import { sql } from 'drizzle-orm'
import { logFailure } from '../telemetry/log.ts'
import { type EventRow, event } from './events.ts'
import { compileInsert, compileStatement, runBatch } from './statements.ts'

/** What is written of one request. */
export interface JournalEntry {
  readonly event: EventRow
  /** The signature (base64url, r ‖ s) of the enrollment's first certificate, kept for a retry; the first one stays. */
  readonly signed: { readonly enrollmentId: string; readonly signature: string } | null
}

export interface Journal {
  readonly write: (entry: JournalEntry, waitUntil: (work: Promise<unknown>) => void) => void
}

/** How many entries one write may hold. */
const TOGETHER = 50
/** Milliseconds after which a write counts as dead: Workers ends what goes on 30 s after an answer. */
const LONGEST_WRITE = 30_000

const INSERT_EVENT = compileInsert(event)
const KEEP_SIGNATURE = compileStatement(
  sql`UPDATE enrollment SET signature = ${sql.placeholder('signature')}
    WHERE id = ${sql.placeholder('enrollmentId')} AND signature IS NULL`,
)

export function makeJournal(db: D1Database, clock: () => number): Journal {
  const waiting: JournalEntry[] = []
  let writingSince: number | null = null

  async function writeAll(): Promise<void> {
    while (waiting.length > 0) {
      writingSince = clock()
      await writeTogether(db, waiting.splice(0, TOGETHER))
    }
    writingSince = null
  }

  return {
    write(entry, waitUntil) {
      waiting.push(entry)
      if (writingSince === null || clock() - writingSince > LONGEST_WRITE) waitUntil(writeAll())
    },
  }
}

/** Where they fail together, each is tried alone: none is lost for another's fault. */
async function writeTogether(db: D1Database, entries: readonly JournalEntry[]): Promise<void> {
  const statements = entries.flatMap(({ event: row, signed }) => [
    INSERT_EVENT(db, row),
    ...(signed === null ? [] : [KEEP_SIGNATURE(db, signed)]),
  ])
  try {
    await runBatch(db, statements)
  } catch (error) {
    const [first] = entries
    if (entries.length > 1) for (const entry of entries) await writeTogether(db, [entry])
    else logFailure('event not stored', error, { requestId: first?.event.id })
  }
}

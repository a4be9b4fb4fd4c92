// Writes events after the answer, in the background. Those of requests that end within a tenth of a second go together in
// one write: D1 has one writer, and a call costs far more than a row in it.

import { sql } from 'drizzle-orm'
import { type Clock, type EpochMilliseconds, milliseconds } from '../../protocol/time.ts'
import { logFailure } from '../telemetry/log.ts'
import { type EventRow, event } from './events.ts'
import { compileInsertAll, compileStatement, runBatch } from './statements.ts'

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
const TOGETHER = 100
/** How many may wait: with D1 slow for minutes, they must not fill the memory of the isolate. The log has all events. */
const WAITING = 10_000
/** From one write to the next, unless that one is full. The first of a series is written at once. */
const PAUSE = milliseconds(100)
/** After that another request goes on writing: Workers ends what goes on 30 s after an answer. */
const LONGEST_TURN = milliseconds(5000)

const INSERT_EVENTS = compileInsertAll(event)
/** `signed`: a JSON list of pairs of enrollment and signature. */
const KEEP_SIGNATURES = compileStatement(
  sql`UPDATE enrollment SET signature = signed.value ->> 1 FROM json_each(${sql.placeholder('signed')}) AS signed
    WHERE enrollment.id = signed.value ->> 0 AND enrollment.signature IS NULL`,
)

export function makeJournal(db: D1Database, clock: Clock): Journal {
  const waiting: JournalEntry[] = []
  /** The request whose turn it is to write. */
  let turn: Turn | null = null

  async function writeInTurn(mine: Turn): Promise<void> {
    while (waiting.length > 0 && turn === mine) {
      await writeTogether(db, waiting.splice(0, TOGETHER))
      if (waiting.length > 0 && waiting.length < TOGETHER) await new Promise((resolve) => setTimeout(resolve, PAUSE))
    }
    if (turn === mine) turn = null
  }

  return {
    write(entry, waitUntil) {
      if (waiting.length < WAITING) waiting.push(entry)
      else logFailure('event not stored', new Error(`${WAITING} others wait for D1`), { requestId: entry.event.id })
      const now = clock()
      if (turn !== null && Math.abs(now - turn.since) < LONGEST_TURN) return
      turn = { since: now }
      waitUntil(writeInTurn(turn))
    },
  }
}

interface Turn {
  readonly since: EpochMilliseconds
}

/** Where they fail together, each is tried alone: none is lost for another's fault. */
async function writeTogether(db: D1Database, entries: readonly JournalEntry[]): Promise<void> {
  const signed = entries.flatMap((entry) => (entry.signed === null ? [] : [entry.signed]))
  const events = INSERT_EVENTS(
    db,
    entries.map((entry) => entry.event),
  )
  const pairs = JSON.stringify(signed.map(({ enrollmentId, signature }) => [enrollmentId, signature]))
  try {
    await runBatch(db, signed.length === 0 ? [events] : [events, KEEP_SIGNATURES(db, { signed: pairs })])
  } catch (error) {
    const [first] = entries
    if (entries.length > 1) for (const entry of entries) await writeTogether(db, [entry])
    else logFailure('event not stored', error, { requestId: first?.event.id })
  }
}

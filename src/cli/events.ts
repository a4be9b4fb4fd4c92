// `muster events`: lists what was decided.

import { quote } from '../protocol/characters.ts'
import { isReason, REASONS } from '../protocol/reasons.ts'
import { rfc3339 } from '../protocol/time.ts'
import type { EventRow } from '../worker/store/events.ts'
import { adviceOf } from './operator/advice.ts'
import { CommandError, command, DATABASE, print, type SharedOptions } from './operator/command.ts'
import { newestFirst, table } from './operator/table.ts'
import { stateName } from './store/state-name.ts'

interface EventsOptions extends SharedOptions {
  readonly limit: string
}

const MOST_EVENTS = 1000

export const eventsCommand = () =>
  command('events', 'list enrollments and refusals, newest first', DATABASE)
    .option('--limit <n>', `how many, at most ${MOST_EVENTS}`, '50')
    .addHelpText(
      'after',
      '\nRenewals are in the log alone, and refusals are stored at a capped rate.\n\nExample:\n  muster events --limit 10 --remote',
    )
    .action((options: EventsOptions) => events(options))

async function events(options: EventsOptions): Promise<void> {
  const limit = /^[0-9]{1,9}$/.test(options.limit) ? Number(options.limit) : 0
  if (limit < 1 || limit > MOST_EVENTS) {
    throw new CommandError(`--limit ${quote(options.limit)} must be a whole number from 1 to ${MOST_EVENTS}`)
  }
  const { withDatabases } = await import('./store/database.ts')
  const { listEvents } = await import('../worker/store/events.ts')
  const listed = await withDatabases(options, ({ all }) => Promise.all(all.map((db) => listEvents(db, limit))))
  const rows = newestFirst(listed.flat(), ({ id }) => id).slice(0, limit)
  const state = await stateName(options)
  print(options, rows.map(eventJson), () =>
    rows.length === 0 ? `nothing was decided yet in ${state}` : table(HEADERS, rows.map(cellsOf)),
  )
}

/** What `--json` prints of an event. */
export const eventJson = ({ id, time, reason, ...row }: EventRow) => ({
  requestId: id,
  time: rfc3339(time),
  ...row,
  reason,
  code: reason !== null && isReason(reason) ? REASONS[reason] : null,
  advice: reason === null ? null : adviceOf(reason),
})

const HEADERS = ['TIME', 'OUTCOME', 'REASON', 'MODE', 'TENANT', 'RUNNER ID', 'ENROLLMENT', 'REQUEST ID']
const cellsOf = ({ time, outcome, reason, mode, tenant, runnerId, enrollmentId, id }: EventRow) => [
  rfc3339(time),
  outcome,
  reason,
  mode,
  tenant,
  runnerId,
  enrollmentId,
  id,
]

// `muster events` and `muster explain`: lists what was decided, and explains one decision.

import { adviceOf } from '../protocol/notices.ts'
import { isReason, REASONS } from '../protocol/reasons.ts'
import { rfc3339 } from '../protocol/time.ts'
import { isUuidv7 } from '../protocol/uuid.ts'
import type { EventRow } from '../worker/store/events.ts'
import { CommandError, command, DATABASE, print, type SharedOptions } from './operator/command.ts'

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

export const explainCommand = () =>
  command('explain', 'say why a request was refused, and what to do', DATABASE)
    .argument('<requestId>', 'the requestId of the problem document, or the x-request-id of any answer')
    .addHelpText('after', '\nExample:\n  muster explain 0192f3c4-5678-7abc-8def-0123456789ab --remote')
    .action((id: string, options: SharedOptions) => explain(id, options))

async function events(options: EventsOptions): Promise<void> {
  const limit = /^[0-9]{1,9}$/.test(options.limit) ? Number(options.limit) : 0
  if (limit < 1 || limit > MOST_EVENTS) {
    throw new CommandError(`--limit ${JSON.stringify(options.limit)} must be a whole number from 1 to ${MOST_EVENTS}`)
  }
  const { withDatabase } = await import('./store/database.ts')
  const { listEvents } = await import('../worker/store/events.ts')
  const rows = await withDatabase(options, (db) => listEvents(db, limit))
  print(options, rows.map(toJson), () => (rows.length === 0 ? 'nothing was decided yet' : rows.map(line).join('\n')))
}

async function explain(id: string, options: SharedOptions): Promise<void> {
  if (!isUuidv7(id))
    throw new CommandError(
      `${JSON.stringify(id)} is not a request id: it looks like 0192f3c4-…, from requestId or x-request-id`,
    )
  const { withDatabase } = await import('./store/database.ts')
  const { findEvent } = await import('../worker/store/events.ts')
  const row = await withDatabase(options, (db) => findEvent(db, id))
  if (row === null) {
    throw new CommandError(
      `no event has the request id ${id}: refusals are stored at a capped rate for 30 days; the log has every one`,
    )
  }
  const found = toJson(row)
  print(options, found, () =>
    [
      `${found.time}  ${found.outcome}${found.reason === null ? '' : `: ${found.reason}`}`,
      ...(found.advice === null ? [] : [found.advice]),
      ...details(row).map(([name, value]) => `  ${name.padEnd(12)} ${value}`),
    ].join('\n'),
  )
}

const toJson = ({ id, time, reason, ...row }: EventRow) => ({
  requestId: id,
  time: rfc3339(time),
  ...row,
  reason,
  code: reason !== null && isReason(reason) ? REASONS[reason].code : null,
  advice: reason === null ? null : adviceOf(reason),
})

const line = (row: EventRow): string =>
  [
    rfc3339(row.time),
    row.outcome.padEnd(8),
    (row.reason ?? '').padEnd(18),
    row.mode ?? '',
    row.tenant ?? '',
    row.runnerId ?? '',
    row.id,
  ]
    .filter((part) => part !== '')
    .join('  ')

function details(row: EventRow): [string, string][] {
  const { mode, tenant, source, identity, runnerId, enrollmentId, serial, spiffeId, instanceId, colo, detail } = row
  const claimed = Object.entries(row.claimed ?? {}).map(([name, text]) => [`${name} (claimed)`, text])
  const known = Object.entries({
    mode,
    tenant,
    source,
    identity,
    runnerId,
    enrollmentId,
    serial,
    spiffeId,
    instanceId,
    colo,
    detail,
  })
  return [...known, ...claimed].filter((pair): pair is [string, string] => pair[1] !== null && pair[1] !== '')
}

// `muster ban`, `unban`, `bans` and `drain`: cuts runners off, or asks them to exit.

import { quote } from '../protocol/characters.ts'
import { type EpochSeconds, rfc3339, systemClock, toEpochSeconds } from '../protocol/time.ts'
import type { Ban } from '../trust/bans.ts'
import type { BanRow } from '../worker/store/bans.ts'
import type { Database } from '../worker/store/db.ts'
import { CommandError, command, DATABASE, print, readNote, type SharedOptions } from './operator/command.ts'
import { table } from './operator/table.ts'
import { parseTarget, readTarget, type TargetOptions, withTarget } from './operator/target.ts'
import { otherStates, stateName } from './store/state-name.ts'
import { tokenState } from './token.ts'

interface BanOptions extends TargetOptions {
  readonly note?: string
}

export const banCommand = () =>
  withTarget(
    command('ban', 'cut runners off: no enrollment, renewal or connection, and open tunnels are closed', [
      ...DATABASE,
      'trust',
    ]),
  )
    .option('--note <text>', 'why; `muster bans` lists it')
    .addHelpText('after', BAN_HELP)
    .action((options: BanOptions) => ban(options))

export const unbanCommand = () =>
  withTarget(command('unban', 'lift a ban', DATABASE))
    .addHelpText('after', '\nName exactly one, as the ban does.\n\nExample:\n  muster unban --tenant acme --remote')
    .action((options: TargetOptions) => unban(options))

export const bansCommand = () =>
  command('bans', 'list who is banned, oldest first', DATABASE)
    .addHelpText('after', '\nExample:\n  muster bans --remote')
    .action((options: SharedOptions) => bans(options))

export const drainCommand = () =>
  withTarget(command('drain', 'ask runners to finish what they do and to exit', DATABASE))
    .addHelpText('after', DRAIN_HELP)
    .action((options: TargetOptions) => drain(options))

const BAN_HELP = `
Name exactly one; there are no patterns. A role stands for all its sessions, an account for all in it.
It holds everywhere within 30 seconds, and tunnels are closed within a minute.

Examples:
  muster ban --runner-id build-7 --note "stolen laptop" --remote
  muster ban --identity arn:aws:iam::123456789012:role/runner --remote`

const DRAIN_HELP = `
Name exactly one. Connected runners are asked within a minute, others when they next connect.

Example:
  muster drain --tenant acme --remote`

async function ban(options: BanOptions): Promise<void> {
  const named = readTarget(options)
  const note = readNote(options.note)
  const now = toEpochSeconds(systemClock())
  const { readTrust } = await import('./operator/trust-file.ts')
  // A trust file that cannot be read is no obstacle in an emergency.
  const trust = await readTrust(options.trust).catch(() => null)
  const state = await stateName(options)
  const { withDatabases } = await import('./store/database.ts')
  const { countNamed, insertBan, listBans } = await import('../worker/store/bans.ts')
  const { mapsBanned } = await import('../trust/bans.ts')
  const { target, live } = await withDatabases(options, async ({ all, writeEach }) => {
    const target = parseTarget(named, null)
    // A database that is away must not keep the ban out of the others.
    const counted = await Promise.allSettled(all.map((db) => countNamed(db, target, now)))
    const live = counted.reduce((sum, count) => sum + (count.status === 'fulfilled' ? count.value : 0), 0)
    if (live === 0 && counted.every(({ status }) => status === 'fulfilled')) {
      const listed = (await Promise.all(all.map(listBans))).flat()
      const stands = listed.some(({ kind, value }) => kind === target.kind && value === target.value)
      // What the trust file lacks may still have runners; without any it is misspelt.
      if (!stands) {
        parseTarget(named, trust)
        await refuseEnded(all, target, now, `${state} (${otherStates(options)})`)
      }
    }
    await writeEach((db) => insertBan(db, { ...target, note, createdAt: now }))
    return { target, live }
  })
  print(options, { ...target, note, createdAt: rfc3339(now), runners: live, state }, () =>
    [
      `banned ${target.kind} ${target.value}: ${countText(live)} now${live === 0 ? '; it applies to later ones' : ''}`,
      'it holds everywhere within 30 seconds; tunnels are closed within a minute',
      ...(live === 0 && trust !== null && !mapsBanned(trust, target)
        ? [`${options.trust} maps nobody whom it names: check the spelling; upper and lower case differ`]
        : []),
      `written to ${state}`,
    ].join('\n'),
  )
}

const total = (counts: readonly number[]): number => counts.reduce((sum, count) => sum + count, 0)

/** An enrollment without a live certificate, and a token that nobody can enroll with, never match again. */
async function refuseEnded(
  all: readonly Database[],
  { kind, value }: Ban,
  now: EpochSeconds,
  state: string,
): Promise<void> {
  const { askAll } = await import('../worker/store/ask-all.ts')
  if (kind === 'enrollment') {
    const { findEnrollment } = await import('../worker/store/enrollments.ts')
    const row = await askAll(all, (db) => findEnrollment(db, value))
    throw new CommandError(
      row === null
        ? `--enrollment "${value}" is not in ${state}: see muster events`
        : `--enrollment "${value}" has ended, and nobody can use it again: ban --identity ${quote(row.identity)} to keep its holder out`,
    )
  }
  if (kind === 'token') {
    const { findTokenById } = await import('../worker/store/tokens.ts')
    const row = await askAll(all, (db) => findTokenById(db, value))
    if (row === null) throw new CommandError(`--token "${value}" is not in ${state}: see muster token list`)
    const over = tokenState(row, now)
    if (over !== 'live') {
      throw new CommandError(`--token "${value}" is ${over} and has no live enrollment: nobody can enroll with it`)
    }
  }
}

const countText = (live: number): string => (live === 1 ? '1 live enrollment' : `${live} live enrollments`)

async function unban(options: TargetOptions): Promise<void> {
  const target = parseTarget(readTarget(options), null)
  const now = toEpochSeconds(systemClock())
  const state = await stateName(options)
  const { withDatabases } = await import('./store/database.ts')
  const { countNamed, deleteBan } = await import('../worker/store/bans.ts')
  const live = await withDatabases(options, async ({ all, writeEach }) => {
    const gone = await writeEach((db) => deleteBan(db, target))
    return gone.includes(true) ? total(await Promise.all(all.map((db) => countNamed(db, target, now)))) : null
  })
  if (live === null) {
    throw new CommandError(
      `there is no ban of ${target.kind} ${quote(target.value)} in ${state} (${otherStates(options)}): see muster bans`,
    )
  }
  print(options, { ...target, runners: live, state }, () =>
    [
      `lifted the ban of ${target.kind} ${target.value}: ${countText(live)}; everywhere within 30 seconds`,
      `written to ${state}`,
    ].join('\n'),
  )
}

async function bans(options: SharedOptions): Promise<void> {
  const now = toEpochSeconds(systemClock())
  const state = await stateName(options)
  const { withDatabases } = await import('./store/database.ts')
  const { countNamed, listBans } = await import('../worker/store/bans.ts')
  const rows = await withDatabases(options, async ({ all }) => {
    const listed = merged(await Promise.all(all.map(listBans)))
    const count = async (row: BanRow) => total(await Promise.all(all.map((db) => countNamed(db, row, now))))
    return Promise.all(listed.map(async (row) => ({ ...toJson(row), runners: await count(row) })))
  })
  print(options, rows, () =>
    rows.length === 0
      ? `nobody is banned in ${state}`
      : [table(HEADERS, rows.map(cellsOf)), ...rows.filter(({ everywhere }) => !everywhere).map(missingText)].join(
          '\n',
        ),
  )
}

async function drain(options: TargetOptions): Promise<void> {
  const target = parseTarget(readTarget(options), null)
  const state = await stateName(options)
  const { withDatabases } = await import('./store/database.ts')
  const { requestDrain } = await import('../worker/store/bans.ts')
  const now = toEpochSeconds(systemClock())
  const enrollments = await withDatabases(options, async ({ writeEach }) =>
    (await writeEach((db) => requestDrain(db, target, now))).flat(),
  )
  if (enrollments.length === 0) {
    throw new CommandError(
      `no live enrollment in ${state} has the ${target.kind} ${quote(target.value)} (${otherStates(options)}): see muster events`,
    )
  }
  print(options, { enrollments, state }, () =>
    [
      ...enrollments,
      `asked ${countText(enrollments.length)} to exit: connected ones within a minute, others when they next connect`,
      `written to ${state}`,
    ].join('\n'),
  )
}

interface ListedBan extends BanRow {
  /** Whether every database has it. */
  readonly everywhere: boolean
}

/** Each ban once, oldest first. Every shard has a copy; tunnels are closed once they are in all. */
function merged(lists: readonly (readonly BanRow[])[]): ListedBan[] {
  const bans = Map.groupBy(lists.flat(), ({ kind, value }) => `${kind} ${value}`)
  const newest = [...bans.values()].flatMap((copies) => {
    const [last] = copies.toSorted((a, b) => b.createdAt - a.createdAt)
    const everywhere = copies.length === lists.length
    const closed = everywhere && copies.every(({ sweptAt }) => sweptAt !== null)
    return last === undefined ? [] : [{ ...last, sweptAt: closed ? last.sweptAt : null, everywhere }]
  })
  return newest.sort((a, b) => a.createdAt - b.createdAt)
}

const toJson = ({ kind, value, note, createdAt, sweptAt, everywhere }: ListedBan) => ({
  kind,
  value,
  note,
  createdAt: rfc3339(createdAt),
  /** When the tunnels of all runners that it names had been closed; null: not yet. */
  tunnelsClosedAt: sweptAt === null ? null : rfc3339(sweptAt),
  everywhere,
})

const missingText = ({ kind, value }: Pick<ListedBan, 'kind' | 'value'>): string =>
  `the ban of ${kind} ${value} is not in every database, so the tenants of some are not held to it: ban again, or unban`

const HEADERS = ['SINCE', 'KIND', 'VALUE', 'LIVE ENROLLMENTS', 'TUNNELS CLOSED', 'NOTE']
const cellsOf = (row: ReturnType<typeof toJson> & { readonly runners: number }) => [
  row.createdAt,
  row.kind,
  row.value,
  String(row.runners),
  row.tunnelsClosedAt ?? 'not yet',
  row.note,
]

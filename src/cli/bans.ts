// `muster ban`, `unban`, `bans` and `drain`: cuts runners off, or asks them to exit.

import { rfc3339, systemClock, toEpochSeconds } from '../protocol/time.ts'
import type { BanRow } from '../worker/store/bans.ts'
import { CommandError, command, DATABASE, print, readNote, type SharedOptions } from './operator/command.ts'
import { readTarget, type TargetOptions, withTarget } from './operator/target.ts'

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
  command('bans', 'list who is banned, oldest first', DATABASE).action((options: SharedOptions) => bans(options))

export const drainCommand = () =>
  withTarget(command('drain', 'ask runners to finish what they do and to exit', DATABASE))
    .addHelpText('after', DRAIN_HELP)
    .action((options: TargetOptions) => drain(options))

const BAN_HELP = `
Name exactly one. Values are compared as they are written: no patterns.
It holds everywhere within 30 seconds, and tunnels are closed within a minute.

Example:
  muster ban --runner-id build-7 --note "stolen laptop" --remote`

const DRAIN_HELP = `
Name exactly one. Connected runners are asked within a minute, others when they next connect.

Example:
  muster drain --tenant acme --remote`

async function ban(options: BanOptions): Promise<void> {
  const target = readTarget(options)
  const note = readNote(options.note)
  const now = toEpochSeconds(systemClock())
  const { withDatabase } = await import('./store/database.ts')
  const { countNamed, insertBan, listBans } = await import('../worker/store/bans.ts')
  const runners = await withDatabase(options, async (db) => {
    const live = await countNamed(db, target, now)
    const stands = (await listBans(db)).some(({ kind, value }) => kind === target.kind && value === target.value)
    if (target.kind === 'tenant' && live === 0 && !stands) await refuseUnknownTenant(options, target.value)
    await insertBan(db, { ...target, note, createdAt: now })
    return live
  })
  print(options, { ...target, note, createdAt: rfc3339(now), runners }, () =>
    [
      runners === 0
        ? `banned ${target.kind} ${target.value}: 0 live runners; it applies to later ones`
        : `banned ${target.kind} ${target.value}: ${countText(runners)} now`,
      'it holds everywhere within 30 seconds; their tunnels are closed within a minute',
    ].join('\n'),
  )
}

/** A misspelt tenant would ban nobody. A trust file that cannot be read is no obstacle in an emergency. */
async function refuseUnknownTenant({ trust: path }: SharedOptions, tenant: string): Promise<void> {
  const { readTrust } = await import('./operator/trust-file.ts')
  const trust = await readTrust(path).catch(() => null)
  if (trust !== null && !trust.tenants.includes(tenant)) {
    throw new CommandError(`--tenant ${JSON.stringify(tenant)} is not in ${path}, and nobody is enrolled in it`)
  }
}

const countText = (runners: number): string => (runners === 1 ? '1 live runner' : `${runners} live runners`)

async function unban(options: TargetOptions): Promise<void> {
  const target = readTarget(options)
  const { withDatabase } = await import('./store/database.ts')
  const { deleteBan } = await import('../worker/store/bans.ts')
  if (!(await withDatabase(options, (db) => deleteBan(db, target)))) {
    throw new CommandError(`there is no ban of ${target.kind} ${JSON.stringify(target.value)}: see muster bans`)
  }
  print(options, target, () => `lifted the ban of ${target.kind} ${target.value}; everywhere within 30 seconds`)
}

async function bans(options: SharedOptions): Promise<void> {
  const { withDatabase } = await import('./store/database.ts')
  const { listBans } = await import('../worker/store/bans.ts')
  const rows = await withDatabase(options, listBans)
  print(options, rows.map(toJson), () =>
    rows.length === 0 ? 'nobody is banned' : rows.map((row) => lineOf(toJson(row))).join('\n'),
  )
}

async function drain(options: TargetOptions): Promise<void> {
  const target = readTarget(options)
  const { withDatabase } = await import('./store/database.ts')
  const { requestDrain } = await import('../worker/store/bans.ts')
  const now = toEpochSeconds(systemClock())
  const enrollments = await withDatabase(options, (db) => requestDrain(db, target, now))
  if (enrollments.length === 0) {
    throw new CommandError(`no live runner has the ${target.kind} ${JSON.stringify(target.value)}: see muster events`)
  }
  print(options, { enrollments }, () =>
    [
      ...enrollments,
      `asked ${countText(enrollments.length)} to exit: connected ones within a minute, others when they next connect`,
    ].join('\n'),
  )
}

const toJson = ({ kind, value, note, createdAt, sweptAt }: BanRow) => ({
  kind,
  value,
  note,
  createdAt: rfc3339(createdAt),
  /** When the tunnels of all runners that it names had been closed; null: not yet. */
  tunnelsClosedAt: sweptAt === null ? null : rfc3339(sweptAt),
})

const lineOf = ({ kind, value, note, createdAt, tunnelsClosedAt }: ReturnType<typeof toJson>): string =>
  [createdAt, kind.padEnd(10), value, tunnelsClosedAt === null ? '(tunnels are being closed)' : '', note ?? '']
    .filter((part) => part !== '')
    .join('  ')

// `muster ban`, `muster unban`, `muster bans` and `muster drain`: runners cut off, or sent home, by hand.

import { isPrintable } from '../protocol/characters.ts'
import { MAX_NOTE_CHARACTERS } from '../protocol/limits.ts'
import { rfc3339, systemClock, toEpochSeconds } from '../protocol/time.ts'
import type { BanRow } from '../worker/store/bans.ts'
import { type NamingOptions, named, naming } from './naming.ts'
import { CommandError, command, print, type SharedOptions } from './operator/command.ts'

interface BanOptions extends NamingOptions {
  readonly note?: string
}

export const banCommand = () =>
  naming(command('ban', 'cut runners off: no enrollment, renewal or connection, and open tunnels are closed'))
    .option('--note <text>', 'why, shown in the list')
    .addHelpText('after', HELP)
    .action((options: BanOptions) => ban(options))

export const unbanCommand = () =>
  naming(command('unban', 'lift a ban')).action((options: NamingOptions) => unban(options))

export const bansCommand = () =>
  command('bans', 'who is banned, oldest first').action((options: SharedOptions) => bans(options))

export const drainCommand = () =>
  naming(command('drain', 'ask runners to finish what they do and to exit'))
    .addHelpText(
      'after',
      '\nName exactly one. Connected runners are asked within a minute, others when they next connect.',
    )
    .action((options: NamingOptions) => drain(options))

const HELP = `
Name exactly one. Values count as they are written: no patterns.
It holds everywhere within 30 seconds, and tunnels are closed within a minute.`

async function ban(options: BanOptions): Promise<void> {
  const whom = named(options)
  const { note = null } = options
  if (note !== null && (note.length > MAX_NOTE_CHARACTERS || !isPrintable(note))) {
    throw new CommandError(`--note must be at most ${MAX_NOTE_CHARACTERS} printable characters`)
  }
  const now = toEpochSeconds(systemClock())
  const { withDatabase } = await import('./store/database.ts')
  const { countNamed, insertBan, listBans } = await import('../worker/store/bans.ts')
  const runners = await withDatabase(options, async (db) => {
    const live = await countNamed(db, whom, now)
    const stands = (await listBans(db)).some(({ kind, value }) => kind === whom.kind && value === whom.value)
    if (whom.kind === 'tenant' && live === 0 && !stands) await refuseUnknownTenant(options, whom.value)
    await insertBan(db, { ...whom, note, createdAt: now })
    return live
  })
  print(options, { ...whom, note, createdAt: rfc3339(now), runners }, () =>
    [
      runners === 0
        ? `banned ${whom.kind} ${whom.value}: 0 live runners; the ban stands for later ones`
        : `banned ${whom.kind} ${whom.value}: ${countText(runners)} now`,
      'it holds everywhere within 30 seconds; their tunnels are closed within a minute',
    ].join('\n'),
  )
}

/** A slip of the pen would ban nobody. A trust file that does not load stands in nobody's way in an emergency. */
async function refuseUnknownTenant({ trust: path }: SharedOptions, tenant: string): Promise<void> {
  const { readTrust } = await import('./operator/trust-file.ts')
  const trust = await readTrust(path).catch(() => null)
  if (trust !== null && !trust.tenants.includes(tenant)) {
    throw new CommandError(`--tenant ${JSON.stringify(tenant)} is not in ${path}, and nobody is enrolled in it`)
  }
}

const countText = (runners: number): string => (runners === 1 ? '1 live runner' : `${runners} live runners`)

async function unban(options: NamingOptions): Promise<void> {
  const whom = named(options)
  const { withDatabase } = await import('./store/database.ts')
  const { deleteBan } = await import('../worker/store/bans.ts')
  if (!(await withDatabase(options, (db) => deleteBan(db, whom)))) {
    throw new CommandError(`there is no ban of ${whom.kind} ${JSON.stringify(whom.value)}: see muster bans`)
  }
  print(options, whom, () => `lifted the ban of ${whom.kind} ${whom.value}; it counts within 30 seconds`)
}

async function bans(options: SharedOptions): Promise<void> {
  const { withDatabase } = await import('./store/database.ts')
  const { listBans } = await import('../worker/store/bans.ts')
  const rows = await withDatabase(options, listBans)
  print(options, rows.map(shown), () =>
    rows.length === 0 ? 'nobody is banned' : rows.map((row) => lineOf(shown(row))).join('\n'),
  )
}

async function drain(options: NamingOptions): Promise<void> {
  const whom = named(options)
  const { withDatabase } = await import('./store/database.ts')
  const { requestDrain } = await import('../worker/store/bans.ts')
  const now = toEpochSeconds(systemClock())
  const enrollments = await withDatabase(options, (db) => requestDrain(db, whom, now))
  if (enrollments.length === 0) {
    throw new CommandError(`no live runner has the ${whom.kind} ${JSON.stringify(whom.value)}: see muster events`)
  }
  print(options, { enrollments }, () =>
    [...enrollments, `asked of ${enrollments.length}; those that are connected hear of it within a minute`].join('\n'),
  )
}

const shown = ({ kind, value, note, createdAt, sweptAt }: BanRow) => ({
  kind,
  value,
  note,
  createdAt: rfc3339(createdAt),
  /** When the last runner that it names had been told; null: not all have. */
  told: sweptAt === null ? null : rfc3339(sweptAt),
})

const lineOf = ({ kind, value, note, createdAt, told }: ReturnType<typeof shown>): string =>
  [createdAt, kind.padEnd(10), value, told === null ? '(runners are being told)' : '', note ?? '']
    .filter((part) => part !== '')
    .join('  ')

// `muster ban`, `muster unban` and `muster bans`: who is cut off by hand.

import { isLabel } from '../protocol/labels.ts'
import { MAX_NOTE_CHARACTERS } from '../protocol/limits.ts'
import { isTenantSlug } from '../protocol/spiffe-id.ts'
import { rfc3339, systemClock, toEpochSeconds } from '../protocol/time.ts'
import { isUuidv7 } from '../protocol/uuid.ts'
import { BAN_KINDS, type Ban, type BanKind } from '../trust/bans.ts'
import type { BanRow } from '../worker/store/bans.ts'
import { CommandError, command, print, type SharedOptions } from './command.ts'

/** The options that name runners; commander's names of `BAN_KINDS`. */
export interface NamingOptions extends SharedOptions {
  readonly enrollment?: string
  readonly runnerId?: string
  readonly identity?: string
  readonly token?: string
  readonly tenant?: string
}

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

const HELP = `
Name exactly one. Values count as they are written: no patterns.
It holds everywhere within 30 seconds, and tunnels are closed within a minute.`

/** Adds the options of which one names whom a command is about. */
export function naming(of: ReturnType<typeof command>) {
  return of
    .option('--enrollment <id>', 'one enrollment')
    .option('--runner-id <id>', 'a runner ID, as build-7 or prod-eks/ip-10-0-1-5_ec2_internal')
    .option('--identity <arn-or-sub>', 'an AWS ARN, or the sub of a ServiceAccount')
    .option('--token <id>', 'whoever enrolled with this token')
    .option('--tenant <slug>', 'everybody in a tenant')
}

const LONGEST_VALUE = 2048

/** The one that the options name. */
export function named(options: NamingOptions): Ban {
  const values: Record<BanKind, string | undefined> = {
    enrollment: options.enrollment,
    'runner-id': options.runnerId,
    identity: options.identity,
    token: options.token,
    tenant: options.tenant,
  }
  const given = BAN_KINDS.flatMap((kind) => (values[kind] === undefined ? [] : [{ kind, value: values[kind] }]))
  const [one, ...more] = given
  if (one === undefined || more.length > 0) {
    throw new CommandError(`name exactly one of ${BAN_KINDS.map((kind) => `--${kind}`).join(', ')}`)
  }
  const fault = faultOf(one)
  if (fault !== null) throw new CommandError(`--${one.kind} ${JSON.stringify(one.value)} ${fault}`)
  return one
}

function faultOf({ kind, value }: Ban): string | null {
  switch (kind) {
    case 'enrollment':
    case 'token':
      return isUuidv7(value) ? null : 'is not an id: it looks like 0192f3c4-…'
    case 'tenant':
      return isTenantSlug(value) ? null : 'is not a tenant: a-z, 0-9 and -, at most 63'
    case 'identity':
    case 'runner-id':
      return value !== '' && value.length <= LONGEST_VALUE && isLabel(value) ? null : 'is not one line of text'
  }
}

async function ban(options: BanOptions): Promise<void> {
  const whom = named(options)
  const { note = null } = options
  if (note !== null && (note.length > MAX_NOTE_CHARACTERS || !isLabel(note))) {
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
  const { readTrust } = await import('./trust.ts')
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

// `muster token`: mints, lists and revokes the tokens that runners enroll with.

import { quote } from '../protocol/characters.ts'
import { DEFAULT_TOKEN_TTL } from '../protocol/limits.ts'
import {
  addSeconds,
  type EpochSeconds,
  LAST_TIME,
  rfc3339,
  type Seconds,
  systemClock,
  toEpochSeconds,
} from '../protocol/time.ts'
import { hashToken, isMintableRunnerId, kindOfToken, mintToken, type TokenKind } from '../protocol/tokens.ts'
import { uuidv7 } from '../protocol/uuid.ts'
import { parseDuration } from '../trust/duration.ts'
import { shardOf } from '../trust/shards.ts'
import type { TokenRow } from '../worker/store/tokens.ts'
import { requireCheckout } from './edge/project.ts'
import { CommandError, command, DATABASE, group, print, readNote, type SharedOptions } from './operator/command.ts'
import { newestFirst, table } from './operator/table.ts'
import { otherStates, stateName } from './store/state-name.ts'

interface MintOptions extends SharedOptions {
  readonly tenant?: string
  readonly runnerId?: string
  readonly ttl?: string
  readonly note?: string
}

const LISTED = 1000

export function tokenCommand() {
  const token = group('token', 'mint, list and revoke the tokens that runners enroll with')
  token.addCommand(
    command('mint', 'mint a token; it is printed once and stored as a hash', [...DATABASE, 'trust'])
      .option('--tenant <slug>', 'the tenant that its holder enrolls into (required without --runner-id)')
      .option('--runner-id <id>', 'mint the long-lived token of this one runner (default tenant: bootstrapTenant)')
      .option(
        '--ttl <duration>',
        'how long it may be used: 1s and up, as 90s, 15m, 1h30m (default: 1h; none with --runner-id)',
      )
      .option('--note <text>', 'what it is for; `muster token list` lists it')
      .addHelpText('after', MINT_HELP)
      .action((options: MintOptions) => mint(options)),
  )
  token.addCommand(
    command('list', 'list what was minted, newest first', DATABASE)
      .addHelpText('after', '\nExample:\n  muster token list --remote')
      .action((options: SharedOptions) => list(options)),
  )
  token.addCommand(
    command('revoke', 'end a token, and the enrollments that it made', DATABASE)
      .argument('<id>', 'the id that `mint` and `list` print')
      .addHelpText('after', '\nExample:\n  muster token revoke 0192f3c4-5678-7abc-8def-0123456789ab --remote')
      .action((id: string, options: SharedOptions) => revoke(id, options)),
  )
  return token
}

const MINT_HELP = `
Examples:
  muster token mint --tenant acme                     a single-use token for one runner, good for an hour
  muster token mint --tenant acme --ttl 15m --note ci
  muster token mint --runner-id build-7               a token that one machine outside Kubernetes keeps
  muster token mint --tenant acme --remote            the same in the deployed Muster, for its own runners`

interface Minted {
  readonly id: string
  readonly token: string
  readonly tenant: string
  readonly runnerId: string | null
  readonly expiresAt: string | null
}

/** Mints, and says what a person has to know of it, a line each. */
export async function mintWith(options: MintOptions): Promise<{ readonly minted: Minted; readonly notes: string[] }> {
  requireCheckout('a command on the database')
  const { otherTrustText, readCompiled, requireTenant, unlistedText } = await import('./operator/trust-file.ts')
  const compiled = await readCompiled(options.trust)
  const { trust } = compiled
  const unlisted = unlistedText(compiled)
  const kind: TokenKind = options.runnerId === undefined ? 'bootstrap' : 'runner'
  const tenant = options.tenant ?? (kind === 'runner' ? trust.bootstrapTenant : undefined)
  if (tenant === undefined) throw new CommandError('name the tenant with --tenant, or the runner with --runner-id')
  requireTenant(trust, tenant, options.trust)
  const { runnerId = null } = options
  // It would stand in every list.
  if (runnerId !== null && kindOfToken(runnerId) !== null) {
    throw new CommandError('--runner-id is a token itself: give the runner a name of its own')
  }
  if (runnerId !== null && !isMintableRunnerId(runnerId)) {
    throw new CommandError(
      `--runner-id ${quote(runnerId)} must be 1 to 128 of A-Z a-z 0-9 _ - ("/" and "." are reserved)`,
    )
  }
  const note = readNote(options.note)
  const now = toEpochSeconds(systemClock())
  const ttl = options.ttl === undefined ? (kind === 'runner' ? null : DEFAULT_TOKEN_TTL) : readTtl(options.ttl, now)
  const expiresAt = ttl === null ? null : addSeconds(now, ttl)
  const secret = mintToken(kind)
  const id = uuidv7(systemClock())
  const { withDatabases } = await import('./store/database.ts')
  const { insertToken } = await import('../worker/store/tokens.ts')
  const row = { hash: await hashToken(secret), id, kind, tenant, runnerId, note, createdAt: now, expiresAt }
  const running = await withDatabases(options, async ({ of }, edge) => {
    await insertToken(of(trust, tenant), row)
    return edge?.trustHash
  })
  const minted = { id, token: secret, tenant, runnerId, expiresAt: timeText(expiresAt) }
  const state = await stateName(options, shardOf(trust.shards, tenant))
  const notes = [
    ...aboutMinted(minted),
    ...(tenant === trust.bootstrapTenant && unlisted !== null
      ? [`${tenant} is the bootstrapTenant of ${options.trust}; it has no entry there, and ${unlisted}`]
      : []),
    `written to ${state}${options.remote ? '' : '; with --remote, to the deployed Muster'}`,
    ...otherTrustText(running, trust, options.trust),
  ]
  return { minted, notes }
}

async function mint(options: MintOptions): Promise<void> {
  const { minted, notes } = await mintWith(options)
  print(options, minted, () => [minted.token, '', ...notes].join('\n'))
}

const timeText = (time: EpochSeconds | null): string | null => (time === null ? null : rfc3339(time))

const aboutMinted = (minted: Minted): string[] => [
  `id ${minted.id}, tenant ${minted.tenant}${minted.runnerId === null ? '' : `, runner ${minted.runnerId}`}`,
  `${minted.runnerId === null ? 'single use' : 'for this runner alone'}, ${minted.expiresAt === null ? 'no expiry' : `until ${minted.expiresAt}`}; it is not shown again`,
]

function readTtl(text: string, now: EpochSeconds): Seconds {
  const ttl = parseDuration(text)
  if (ttl === null || ttl < 1)
    throw new CommandError(`--ttl ${quote(text)} must be a duration of 1s and up, as 90s, 15m or 1h30m`)
  if (addSeconds(now, ttl) > LAST_TIME) throw new CommandError(`--ttl ${quote(text)} ends after ${rfc3339(LAST_TIME)}`)
  return ttl
}

async function list(options: SharedOptions): Promise<void> {
  const { withDatabases } = await import('./store/database.ts')
  const { listTokens } = await import('../worker/store/tokens.ts')
  const now = toEpochSeconds(systemClock())
  const listed = await withDatabases(options, ({ all }) => Promise.all(all.map((db) => listTokens(db, LISTED))))
  const rows = newestFirst(listed.flat(), ({ id }) => id).slice(0, LISTED)
  const state = await stateName(options)
  const tokens = rows.map((row) => ({
    id: row.id,
    kind: row.kind,
    tenant: row.tenant,
    runnerId: row.runnerId,
    state: tokenState(row, now),
    createdAt: rfc3339(row.createdAt),
    expiresAt: timeText(row.expiresAt),
    usedAt: timeText(row.usedAt),
    revokedAt: timeText(row.revokedAt),
    enrollmentId: row.enrollmentId,
    note: row.note,
  }))
  print(options, tokens, () =>
    tokens.length === 0
      ? `no token was minted yet in ${state}: muster token mint --tenant …`
      : table(
          ['ID', 'KIND', 'TENANT', 'RUNNER ID', 'STATE', 'SINCE OR UNTIL', 'ENROLLMENT', 'NOTE'],
          tokens.map((t) => [t.id, t.kind, t.tenant, t.runnerId, t.state, momentOf(t), t.enrollmentId, t.note]),
        ),
  )
}

/** When the token was revoked or used, else when it expires. */
const momentOf = (t: { revokedAt: string | null; usedAt: string | null; expiresAt: string | null }): string =>
  t.revokedAt ?? t.usedAt ?? t.expiresAt ?? 'no expiry'

/** A token that is live can be enrolled with. */
export function tokenState(row: TokenRow, now: EpochSeconds): 'live' | 'used' | 'revoked' | 'expired' {
  if (row.revokedAt !== null) return 'revoked'
  if (row.usedAt !== null) return 'used'
  return row.expiresAt !== null && row.expiresAt <= now ? 'expired' : 'live'
}

async function revoke(given: string, options: SharedOptions): Promise<void> {
  if (kindOfToken(given) !== null) {
    throw new CommandError('this is a token itself: name its id, from `muster token list`')
  }
  // Ids are made in lower case.
  const id = given.toLowerCase()
  const { withDatabases } = await import('./store/database.ts')
  const { askAll } = await import('../worker/store/ask-all.ts')
  const { revokeToken } = await import('../worker/store/tokens.ts')
  const now = toEpochSeconds(systemClock())
  const row = await withDatabases(options, ({ all }) => askAll(all, (db) => revokeToken(db, id, now)))
  const state = await stateName(options)
  if (row === null || row.revokedAt === null) {
    throw new CommandError(
      `there is no token ${quote(id)} in ${state} (${otherStates(options)}): see muster token list`,
    )
  }
  const revokedAt = rfc3339(row.revokedAt)
  print(
    options,
    { id, revokedAt, state },
    () => `revoked ${id} in ${state}; enrollments that it made end at their next renewal or within a minute`,
  )
}

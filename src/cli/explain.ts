// `muster explain`: says why a request was refused, what the trust file asks for, and what to do.

import { quote } from '../protocol/characters.ts'
import { rfc3339, systemClock, toEpochSeconds } from '../protocol/time.ts'
import { isUuidv7 } from '../protocol/uuid.ts'
import { type Ban, findBan } from '../trust/bans.ts'
import { demandsOf } from '../trust/demands.ts'
import type { Database } from '../worker/store/db.ts'
import type { EventRow } from '../worker/store/events.ts'
import type { TokenRow } from '../worker/store/tokens.ts'
import { eventJson } from './events.ts'
import { CommandError, command, DATABASE, print, type SharedOptions } from './operator/command.ts'
import { otherStates, stateName } from './store/state-name.ts'

export const explainCommand = () =>
  command('explain', 'say why a request was refused, and what to do', [...DATABASE, 'trust'])
    .argument('<requestId>', 'the requestId of the problem document, or the x-request-id of any answer')
    .addHelpText('after', EXPLAIN_HELP)
    .action((id: string, options: SharedOptions) => explain(id, options))

const EXPLAIN_HELP = `
What the trust file asks for is read from the file that --trust names, which is not always the deployed one.

Example:
  muster explain 0192f3c4-5678-7abc-8def-0123456789ab --remote`

async function explain(id: string, options: SharedOptions): Promise<void> {
  if (!isUuidv7(id)) {
    throw new CommandError(`${quote(id)} is not a request id: it looks like 0192f3c4-…, from requestId or x-request-id`)
  }
  const { withDatabases } = await import('./store/database.ts')
  const { askAll } = await import('../worker/store/ask-all.ts')
  const { findEvent } = await import('../worker/store/events.ts')
  const { row, token, ban, running } = await withDatabases(options, async ({ all }, edge) => {
    const row = await askAll(all, (db) => findEvent(db, id))
    const token = row && (await askAll(all, (db) => tokenOf(db, row)))
    const ban = row && (await askAll(all, (db) => banOf(db, row)))
    return { row, token, ban, running: edge?.trustHash }
  })
  if (row === null) {
    throw new CommandError(
      `no event in ${await stateName(options)} has the request id ${id} (${otherStates(options)}); refusals are stored at a capped rate for 30 days, the log has every one`,
    )
  }
  const asked = await askedFor(row, options.trust, running)
  const found = { ...eventJson(row), asked: asked.lines, tokenUsedBy: token?.enrollmentId ?? null, ban }
  print(options, found, () =>
    [
      `${found.time}  ${found.outcome}${found.reason === null ? '' : `: ${found.reason}`}`,
      ...(found.advice === null ? [] : [found.advice]),
      ...(row.reason === 'token_used' ? usesOf(token) : []),
      ...(ban === null ? [] : [`It is the ban of ${ban.kind} ${ban.value}.`]),
      ...asked.lines.map((line) => `${options.trust}: ${line}`),
      ...asked.notes,
      ...details(row).map(([name, value]) => `  ${name.padEnd(12)} ${value}`),
    ].join('\n'),
  )
}

/** What the trust file asks for. One that cannot be read is no reason to explain nothing. */
async function askedFor(
  row: EventRow,
  path: string,
  running: string | undefined,
): Promise<{ lines: string[]; notes: string[] }> {
  if (row.reason === null) return { lines: [], notes: [] }
  const { otherTrustText, readTrust } = await import('./operator/trust-file.ts')
  try {
    const trust = await readTrust(path)
    return { lines: demandsOf(trust, row), notes: otherTrustText(running, trust, path) }
  } catch (error) {
    if (!(error instanceof CommandError)) throw error
    const [first = ''] = error.message.split('\n')
    return { lines: [], notes: [`what the trust file asks for is not known: ${first}`] }
  }
}

/** The minted token that the request used. */
async function tokenOf(db: Database, { reason, claimed, identity }: EventRow): Promise<TokenRow | null> {
  const id = claimed?.token ?? identity
  if (reason?.startsWith('token_') !== true || !id) return null
  const { findTokenById } = await import('../worker/store/tokens.ts')
  return findTokenById(db, id)
}

/** The ban that refused the request, unless it was lifted since. */
async function banOf(
  db: Database,
  { reason, enrollmentId, runnerId, identity, tenant, claimed }: EventRow,
): Promise<Ban | null> {
  if (reason !== 'banned') return null
  const { loadBanList } = await import('../worker/store/bans.ts')
  const list = await loadBanList(db, toEpochSeconds(systemClock()))
  return findBan(list, {
    enrollmentId: enrollmentId ?? claimed?.enrollment ?? null,
    runnerId,
    identity: identity ?? '',
    tokenId: identity,
    tenant: tenant ?? '',
  })
}

const usesOf = (token: TokenRow | null): string[] =>
  token?.enrollmentId && token.usedAt !== null
    ? [`It was used at ${rfc3339(token.usedAt)} by the enrollment ${token.enrollmentId}.`]
    : []

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

// The ban list: what a ban may name, and the one function that looks a caller up in it. Pure.

import { quote } from '../protocol/characters.ts'
import { err, ok, type Result } from '../protocol/result.ts'
import { isTenantSlug, parseSpiffeId } from '../protocol/spiffe-id.ts'
import { type EpochSeconds, epochSeconds } from '../protocol/time.ts'
import { isMintableRunnerId, kindOfToken } from '../protocol/tokens.ts'
import { isUuidv7 } from '../protocol/uuid.ts'
import { formatIdentity, namesOfIdentity, parseIdentity } from './banned-identity.ts'
import type { CompiledTrust } from './compiled.ts'
import { isClusterName, isSubdomain } from './grammar.ts'
import { workloadRunnerId } from './modes/kubernetes.ts'

/** What a ban can name: `muster ban --<kind>`. */
export const BAN_KINDS = ['enrollment', 'runner-id', 'identity', 'token', 'tenant'] as const
export type BanKind = (typeof BAN_KINDS)[number]

export interface Ban {
  readonly kind: BanKind
  /** In the normal form that `parseBan` gives. Compared exactly. */
  readonly value: string
}

/** What operators have cut off. Plain JSON, since calls to objects pass it on. */
export interface BanList {
  /** When it was read. */
  readonly at: EpochSeconds
  readonly bans: readonly Ban[]
  /** Ids of tokens revoked in the last days; enrollments made with one are refused. */
  readonly revokedTokens: readonly string[]
}

export const NO_BANS: BanList = { at: epochSeconds(0), bans: [], revokedTokens: [] }

/** The properties of a caller that a ban may name. Null: the caller has none, or none yet. */
export interface BanSubject {
  readonly enrollmentId: string | null
  readonly runnerId: string | null
  readonly identity: string
  readonly tokenId: string | null
  readonly tenant: string
}

/** Each ban that would name the subject, as kind and value. */
export function namesOf({ enrollmentId, runnerId, identity, tokenId, tenant }: BanSubject): [BanKind, string][] {
  const named: Record<BanKind, readonly (string | null)[]> = {
    enrollment: [enrollmentId],
    'runner-id': [runnerId],
    identity: namesOfIdentity(identity),
    token: [tokenId],
    tenant: [tenant],
  }
  return BAN_KINDS.flatMap((kind) =>
    named[kind].flatMap((value): [BanKind, string][] => (value === null ? [] : [[kind, value]])),
  )
}

/** The ban that names the subject, or null. */
export function findBan({ bans }: BanList, subject: BanSubject): Ban | null {
  if (bans.length === 0) return null
  const names = namesOf(subject)
  return bans.find((ban) => names.some(([kind, value]) => kind === ban.kind && value === ban.value)) ?? null
}

/** What a ban is checked against, so that a misspelt one is found. */
export type BanContext = Pick<CompiledTrust, 'clusters' | 'tenants'>

/** Whether the trust file maps anybody whom a ban of an identity can name; a ban of another kind may name some. */
export function mapsBanned(trust: CompiledTrust, { kind, value }: Ban): boolean {
  const parsed = kind === 'identity' ? parseIdentity(value) : null
  if (!parsed?.ok) return true
  const identity = parsed.value
  if (identity.kind === 'service-account') {
    return trust.kubernetesMappings.some(
      ({ namespace, serviceAccount }) => namespace === identity.namespace && serviceAccount === identity.serviceAccount,
    )
  }
  const [principal, name] =
    identity.kind === 'account'
      ? [null, null]
      : identity.kind === 'user'
        ? (['user', identity.user] as const)
        : (['role', identity.role] as const)
  return trust.awsMappings.some(
    (mapping) =>
      mapping.account === identity.account &&
      (principal === null ||
        mapping.principal === null ||
        (mapping.principal.kind === principal && mapping.principal.name === name)),
  )
}

/**
 * Parses what an operator wants banned to its normal form. A value that can match nobody is an error, which quotes the
 * value and says what to write instead; the caller puts the name of the option before it. `trust` null: names are not
 * looked up in the trust file, as when a ban is lifted.
 */
export function parseBan(kind: BanKind, text: string, trust: BanContext | null): Result<Ban, string> {
  // A token is a secret, so the error does not quote it.
  if (kindOfToken(text) !== null) return err('is a token itself: name its id with --token, from `muster token list`')
  const value = normalForm(kind, text, trust)
  return value.ok ? ok({ kind, value: value.value }) : err(`${quote(text)} ${value.error}`)
}

function normalForm(kind: BanKind, text: string, trust: BanContext | null): Result<string, string> {
  switch (kind) {
    case 'enrollment':
      return idOf(text, 'is not the id of an enrollment')
    case 'token':
      return idOf(text, 'is not the id of a token')
    case 'runner-id':
      return runnerIdOf(text, trust)
    case 'identity': {
      const identity = parseIdentity(text)
      if (identity.ok) return ok(formatIdentity(identity.value))
      if (isUuidv7(text.toLowerCase()))
        return err('is an id: name a token with --token, an enrollment with --enrollment')
      const id = parseSpiffeId(text)
      return id === null
        ? identity
        : err(`is the SPIFFE ID of every runner of a tenant: ban the tenant with --tenant ${id.tenant}`)
    }
    case 'tenant':
      return tenantOf(text, trust)
  }
}

/** Ids are made in lower case. */
function idOf(text: string, fault: string): Result<string, string> {
  const id = text.toLowerCase()
  return isUuidv7(id) ? ok(id) : err(`${fault}: it looks like 0192f3c4-5678-7abc-8def-0123456789ab`)
}

/** A minted runner ID, or the runner ID of a node: `<cluster>/<node>`, with `_` for each `.` in the node's name. */
function runnerIdOf(text: string, trust: BanContext | null): Result<string, string> {
  const slash = text.indexOf('/')
  if (slash === -1) {
    if (isMintableRunnerId(text)) return ok(text)
    return isSubdomain(text)
      ? err(`is no runner ID: the ID of this node is ${workloadRunnerId('<cluster>', text)}`)
      : err('is no runner ID: 1 to 128 of A-Z a-z 0-9 _ -, or <cluster>/<node with each . as _>')
  }
  const [cluster, node] = [text.slice(0, slash), text.slice(slash + 1)]
  if (isSubdomain(node) && node.includes('.')) {
    return err(`is no runner ID, since none holds a ".": write ${workloadRunnerId(cluster, node)}`)
  }
  // `.` is the only character of a node's name that its runner ID replaces.
  if (!isSubdomain(node.replaceAll('_', '.'))) {
    return err('names no node: write <cluster>/<node>, the node in lower case with each . as _')
  }
  if (!isClusterName(cluster)) return err('names no cluster: 1 to 40 of a-z 0-9 - before the /')
  const names = trust?.clusters.map(({ name }) => name) ?? [cluster]
  if (!names.includes(cluster)) return err(`names no cluster of the trust file; there is ${listOf(names)}`)
  return trust?.clusters.some(({ name, workload }) => name === cluster && workload === null)
    ? err(
        'is nobody’s: the cluster entry names no ServiceAccount, so its nodes have no runner ID; list the node under deny.nodes',
      )
    : ok(text)
}

function tenantOf(text: string, trust: BanContext | null): Result<string, string> {
  if (!isTenantSlug(text)) {
    const id = parseSpiffeId(text)
    return err(id === null ? 'is not a tenant: a-z, 0-9 and -, at most 63' : `is a SPIFFE ID: write ${id.tenant}`)
  }
  const tenants = trust?.tenants ?? [text]
  return tenants.includes(text) ? ok(text) : err(`is no tenant of the trust file; there is ${listOf(tenants)}`)
}

const LISTED = 10

const listOf = (names: readonly string[]): string =>
  names.length === 0 ? 'none' : names.slice(0, LISTED).join(', ') + (names.length > LISTED ? ', …' : '')

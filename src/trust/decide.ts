// Decides the tenant, runner ID and identity of proven claims by the trust file. Pure.

import { MODES, type ProvenMode } from '../protocol/modes.ts'
import { type Outcome, refuse } from '../protocol/refusals.ts'
import { ok } from '../protocol/result.ts'
import type { CompiledTrust } from './compiled.ts'
import type { Placement, Proven, TrustMode } from './modes/mode.ts'
import { type Claims, type ModeTrust, TRUST_MODES } from './modes/registry.ts'

export interface Decision extends Placement, Proven {
  readonly mode: ProvenMode
}

export function decide(trust: CompiledTrust, claims: Claims): Outcome<Decision> {
  const placed = modeOf(claims).place(trust, claims)
  if (!placed.ok) return placed
  if (!trust.tenants.includes(placed.value.tenant)) return refuse('tenant_none')
  return ok({ ...placed.value, ...provenBy(claims) })
}

/** What is known of a caller before the trust file is asked. */
export const provenBy = (claims: Claims): Proven & Pick<Decision, 'mode'> => ({
  ...modeOf(claims).proven(claims),
  mode: claims.mode,
})

/** Tells the callers of a tenant apart in a rate limit: the identity and, where many share one, the instance. */
export function clientOf(claims: Claims): string {
  const { proven, instance } = modeOf(claims)
  const { identity } = proven(claims)
  return instance === null ? identity : `${identity}/${instance(claims)}`
}

/** The id of the minted token that the enrollment depends on, or null. */
export const tokenIdOf = ({ mode, identity }: Decision): string | null => (MODES[mode].minted ? identity : null)

/** `Claims` is the union over the registry, so the entry of their own mode accepts them. */
const modeOf = (claims: Claims) => TRUST_MODES[claims.mode] as TrustMode<Claims, ModeTrust>

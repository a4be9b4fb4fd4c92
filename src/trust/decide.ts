// Who a proven identity is to this trust file: the one place that names a tenant. Pure.

import { MODES, type ProvenMode } from '../protocol/modes.ts'
import { type Outcome, refuse } from '../protocol/refusals.ts'
import { ok } from '../protocol/result.ts'
import type { CompiledTrust } from './compiled.ts'
import type { Placement, TrustMode } from './modes/mode.ts'
import { type Claims, type ModeTrust, TRUST_MODES } from './modes/registry.ts'

/** What the certificate authority may believe. */
export interface Decision extends Placement {
  readonly mode: ProvenMode
}

export function decide(trust: CompiledTrust, claims: Claims): Outcome<Decision> {
  const placed = modeOf(claims).place(trust, claims)
  if (!placed.ok) return placed
  if (!trust.tenants.includes(placed.value.tenant)) return refuse('tenant_none')
  return ok({ ...placed.value, mode: claims.mode })
}

/** What counts as one client in a rate limit, once it is proven. */
export const clientOf = (claims: Claims, decision: Decision): string => modeOf(claims).clientOf(claims, decision)

/** The minted token that it stands on, or null. */
export const tokenIdOf = ({ mode, identity }: Decision): string | null => (MODES[mode].minted ? identity : null)

/** `Claims` is made of the registry, so the line of their own mode takes them. */
const modeOf = (claims: Claims) => TRUST_MODES[claims.mode] as TrustMode<Claims, ModeTrust>

// Formats and parses the SPIFFE ID of a runner: spiffe://<trustDomain>/tenant/<slug>/runner. No I/O.
// Without the URL class, which would turn other cases, dots and percent signs into a valid ID.

import { everyCharacter, isLowerOrDigit } from './characters.ts'

export interface RunnerSpiffeId {
  readonly trustDomain: string
  readonly tenant: string
}

export const formatSpiffeId = (id: RunnerSpiffeId): string => `spiffe://${id.trustDomain}/tenant/${id.tenant}/runner`

/** The parts of a runner's SPIFFE ID, or null for anything but the exact form. */
export function parseSpiffeId(text: string): RunnerSpiffeId | null {
  const [scheme, empty, trustDomain, kind, tenant, role, ...rest] = text.split('/', 7)
  if (scheme !== 'spiffe:' || empty !== '' || kind !== 'tenant' || role !== 'runner' || rest.length > 0) return null
  if (trustDomain === undefined || tenant === undefined) return null
  return isTrustDomain(trustDomain) && isTenantSlug(tenant) ? { trustDomain, tenant } : null
}

/** SPIFFE-ID §2.1: lower-case letters, digits, `.`, `-`, `_`; at most 255. */
export const isTrustDomain = (text: string): boolean =>
  text.length >= 1 &&
  text.length <= 255 &&
  everyCharacter(text, (c) => isLowerOrDigit(c) || c === '.' || c === '-' || c === '_')

/** `[a-z0-9]` and `-`, 1 to 63. */
export const isTenantSlug = (text: string): boolean =>
  text.length >= 1 && text.length <= 63 && everyCharacter(text, (c) => isLowerOrDigit(c) || c === '-')

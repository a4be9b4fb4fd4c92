// The trust file as the Worker uses it: checked, defaults filled in, shorthands expanded. JSON all through.

import { sha256Hex, utf8 } from '../protocol/bytes.ts'
import type { Seconds } from '../protocol/time.ts'
import type { ModeTrust } from './modes/registry.ts'

export interface CompiledTrust extends ModeTrust {
  readonly version: 1
  /** SHA-256 in hex of the rest of this object as JSON: names the trust file that is live. */
  readonly hash: string
  readonly trustDomain: string
  readonly alsoTrust: readonly string[]
  readonly certificate: CertificatePolicy
  readonly bootstrapTenant: string
  /** Every tenant there is, the bootstrap tenant among them. */
  readonly tenants: readonly string[]
}

export interface CertificatePolicy {
  readonly lifetime: Seconds
  /** Null: off. */
  readonly reattest: Seconds | null
  readonly onClone: 'end' | 'refuse'
}

/** Names the content: SHA-256 in hex of the JSON. */
export const hashOf = (content: Omit<CompiledTrust, 'hash'>): Promise<string> =>
  sha256Hex(utf8(JSON.stringify(content)))

/**
 * Takes what the compiler made, and throws for anything else, so that a Worker with another does not start.
 * Only a whole and unchanged one has its own hash, so its shape is the compiler's.
 */
export async function parseCompiledTrust(json: unknown): Promise<CompiledTrust> {
  if (typeof json !== 'object' || json === null || !('version' in json) || json.version !== 1) {
    throw new Error('the compiled trust file is missing or of another version: run `muster trust build`')
  }
  const trust = json as CompiledTrust
  const { hash, ...content } = trust
  if (hash !== (await hashOf(content))) {
    throw new Error('the compiled trust file is not as it was compiled: run `muster trust build`')
  }
  return trust
}

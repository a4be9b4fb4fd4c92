// The compiled trust file, as the Worker loads it: plain JSON with defaults and shorthands filled in.

import { sha256Hex, utf8 } from '../protocol/bytes.ts'
import type { Seconds } from '../protocol/time.ts'
import type { ModeTrust } from './modes/registry.ts'
import type { Placements } from './shards.ts'

export interface CompiledTrust extends ModeTrust {
  readonly version: 1
  /** SHA-256 in hexadecimal of the rest of this object as JSON. It identifies the live trust file. */
  readonly hash: string
  readonly trustDomain: string
  readonly alsoTrust: readonly string[]
  readonly certificate: CertificatePolicy
  readonly bootstrapTenant: string
  /** Every tenant, the bootstrap tenant included. */
  readonly tenants: readonly string[]
  readonly shards: Placements
}

export interface CertificatePolicy {
  readonly lifetime: Seconds
  /** Null: off. */
  readonly reattest: Seconds | null
  readonly onClone: 'end' | 'refuse'
}

/** SHA-256 in hexadecimal of the content as JSON. */
export const hashOf = (content: Omit<CompiledTrust, 'hash'>): Promise<string> =>
  sha256Hex(utf8(JSON.stringify(content)))

/**
 * Throws for anything that the compiler did not make, so that the Worker does not start. The hash is right only where
 * nothing was changed, so the shape needs no check.
 */
export async function parseCompiledTrust(json: unknown): Promise<CompiledTrust> {
  if (typeof json !== 'object' || json === null || !('version' in json) || json.version !== 1) {
    throw new Error('the compiled trust file is missing or of another version: run `muster trust build`')
  }
  const trust = json as CompiledTrust
  const { hash, ...content } = trust
  if (hash !== (await hashOf(content))) {
    throw new Error('the compiled trust file was changed after it was compiled: run `muster trust build`')
  }
  return trust
}

// The bindings and secrets of the Worker as wrangler.toml and `wrangler secret put` give them.

import type { EnrollmentObject } from './fleet/enrollment-object.ts'
import type { KeyDirectory } from './keysets/key-directory.ts'

export interface Env {
  readonly DB: D1Database
  readonly KEYS: KVNamespace
  readonly ENROLLMENTS: DurableObjectNamespace<EnrollmentObject>
  readonly KEY_DIRECTORY: DurableObjectNamespace<KeyDirectory>
  /** Refusals by client address. */
  readonly FAILURES?: RateLimit
  /** Proven callers by identity, and AWS access keys before STS is asked. */
  readonly IDENTITIES?: RateLimit
  /** Proven callers by tenant. */
  readonly TENANTS?: RateLimit
  /** PKCS#8 PEM, P-256 or P-384. */
  readonly CA_KEY?: string
  /** PEM: the issuing certificate first, then up to the root. */
  readonly CA_CERT?: string
  /** PEM: issuing certificates that sign no more but are still accepted. */
  readonly CA_PREVIOUS?: string
  /** PEM: more roots for the bundle; they verify nothing. */
  readonly CA_TRUST?: string
}

const BINDINGS = ['DB', 'KEYS', 'ENROLLMENTS', 'KEY_DIRECTORY'] as const

/** Every binding that is missing, one sentence each; empty where the Worker can serve. */
export const missingBindings = (env: Env): string[] =>
  BINDINGS.filter((name) => env[name] === undefined).map((name) => `binding ${name} is missing in wrangler.toml`)

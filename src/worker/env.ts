// The Worker's environment: the bindings of wrangler.toml and the secrets of `wrangler secret put`.

import type { Rate } from './enrollment/rate-limit.ts'
import type { EnrollmentObject } from './fleet/enrollment-object.ts'
import type { KeyDirectory } from './keysets/key-directory.ts'

export interface Env {
  readonly DB: D1Database
  readonly KEYS: KVNamespace
  readonly ENROLLMENTS: DurableObjectNamespace<EnrollmentObject>
  readonly KEY_DIRECTORY: DurableObjectNamespace<KeyDirectory>
  /** Refusals by client address. */
  readonly FAILURES?: RateLimit
  /** Proven callers by tenant and identity, and calls to STS by client address and access key. */
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

/** One sentence for each missing binding. */
export const missingBindings = (env: Env): string[] =>
  BINDINGS.filter((name) => env[name] === undefined).map((name) => `binding ${name} is missing in wrangler.toml`)

export function limiterOf(env: Env, rate: Rate): RateLimit | undefined {
  switch (rate) {
    case 'failures':
      return env.FAILURES
    case 'identities':
      return env.IDENTITIES
    case 'tenants':
      return env.TENANTS
  }
}

// The Worker's environment: the bindings of wrangler.toml and the secrets of `wrangler secret put`.

import type { CompiledTrust } from '../trust/compiled.ts'
import { bindingOf, openShards, type Shards, shardsOf } from '../trust/shards.ts'
import type { Rate } from './enrollment/rate-limit.ts'
import type { EnrollmentObject } from './fleet/enrollment-object.ts'
import type { KeyDirectory } from './keysets/key-directory.ts'

export interface Env {
  readonly DB: D1Database
  /** The databases of the other shards. */
  readonly [name: `DB_${number}`]: D1Database | undefined
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

const BINDINGS = ['DB', 'KEYS', 'ENROLLMENTS', 'KEY_DIRECTORY']

/** One sentence for each missing binding, also those of the shards that the trust file names. */
export function missingBindings(env: Env, { shards }: CompiledTrust): string[] {
  const named = new Set([...BINDINGS, ...shards.map(({ shard }) => bindingOf(shard))])
  return [...named]
    .filter((name) => Reflect.get(env, name) === undefined)
    .map((name) => `binding ${name} is missing in wrangler.toml`)
}

/** Undefined where the binding is missing, as `DB` is then: `missingBindings` says so. */
export const databaseOfShard = (env: Env, shard: number): D1Database => Reflect.get(env, bindingOf(shard))

/** The shards with a binding, in their order. */
export const boundShards = (env: Env): number[] => shardsOf(Object.keys(env))

/** `open`: of a shard's database, with the tenants that are in it. */
export function shardsOfEnv<S>(
  env: Env,
  { shards, tenants }: CompiledTrust,
  open: (database: D1Database, tenants: readonly string[]) => S,
): Shards<S> {
  const places = new Map(shards.map(({ tenant, shard }) => [tenant, shard]))
  const tenantsIn = Map.groupBy(tenants, (tenant) => places.get(tenant) ?? 0)
  return openShards(boundShards(env), shards, (shard) => open(databaseOfShard(env, shard), tenantsIn.get(shard) ?? []))
}

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

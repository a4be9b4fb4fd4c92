// Wires the Worker: an environment and a trust file in, the handlers and Durable Object classes of an entry file out.

import { refuse } from '../protocol/refusals.ts'
import { ok } from '../protocol/result.ts'
import { type Clock, systemClock } from '../protocol/time.ts'
import type { CompiledTrust } from '../trust/compiled.ts'
import { shardOf } from '../trust/shards.ts'
import { makeAttestors } from './attestors/registry.ts'
import { type Authority, loadAuthority } from './ca/authority.ts'
import { bundleHash } from './ca/bundle.ts'
import { deriveHmacKey } from './ca/keys.ts'
import { presentedDer, renewalRefusal, verifyPresented } from './ca/presented.ts'
import { CHALLENGE_PURPOSE } from './enrollment/challenge.ts'
import type { Dependencies } from './enrollment/dependencies.ts'
import { makeKeptSignatures } from './enrollment/kept-signatures.ts'
import { namedAccessKey, provenAccessKey } from './enrollment/rate-limit.ts'
import { runCron } from './enrollment/sweep.ts'
import { boundShards, databaseOfShard, type Env, limiterOf, missingBindings, shardsOfEnv } from './env.ts'
import { enrollmentObjectWith } from './fleet/enrollment-object.ts'
import type { EnrollmentSources } from './fleet/fleet-row.ts'
import { makeApp } from './http/app.ts'
import { DIRECTORY_NAME, keyDirectoryOf } from './keysets/key-directory.ts'
import { makeKeySets } from './keysets/lookup.ts'
import { SEALING_PURPOSE } from './keysets/snapshot.ts'
import { beginEnrollment } from './store/beginning.ts'
import { openDatabase } from './store/d1.ts'
import type { Queries } from './store/db.ts'
import { updateEnded, updateFleetRow } from './store/enrollments.ts'
import { makeRefusalCap } from './store/refusal-cap.ts'
import { openShard } from './store/shard.ts'

/** What `muster dev` alone allows. */
export interface Development {
  /** Requests by plain http, for loopback. */
  readonly plainHttp: boolean
  /** A CA that `muster dev` made. */
  readonly developmentCa: boolean
}

export const DEPLOYED: Development = { plainHttp: false, developmentCa: false }

/** What an entry file of the Worker exports. */
export interface Composition {
  readonly EnrollmentObject: ReturnType<typeof enrollmentObjectWith<Env>>
  readonly KeyDirectory: ReturnType<typeof keyDirectoryOf>
  readonly fetch: (request: Request, env: Env, context: ExecutionContext) => Promise<Response>
  readonly scheduled: (event: ScheduledController, env: Env, context: ExecutionContext) => Promise<void>
}

export function compose(
  trust: CompiledTrust,
  development: Development = DEPLOYED,
  clock: Clock = systemClock,
): Composition {
  // An isolate has one environment, so this makes its dependencies once.
  const made = new WeakMap<Env, Dependencies>()
  const dependenciesOf = (env: Env): Dependencies => {
    const deps = made.get(env) ?? makeDependencies(env, trust, development, clock)
    made.set(env, deps)
    return deps
  }
  const app = makeApp(dependenciesOf, clock, development)
  return {
    EnrollmentObject: enrollmentObjectWith<Env>((env) => enrollmentSourcesOf(env, trust, clock)),
    KeyDirectory: keyDirectoryOf(trust, deriveSealingKey, clock),
    fetch: async (request, env, context) => app.fetch(request, env, context),
    scheduled: async (event, env) => runCron(dependenciesOf(env), event.cron),
  }
}

function makeDependencies(env: Env, trust: CompiledTrust, development: Development, clock: Clock): Dependencies {
  const directory = () => env.KEY_DIRECTORY.getByName(DIRECTORY_NAME)
  const withinRate: Dependencies['withinRate'] = async (rate, key) =>
    (await limiterOf(env, rate)?.limit({ key }))?.success ?? true

  const authority = once(async () => {
    const missing = missingBindings(env, trust)
    if (missing.length > 0) return refuse('ca_not_configured', { detail: missing.join('; ') })
    return loadAuthority({
      caKey: env.CA_KEY,
      caCert: env.CA_CERT,
      caPrevious: env.CA_PREVIOUS,
      caTrust: env.CA_TRUST,
      allowDevelopment: development.developmentCa,
    })
  })
  let sequence: number | null = null
  const bundleSequence = async (loaded: Authority): Promise<number> => {
    sequence ??= await directory().bundleSequence(await bundleHash(loaded))
    return sequence
  }
  const challengeKey = once(async () => {
    const loaded = await authority()
    return loaded.ok ? ok(await deriveHmacKey(env.CA_KEY ?? '', CHALLENGE_PURPOSE)) : loaded
  })
  const verifyLeaf: Dependencies['verifyLeaf'] = async (der) => {
    const loaded = await authority()
    return loaded.ok ? verifyPresented(loaded.value, [trust.trustDomain, ...trust.alsoTrust], der) : loaded
  }

  const keySets = makeKeySets({
    clusters: trust.clusters,
    readEntry: (name) => env.KEYS.get(name, { cacheTtl: KV_CACHE_SECONDS }),
    sealingKey: once(async () => (env.CA_KEY ? deriveSealingKey(env.CA_KEY) : null)),
    askDirectory: (cluster, kid) => directory().ask(cluster, kid),
    refreshDirectory: () => directory().refresh(),
  })
  const attestors = makeAttestors({
    leaves: {
      verify: async (pem) => {
        const der = presentedDer(pem)
        return der === null ? refuse('certificate_invalid') : verifyLeaf(der)
      },
      renewalRefusal,
    },
    aws: {
      regions: trust.aws.regions,
      fetch: (url, init) => fetch(url, init),
      allowNamedKey: (address, accessKeyId) => withinRate('identities', namedAccessKey(address, accessKeyId)),
      allowProvenKey: (accessKeyId) => withinRate('identities', provenAccessKey(accessKeyId)),
    },
    workloads: { clusters: trust.clusters, findKey: keySets.find },
  })

  return {
    clock,
    trust,
    attestors,
    shards: shardsOfEnv(env, trust, (database, tenants) => openShard(database, { ...trust, tenants }, clock)),
    keptSignatures: makeKeptSignatures(),
    enrollmentObject: (enrollmentId) => env.ENROLLMENTS.getByName(enrollmentId),
    refreshKeySets: keySets.refresh,
    authority,
    bundleSequence,
    challengeKey,
    verifyLeaf,
    refusalCap: makeRefusalCap(),
    withinRate,
  }
}

function enrollmentSourcesOf(env: Env, trust: CompiledTrust, clock: Clock): EnrollmentSources {
  /**
   * In the shard of the tenant. A tenant that the trust file moved has its older enrollments in another: without their
   * rows kept up to date there, a ban or a revocation would take them for over.
   */
  async function updateWhereRecorded(tenant: string, update: (database: Queries) => Promise<boolean>): Promise<void> {
    const updateIn = (shard: number) => update(openDatabase(databaseOfShard(env, shard)))
    const own = shardOf(trust.shards, tenant)
    if (await updateIn(own)) return
    await Promise.all(boundShards(env).map((shard) => (shard === own ? null : updateIn(shard))))
  }
  return {
    trust,
    clock,
    begin: ({ enrollmentId, tenant }, now) =>
      beginEnrollment(databaseOfShard(env, shardOf(trust.shards, tenant)), enrollmentId, now),
    updateRow: (tenant, row) => updateWhereRecorded(tenant, (database) => updateFleetRow(database, row)),
    recordEnd: ({ enrollmentId, tenant }, reason, at) =>
      updateWhereRecorded(tenant, (database) => updateEnded(database, [enrollmentId], reason, at)),
  }
}

/** How long a location may go on reading a replaced entry. KV allows no less. */
const KV_CACHE_SECONDS = 30

const deriveSealingKey = (caKey: string): Promise<CryptoKey> => deriveHmacKey(caKey, SEALING_PURPOSE)

/** Makes a value at the first call. The value is kept, never the promise: no request may wait on another's. */
function once<T>(make: () => Promise<T>): () => Promise<T> {
  let made: { readonly value: T } | null = null
  return async () => {
    made ??= { value: await make() }
    return made.value
  }
}

// The whole Worker with fake issuers; counts its calls to KV, to the KeyDirectory and to D1.
import { createExecutionContext, env, waitOnExecutionContext } from 'cloudflare:test'
import { createCa } from '../../../src/cli/ca/create.ts'
import { ok } from '../../../src/protocol/result.ts'
import { type EpochMilliseconds, epochMilliseconds, milliseconds, toEpochSeconds } from '../../../src/protocol/time.ts'
import { hashToken, mintToken, type TokenKind } from '../../../src/protocol/tokens.ts'
import { uuidv7 } from '../../../src/protocol/uuid.ts'
import type { CompiledTrust } from '../../../src/trust/compiled.ts'
import type { Cluster } from '../../../src/trust/modes/kubernetes.ts'
import { compose } from '../../../src/worker/compose.ts'
import type { Env } from '../../../src/worker/env.ts'
import type { EnrollmentStart } from '../../../src/worker/fleet/record.ts'
import { openDirectory } from '../../../src/worker/keysets/directory.ts'
import { fetchKeySet } from '../../../src/worker/keysets/jwks/fetch.ts'
import { findEvent } from '../../../src/worker/store/events.ts'
import { insertToken } from '../../../src/worker/store/tokens.ts'
import { type FakeIssuer, fetchFrom } from '../../fakes/issuer.ts'
import { enrollBody, makeRequester } from '../../fakes/requester.ts'
import { clusterWith, trustWith } from '../../fakes/trust.ts'
import { openDatabase } from '../store/open-database.ts'

export interface Calls {
  kv: number
  directory: number
  d1: number
}

export interface ControlPlaneOptions {
  /** Of each issuer's cluster, in order; names are `c0`, `c1`, … */
  readonly clusters?: readonly Partial<Cluster>[]
  readonly trust?: Partial<CompiledTrust>
  readonly env?: Partial<Env>
  /** Called when an answer has left. */
  readonly answered?: () => void
}

let made = 0
const database = openDatabase(env.DB)

export async function makeControlPlane(issuers: readonly FakeIssuer[], options: ControlPlaneOptions = {}) {
  // Each control plane has hours of its own: refusals are recorded at so many a minute.
  let now: EpochMilliseconds = epochMilliseconds(Date.UTC(2026, 10, 29, 12 * ++made))
  const clock = () => now
  const calls: Calls = { kv: 0, directory: 0, d1: 0 }
  const clusters = issuers.map(({ issuer }, i) => clusterWith({ name: `c${i}`, issuer, ...options.clusters?.[i] }))
  const trust = trustWith({
    clusters,
    kubernetesMappings: clusters.map(({ name }) => ({
      tenant: 'acme',
      cluster: name,
      namespace: 'runners',
      serviceAccount: 'runner',
    })),
    ...options.trust,
  })
  const network = fetchFrom(...issuers)
  const directory = await openDirectory({
    clusters,
    storage: inMemory(),
    clock,
    fetchKeySet: (cluster) => fetchKeySet(cluster, network.fetch, milliseconds(200)),
    writeSnapshots: async () => {},
  })

  const ca = await createCa({ now: toEpochSeconds(now), development: false })
  const { FAILURES, IDENTITIES, TENANTS, ...unlimited } = env as unknown as Env
  const bindings = {
    ...unlimited,
    CA_KEY: ca.issuingKey,
    CA_CERT: ca.issuing,
    KEYS: { get: async () => counted('kv', null) },
    KEY_DIRECTORY: {
      getByName: () => ({
        ask: (cluster: string, kid: string) => counted('directory', directory.ask(cluster, kid)),
        refresh: () => directory.refresh(),
      }),
    },
    // The object of an enrollment decides by the project's trust file; here it only has to be there.
    ENROLLMENTS: { getByName: () => ({ begin: async ({ certificate }: EnrollmentStart) => ok(certificate) }) },
    DB: new Proxy(env.DB, {
      get: (target, name) => {
        const member: unknown = Reflect.get(target, name)
        if (typeof member !== 'function') return member
        return (...given: unknown[]) => counted('d1', member.apply(target, given))
      },
    }),
    ...options.env,
  } as unknown as Env
  const { fetch } = compose(trust, undefined, clock)

  function counted<T>(what: keyof Calls, value: T): T {
    calls[what]++
    return value
  }

  async function send(request: Request): Promise<Response> {
    const context = createExecutionContext()
    const response = await fetch(request, bindings, context)
    options.answered?.()
    const body = await response.arrayBuffer()
    await waitOnExecutionContext(context)
    return new Response(body, response)
  }

  return {
    calls,
    strays: network.strays,
    directory,
    send,
    seconds: () => toEpochSeconds(now),
    later: (span: number) => {
      now = epochMilliseconds(now + span * 1000)
    },
    /** POST /api/enroll with a fresh key. */
    enroll: async (token: string, mode = 'kubernetes'): Promise<Response> =>
      send(
        new Request('https://muster.example.com/api/enroll', {
          method: 'POST',
          body: JSON.stringify(enrollBody(await makeRequester(), { mode, token })),
          headers: { 'content-type': 'application/json' },
        }),
      ),
    mint: async (kind: TokenKind, row: Partial<Parameters<typeof insertToken>[1]> = {}) => {
      const token = mintToken(kind)
      const id = uuidv7(now)
      const runnerId = kind === 'runner' ? 'build-7' : null
      const createdAt = toEpochSeconds(now)
      const expiresAt = kind === 'runner' ? null : toEpochSeconds(epochMilliseconds(now + 3_600_000))
      await insertToken(database, {
        id,
        hash: await hashToken(token),
        kind,
        tenant: 'acme',
        runnerId,
        createdAt,
        expiresAt,
        ...row,
      })
      return { token, id }
    },
    /** What the operator sees of an answer. */
    eventOf: (response: Response) => findEvent(database, response.headers.get('x-request-id') ?? ''),
  }
}

export type ControlPlane = Awaited<ReturnType<typeof makeControlPlane>>

/** Storage of an object, for tests that are not about storage. */
function inMemory(): SyncKvStorage {
  const kept = new Map<string, unknown>()
  return {
    get: <T>(key: string) => kept.get(key) as T | undefined,
    put: (key, value) => void kept.set(key, structuredClone(value)),
    delete: (key) => kept.delete(key),
    list: <T>(options?: SyncKvListOptions) =>
      [...kept].filter(([key]) => key.startsWith(options?.prefix ?? '')) as [string, T][],
  }
}

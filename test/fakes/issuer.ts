// A fake OIDC issuer as of a Kubernetes API server: signs real tokens, publishes its keys, misbehaves on demand and
// counts its requests. Works in workerd and in Node; issuer-server.ts puts it behind HTTP.
import { CompactSign, type CryptoKey, exportJWK, generateKeyPair, importJWK, type JWK } from 'jose'

export type IssuerAlgorithm = 'RS256' | 'ES256'

export interface IssuerKey {
  readonly kid: string
  readonly alg: IssuerAlgorithm
  readonly privateKey: CryptoKey
  readonly publicJwk: JWK
}

/** How it answers: as it should, not at all, elsewhere, with 2 MB, with a login page, or with a bare status. */
export type Manner = 'serve' | 'stall' | 'refuse' | 'redirect' | 'bloat' | 'trickle' | 'html' | number

export interface TokenChanges {
  /** Members of the payload; undefined takes one away. */
  readonly claims?: Record<string, unknown>
  /** Members of `kubernetes.io`; undefined takes one away. */
  readonly workload?: Record<string, unknown>
  readonly header?: Record<string, unknown>
  readonly key?: IssuerKey
}

export interface FakeIssuer {
  readonly issuer: string
  /** What it publishes; the last one signs. */
  keys: IssuerKey[]
  manner: Manner
  /** Members of the discovery document that differ. */
  discovery: Record<string, unknown>
  /** The body of the key set, where it is not `keys`. */
  jwks: string | null
  /** How often each path was asked for. */
  readonly asked: Map<string, number>
  /** Requests in all. */
  readonly count: () => number
  readonly fetch: (url: string, init?: RequestInit) => Promise<Response>
  /** Answers what is being stalled, as it would be answered now. */
  readonly release: () => void
  /** Publishes a new key before the old ones go, and signs with it. */
  readonly rotate: (options?: { readonly keepOld: boolean }) => Promise<IssuerKey>
  /** A token as the kubelet gets it for a pod, at `now` (seconds since 1970), for 600 s. */
  readonly token: (now: number, changes?: TokenChanges) => Promise<string>
}

export async function makeIssuerKey(kid: string, alg: IssuerAlgorithm = 'ES256'): Promise<IssuerKey> {
  const { privateKey, publicKey } = await generateKeyPair(alg, { extractable: true })
  return { kid, alg, privateKey, publicJwk: await exportJWK(publicKey) }
}

/** A key that is known: RSA keys take long to make. */
export async function issuerKeyOf(kid: string, alg: IssuerAlgorithm, privateJwk: JWK): Promise<IssuerKey> {
  const { kty, n, e, crv, x, y } = privateJwk
  const publicJwk = kty === 'RSA' ? { kty, n, e } : { kty, crv, x, y }
  const privateKey = await importJWK(privateJwk, alg)
  if (privateKey instanceof Uint8Array) throw new Error('not a private key')
  return { kid, alg, privateKey, publicJwk: publicJwk as JWK }
}

export async function makeIssuer(issuer: string, ...keys: IssuerKey[]): Promise<FakeIssuer> {
  const base = issuer.endsWith('/') ? issuer.slice(0, -1) : issuer
  const paths = { discovery: `${base}/.well-known/openid-configuration`, jwks: `${base}/openid/v1/jwks` }
  const waiting = new Set<() => void>()

  const fake: FakeIssuer = {
    issuer,
    keys: keys.length > 0 ? keys : [await makeIssuerKey('key-1')],
    manner: 'serve',
    discovery: {},
    jwks: null,
    asked: new Map(),
    count: () => [...fake.asked.values()].reduce((sum, n) => sum + n, 0),
    fetch: async (url, init) => {
      const { pathname } = new URL(url)
      fake.asked.set(pathname, (fake.asked.get(pathname) ?? 0) + 1)
      if (fake.manner === 'stall') await stall(init?.signal ?? null, waiting)
      return answer(url, new Headers(init?.headers))
    },
    release: () => {
      for (const go of waiting) go()
      waiting.clear()
    },
    rotate: async ({ keepOld } = { keepOld: true }) => {
      const key = await makeIssuerKey(`key-${crypto.randomUUID()}`)
      fake.keys = keepOld ? [...fake.keys, key] : [key]
      return key
    },
    token: (now, changes) => signToken(fake, now, changes ?? {}),
  }
  return fake

  function answer(url: string, headers: Headers): Response {
    switch (fake.manner) {
      case 'serve':
        return serve(url, headers)
      case 'stall':
        throw new Error('released while it still stalls')
      case 'refuse':
        throw new TypeError('connection refused')
      case 'redirect':
        return new Response(null, { status: 302, headers: { location: 'https://elsewhere.example/keys' } })
      case 'bloat':
        return new Response(`{"keys":[],"padding":"${'x'.repeat(2 * 1024 * 1024)}"}`)
      case 'trickle':
        return new Response(new ReadableStream({ start: (body) => body.enqueue(new TextEncoder().encode('{"keys":')) }))
      case 'html':
        return new Response('<html><title>Sign in</title></html>', { headers: { 'content-type': 'text/html' } })
      default:
        return new Response('{"kind":"Status"}', { status: fake.manner })
    }
  }

  function serve(url: string, headers: Headers): Response {
    if (url === paths.discovery) {
      const document = { issuer, jwks_uri: paths.jwks, id_token_signing_alg_values_supported: ['RS256'] }
      return json({ ...document, ...fake.discovery }, 'application/json')
    }
    if (url !== paths.jwks) return new Response('not found', { status: 404 })
    // kube-apiserver offers its key set as this one media type.
    if (headers.get('accept') === 'application/json') return new Response('not acceptable', { status: 406 })
    const published = fake.keys.map(({ kid, alg, publicJwk }) => ({ use: 'sig', alg, kid, ...publicJwk }))
    return fake.jwks === null ? json({ keys: published }, 'application/jwk-set+json') : new Response(fake.jwks)
  }
}

const json = (value: unknown, type: string) =>
  new Response(JSON.stringify(value), { headers: { 'content-type': type } })

const stall = (signal: AbortSignal | null, waiting: Set<() => void>): Promise<void> =>
  new Promise((resolve, reject) => {
    waiting.add(resolve)
    signal?.addEventListener('abort', () => reject(signal.reason), { once: true })
  })

async function signToken(fake: FakeIssuer, now: number, changes: TokenChanges): Promise<string> {
  const key = changes.key ?? fake.keys.at(-1)
  if (key === undefined) throw new Error('the issuer has no key')
  const workload = {
    namespace: 'runners',
    node: { name: 'node-a.example.internal', uid: '11111111-1111-4222-8333-444455556666' },
    pod: { name: 'runner-x7k2p', uid: '22222222-1111-4222-8333-444455556666' },
    serviceaccount: { name: 'runner', uid: '33333333-1111-4222-8333-444455556666' },
    ...changes.workload,
  }
  const claims = {
    aud: ['rootpilot-enroll'],
    exp: now + 600,
    iat: now,
    iss: fake.issuer,
    jti: crypto.randomUUID(),
    'kubernetes.io': workload,
    nbf: now,
    sub: 'system:serviceaccount:runners:runner',
    ...changes.claims,
  }
  const header = { alg: key.alg, kid: key.kid, ...changes.header }
  return new CompactSign(new TextEncoder().encode(JSON.stringify(claims)))
    .setProtectedHeader(header)
    .sign(key.privateKey)
}

/** One fetch function for several issuers; any other host is an error, and is counted. */
export function fetchFrom(...issuers: FakeIssuer[]) {
  const strays: string[] = []
  return {
    strays,
    fetch: async (url: string, init?: RequestInit): Promise<Response> => {
      const owner = issuers.find(({ issuer }) => url.startsWith(issuer))
      if (owner === undefined) {
        strays.push(url)
        throw new TypeError(`nobody answers at ${new URL(url).host}`)
      }
      return owner.fetch(url, init)
    },
  }
}

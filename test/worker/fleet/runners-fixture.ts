// A Worker with a CA of its own and runners that talk to it, by the clock and the trust file of `deployment`.
import 'reflect-metadata'
import { createExecutionContext, env, runInDurableObject, waitOnExecutionContext } from 'cloudflare:test'
import { X509Certificate } from '@peculiar/x509'
import { encodeBase64url, utf8 } from '../../../src/protocol/bytes.ts'
import type { EnrollAnswer } from '../../../src/protocol/enroll.ts'
import { addSeconds, seconds, toEpochSeconds } from '../../../src/protocol/time.ts'
import { hashToken, mintToken, type TokenKind } from '../../../src/protocol/tokens.ts'
import { formatClientCert, formatProof, proofText } from '../../../src/protocol/tunnel.ts'
import { uuidv7 } from '../../../src/protocol/uuid.ts'
import { presentedDer } from '../../../src/worker/ca/presented.ts'
import { compose, DEPLOYED } from '../../../src/worker/compose.ts'
import type { Env } from '../../../src/worker/env.ts'
import { findEvent } from '../../../src/worker/store/events.ts'
import { insertToken } from '../../../src/worker/store/tokens.ts'
import { forgeCa, forgeLeaf, type Issuer, type LeafOptions, pem } from '../../fakes/ca-forge.ts'
import { deployment } from '../../fakes/deployment.ts'
import { enrollBody, makeRequester, type Requester } from '../../fakes/requester.ts'
import { openDatabase } from '../store/open-database.ts'

export const db = openDatabase(env.DB)
export const ORIGIN = 'https://muster.example.com'

const { FAILURES, IDENTITIES, TENANTS, ...unlimited } = env as unknown as Env

/** What a runner holds. */
export interface Identity {
  readonly certificate: string
  readonly keys: CryptoKeyPair
}

export interface Answered {
  readonly status: number
  readonly json: Record<string, string | null>
}

/** `previous`: issuing certificates that sign no more but are accepted. */
export function musterUnder(
  issuer: Issuer,
  root: Issuer,
  previous: readonly Issuer[] = [],
  changed: Partial<Env> = {},
  /** Called when an answer has left. */
  answered: () => void = () => {},
) {
  const bindings: Env = {
    ...unlimited,
    CA_KEY: issuer.keyPem,
    CA_CERT: issuer.pem + root.pem,
    CA_PREVIOUS: previous.map(({ pem }) => pem).join(''),
    ...changed,
  }
  const worker = compose(deployment.trust, DEPLOYED, deployment.clock)

  async function fetch(request: Request): Promise<Response> {
    const context = createExecutionContext()
    const response = await worker.fetch(request, bindings, context)
    answered()
    await waitOnExecutionContext(context)
    return response
  }

  async function post(path: string, body: unknown): Promise<Answered> {
    const init = { method: 'POST', body: JSON.stringify(body), headers: { 'content-type': 'application/json' } }
    const response = await fetch(new Request(ORIGIN + path, init))
    return { status: response.status, json: await response.json() }
  }

  async function renewalBody(identity: Identity, requester: Requester) {
    const signature = await sign(identity.keys, requester.challengeNonce)
    const { certificate } = identity
    return enrollBody(requester, { mode: 'mtls-renewal', certificate, signature: encodeBase64url(signature) })
  }

  return {
    fetch,
    post,
    renewalBody,
    bindings,
    cron: (cron = '* * * * *') =>
      worker.scheduled(
        { cron, scheduledTime: deployment.clock(), noRetry: () => {} },
        bindings,
        createExecutionContext(),
      ),
    async enroll(attestation: object): Promise<Identity & EnrollAnswer> {
      const requester = await makeRequester()
      const { status, json } = await post('/api/enroll', enrollBody(requester, attestation))
      if (status !== 200) throw new Error(JSON.stringify(json))
      return { ...(json as unknown as EnrollAnswer), keys: requester.keys }
    },
    /** Renews with a new key, or with the requester's. */
    async renew(identity: Identity, requester?: Requester): Promise<Answered & Identity & EnrollAnswer> {
      const asking = requester ?? (await makeRequester())
      const answered = await post('/api/enroll', await renewalBody(identity, asking))
      return { ...answered, ...(answered.json as unknown as EnrollAnswer), keys: asking.keys }
    },
  }
}

export async function sign(keys: CryptoKeyPair, text: string): Promise<Uint8Array<ArrayBuffer>> {
  return new Uint8Array(await crypto.subtle.sign({ name: 'ECDSA', hash: 'SHA-256' }, keys.privateKey, utf8(text)))
}

export type Muster = ReturnType<typeof musterUnder>

const years = (n: number) => new Date(deployment.clock() + n * 365 * 24 * 3_600_000)

/** A root and an issuing certificate under it, valid around `deployment`'s time. */
export async function makeIssuers(): Promise<{ root: Issuer; issuer: Issuer }> {
  const validity = { notBefore: years(-1), notAfter: years(10) }
  const root = await forgeCa(validity)
  return { root, issuer: await forgeCa({ ...validity, issuer: root }) }
}

/** A Muster of this file's own, and the clock of `deployment` at a whole second. */
export async function startMuster() {
  deployment.setTime(Math.ceil(Date.now() / 1000) * 1000)
  const issuers = await makeIssuers()
  return { ...issuers, muster: musterUnder(issuers.issuer, issuers.root) }
}

export async function mint(
  kind: TokenKind = 'bootstrap',
  runnerId: string | null = null,
  tenant = 'acme',
  database = env.DB,
) {
  const token = mintToken(kind)
  const createdAt = toEpochSeconds(deployment.clock())
  const id = uuidv7(deployment.clock())
  const expiresAt = addSeconds(createdAt, seconds(3600))
  const row = { id, hash: await hashToken(token), kind, tenant, runnerId, createdAt, expiresAt }
  await insertToken(openDatabase(database), row)
  return { token, id }
}

export const enrollByToken = async (muster: Muster): Promise<Identity & EnrollAnswer> =>
  muster.enroll({ mode: 'bootstrap-token', token: (await mint()).token })

/** The event's reason for a refusal. */
export const reasonOf = async ({ json }: Answered) => (await findEvent(db, String(json.requestId)))?.reason

export const serialOf = ({ certificate }: Pick<Identity, 'certificate'>) =>
  new X509Certificate(certificate).serialNumber

export const now = () => toEpochSeconds(deployment.clock())
/** So many seconds from now. */
export const at = (seconds: number) => new Date(deployment.clock() + seconds * 1000)

/** Lets an object end what it does behind its answers. */
export const settled = (enrollmentId: string) =>
  runInDurableObject(env.ENROLLMENTS.getByName(enrollmentId), () => scheduler.wait(5))

/** A provisioned certificate: the one kind that a test can make without enrolling. */
export async function provisionedBy(
  issuer: Issuer,
  options: LeafOptions & { readonly id?: string } = {},
): Promise<Identity & { readonly id: string }> {
  const id = options.id ?? uuidv7(deployment.clock())
  const { keys, der } = await forgeLeaf(issuer, {
    subject: [{ O: ['acme'] }, { OU: ['provisioned:'] }, { CN: [id] }],
    notBefore: at(-3600),
    notAfter: at(900),
    ...options,
  })
  return { id, keys: keys as CryptoKeyPair, certificate: pem('CERTIFICATE', der) }
}

/** `certRFC9440` or the value of `Client-Cert`. */
export function headerOf({ certificate }: Pick<Identity, 'certificate'>): string {
  const der = presentedDer(certificate)
  if (der === null) throw new Error('no certificate')
  return formatClientCert(der)
}

export interface UpgradeRequest {
  readonly tls?: string
  readonly headers?: Record<string, string>
  readonly url?: string
}

/** Sends an upgrade request with whatever proofs. Answers the accepted socket, or the problem document. */
export async function requestUpgrade(
  muster: Muster,
  { tls, headers = {}, url }: UpgradeRequest,
): Promise<Tunnel | Answered> {
  const cf = tls === undefined ? {} : { tlsClientAuth: { certPresented: '1', certRFC9440: tls, certVerified: 'NONE' } }
  const init = { headers: { upgrade: 'websocket', ...headers }, cf } as RequestInit
  const response = await muster.fetch(new Request(url ?? `${ORIGIN}/api/tunnel`, init))
  if (response.webSocket === null) return { status: response.status, json: await response.json() }
  return new Tunnel(response.webSocket)
}

export async function connect(muster: Muster, identity: Identity): Promise<Tunnel> {
  const tunnel = await requestUpgrade(muster, { tls: headerOf(identity) })
  if (!(tunnel instanceof Tunnel)) throw new Error(JSON.stringify(tunnel))
  return tunnel
}

/** The headers of a signed challenge. */
export async function proofHeaders(
  muster: Muster,
  identity: Identity,
  challenge?: string,
  host = new URL(ORIGIN).host,
): Promise<Record<string, string>> {
  const asked = challenge ?? String((await muster.post('/api/tunnel/challenge', {})).json.challenge)
  const signature = await sign(identity.keys, proofText(host, asked))
  return { 'client-cert': headerOf(identity), 'muster-proof': formatProof(asked, signature) }
}

/** The runner's end of a tunnel. */
export class Tunnel {
  readonly #socket: WebSocket
  readonly #messages: string[] = []
  #code: number | null = null
  #wake: () => void = () => {}

  constructor(socket: WebSocket) {
    this.#socket = socket
    socket.accept()
    socket.addEventListener('message', ({ data }) => {
      this.#messages.push(String(data))
      this.#wake()
    })
    socket.addEventListener('close', ({ code }) => {
      this.#code ??= code
      this.#wake()
    })
  }

  send(message: string | ArrayBuffer): void {
    this.#socket.send(message)
  }

  /** The next message. */
  async message(): Promise<string> {
    await this.#until(() => this.#messages.length > 0 || this.#code !== null)
    return this.#messages.shift() ?? `closed with ${this.#code}`
  }

  async closed(): Promise<number> {
    await this.#until(() => this.#code !== null)
    return this.#code ?? 0
  }

  /** Says hello; the answer. */
  async hello(instanceId: string | null = null, agent: string | null = null): Promise<Record<string, unknown>> {
    this.send(JSON.stringify({ type: 'hello', version: 1, instanceId, agent }))
    return JSON.parse(await this.message())
  }

  close(): void {
    this.#socket.close(1000)
  }

  async #until(holds: () => boolean): Promise<void> {
    while (!holds()) {
      await new Promise<void>((resolve) => {
        this.#wake = resolve
      })
    }
  }
}

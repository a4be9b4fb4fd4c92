// A control plane for runners under test: real HTTP and WebSockets on loopback, real certificates from a CA of its own,
// and every way of answering wrong. It knows one tenant and believes any evidence.

import { createServer, type IncomingHttpHeaders, type IncomingMessage, type ServerResponse } from 'node:http'
import { createServer as createTlsServer } from 'node:https'
import { type WebSocket, WebSocketServer } from 'ws'
import { createCa } from '../../src/cli/ca/create.ts'
import { closeServer, listen } from '../../src/node/server.ts'
import type { EnrollAnswer } from '../../src/protocol/enroll.ts'
import type { ProvenMode } from '../../src/protocol/modes.ts'
import { encodePem } from '../../src/protocol/pem.ts'
import type { RefusalCode } from '../../src/protocol/refusals.ts'
import { epochMilliseconds, epochSeconds, rfc3339, toEpochSeconds } from '../../src/protocol/time.ts'
import { uuidv7 } from '../../src/protocol/uuid.ts'
import { type Authority, loadAuthority } from '../../src/worker/ca/authority.ts'
import { chainPem, trustBundlePem } from '../../src/worker/ca/bundle.ts'
import { readCsr } from '../../src/worker/ca/csr.ts'
import { issueCertificate } from '../../src/worker/ca/issue.ts'
import { newSerial } from '../../src/worker/ca/profile.ts'

/** PEM. */
export interface ServerTls {
  readonly key: string
  readonly cert: string
}

export interface SeenRequest {
  readonly path: string
  readonly headers: IncomingHttpHeaders
  readonly text: string
  /** The body as JSON. */
  readonly body: { readonly attestation: Record<string, string>; readonly csr: string; readonly challengeNonce: string }
}

export interface FakeAnswer {
  readonly status: number
  readonly headers?: Readonly<Record<string, string>>
  readonly body: string
}

/** Answers one request in another way; `undefined`: in the right way. May answer by itself with `response`. */
export type Respond = (request: SeenRequest, response: ServerResponse) => FakeAnswer | 'taken' | undefined

export interface Issuing {
  /** Of the certificate, from now on, in seconds. */
  lifetime: number
  tenant: string
  trustDomain: string
  runnerId: string | null
  /** In the certificate's OU, with no source. */
  mode: ProvenMode
  /** The time by the control plane's clock. */
  clock: () => number
  /** Changes the answer before it leaves. */
  spoil: (answer: EnrollAnswer) => object
}

export class FakeControlPlane {
  readonly requests: SeenRequest[] = []
  readonly sockets: WebSocket[] = []
  readonly hellos: string[] = []
  /** One for each request to come; then the right answer. */
  readonly next: Respond[] = []
  /** For every request that `next` leaves. */
  respond: Respond = () => undefined
  readonly issuing: Issuing = {
    lifetime: 900,
    tenant: 'acme',
    trustDomain: 'rootpilot',
    runnerId: null,
    mode: 'bootstrap-token',
    clock: Date.now,
    spoil: (answer) => answer,
  }
  enrollmentId = ''
  /** Called with each socket when it has said hello; default: it is answer that it is ready. */
  onHello: (socket: WebSocket) => void = (socket) => this.sendReady(socket)
  url = ''
  readonly #authority: Authority
  readonly #server: ReturnType<typeof createServer>
  readonly #tunnels = new WebSocketServer({ noServer: true })

  /** Headers of each upgrade, and what refuses it: a problem, or nothing. */
  readonly upgrades: IncomingHttpHeaders[] = []
  onUpgrade: (headers: IncomingHttpHeaders) => FakeAnswer | undefined = () => undefined

  private constructor(authority: Authority, tls: ServerTls | null) {
    this.#authority = authority
    const serve = (request: IncomingMessage, response: ServerResponse) => void this.#serve(request, response)
    this.#server = tls === null ? createServer(serve) : createTlsServer(tls, serve)
  }

  static async start(tls: ServerTls | null = null): Promise<FakeControlPlane> {
    const now = toEpochSeconds(epochMilliseconds(Date.now()))
    const ca = await createCa({ development: false, now: epochSeconds(now - 400 * 24 * 3600) })
    const loaded = await loadAuthority({ caKey: ca.issuingKey, caCert: ca.issuing, allowDevelopment: false })
    if (!loaded.ok) throw new Error('the fake CA does not load')
    const plane = new FakeControlPlane(loaded.value, tls)
    plane.#server.on('upgrade', (request, socket, head) => {
      plane.upgrades.push(request.headers)
      const refused = plane.onUpgrade(request.headers)
      if (refused === undefined) plane.#tunnels.handleUpgrade(request, socket, head, (tunnel) => plane.#accept(tunnel))
      else socket.end(`HTTP/1.1 ${refused.status} No\r\ncontent-length: ${refused.body.length}\r\n\r\n${refused.body}`)
    })
    const port = await listen(plane.#server, 0, '127.0.0.1')
    plane.url = `${tls === null ? 'http' : 'https'}://127.0.0.1:${port}`
    return plane
  }

  async stop(): Promise<void> {
    for (const socket of this.sockets) socket.terminate()
    await closeServer(this.#server)
  }

  get enrolls(): SeenRequest[] {
    return this.requests.filter(({ path }) => path === '/api/enroll')
  }

  /** The right answer to a request. */
  async issue({ body }: Pick<SeenRequest, 'body'>): Promise<EnrollAnswer> {
    const csr = await readCsr(body.csr)
    if (!csr.ok) throw new Error(`the CSR was refused: ${csr.error.detail}`)
    if (csr.value.challenge !== body.challengeNonce) throw new Error('the CSR holds another nonce')
    const { clock, lifetime, tenant, trustDomain, runnerId, mode } = this.issuing
    const now = toEpochSeconds(epochMilliseconds(clock()))
    if (body.attestation.mode !== 'mtls-renewal') this.enrollmentId = uuidv7(epochMilliseconds(clock()))
    const spiffeId = `spiffe://${trustDomain}/tenant/${tenant}/runner`
    const [notBefore, notAfter] = [epochSeconds(now - 60), epochSeconds(now + lifetime)]
    const { der } = await issueCertificate(this.#authority, {
      ...{ serial: newSerial(), enrollmentId: this.enrollmentId, tenant, spiffeId, mode, source: '' },
      ...{ spki: csr.value.spki, publicKeyHash: csr.value.publicKeyHash },
      ...{ notBefore, notAfter, issuer: this.#authority.issuerKeyId },
    })
    return {
      version: 1,
      certificate: encodePem('CERTIFICATE', der),
      chain: chainPem(this.#authority),
      trustBundle: trustBundlePem(this.#authority),
      ...{ spiffeId, tenant, runnerId, enrollmentId: this.enrollmentId },
      ...{ notBefore: rfc3339(notBefore), notAfter: rfc3339(notAfter), serverTime: rfc3339(now) },
    }
  }

  /** What a runner under test is answered, without HTTP. */
  async answer(request: SeenRequest, response: ServerResponse): Promise<FakeAnswer | 'taken'> {
    this.requests.push(request)
    const answer = this.next.shift()?.(request, response) ?? this.respond(request, response)
    if (answer === 'taken') return answer
    if (answer !== undefined) return { ...answer, body: answer.body.replace(TIME_OF_ANSWER, this.#now()) }
    if (request.path === '/api/tunnel/challenge') {
      const expiresAt = rfc3339(toEpochSeconds(epochMilliseconds(Date.now() + 30_000)))
      return { status: 200, body: JSON.stringify({ challenge: 'challenge', expiresAt }) }
    }
    if (request.path !== '/api/enroll') return problem(404, 'not_found')
    return { status: 200, body: JSON.stringify(this.issuing.spoil(await this.issue(request))) }
  }

  #now(): string {
    return rfc3339(toEpochSeconds(epochMilliseconds(this.issuing.clock())))
  }

  sendReady(socket: WebSocket): void {
    const { trustDomain, tenant, runnerId, clock } = this.issuing
    const spiffeId = `spiffe://${trustDomain}/tenant/${tenant}/runner`
    const notAfter = rfc3339(toEpochSeconds(epochMilliseconds(clock() + this.issuing.lifetime * 1000)))
    socket.send(JSON.stringify({ type: 'ready', enrollmentId: this.enrollmentId, spiffeId, runnerId, notAfter }))
  }

  async #serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    let text = ''
    for await (const chunk of request) text += chunk
    const seen = { path: request.url ?? '', headers: request.headers, text, body: JSON.parse(text) }
    const answer = await this.answer(seen, response)
    if (answer === 'taken') return
    response.writeHead(answer.status, { 'content-type': 'application/json', ...answer.headers })
    response.end(answer.body)
  }

  #accept(socket: WebSocket): void {
    this.sockets.push(socket)
    socket.once('message', (data) => {
      this.hellos.push(String(data))
      this.onHello(socket)
    })
  }
}

/** Stands for the time of the fake's own clock when the refusal leaves. */
const TIME_OF_ANSWER = 'the time of the answer'

/** A refusal as the control plane words it. */
export const problem = (status: number, code: RefusalCode, extra: object = {}): FakeAnswer => ({
  status,
  headers: { 'content-type': 'application/problem+json' },
  body: JSON.stringify({
    type: `urn:muster:${code}`,
    title: code,
    status,
    detail: `detail of ${code}`,
    code,
    requestId: '01a227f2-2f68-76aa-95ed-d0276828b324',
    serverTime: TIME_OF_ANSWER,
    ...extra,
  }),
})

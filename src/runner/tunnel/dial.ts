// One connection to the tunnel: TLS with the certificate shown, a signed challenge where the edge sees no certificate,
// hello, ready.

import { X509Certificate } from 'node:crypto'
import type { IncomingMessage } from 'node:http'
import type { SecureContext } from 'node:tls'
import { WebSocket } from 'ws'
import { TUNNEL_FRAME_BYTES } from '../../protocol/limits.ts'
import { TUNNEL_CHALLENGE_PATH, TUNNEL_PATH } from '../../protocol/paths.ts'
import { isObject, readJson } from '../../protocol/strict-json.ts'
import {
  CLIENT_CERT_HEADER,
  formatClientCert,
  formatProof,
  frameText,
  PROOF_HEADER,
  parseControlFrame,
  parseTunnelChallenge,
  proofText,
  TUNNEL_CLOSE,
  TUNNEL_VERSION,
} from '../../protocol/tunnel.ts'
import type { Identity } from '../identity/identity.ts'
import { signText } from '../identity/keys.ts'
import { told } from '../log.ts'
import { connector, type Network, tlsContext } from '../net/connection.ts'
import { ATTEMPT_TIMEOUT, failureText, type Post } from '../net/http.ts'
import { type Link, SocketLink } from './socket.ts'

export type Dialed =
  | { readonly type: 'open'; readonly link: Link }
  /** The control plane said no to the upgrade, with a code of ours where there is one. */
  | { readonly type: 'refused'; readonly status: number; readonly code: string | undefined; readonly why: string }
  | { readonly type: 'failed'; readonly why: string }

/** One attempt; never rejects. */
export type Dial = (identity: Identity, signal: AbortSignal) => Promise<Dialed>

type Proof = { readonly headers: Readonly<Record<string, string>> } | { readonly failed: string }

export function dialer(base: URL, network: Network, post: Post, instanceId: string): Dial {
  const url = new URL(TUNNEL_PATH, base)
  /** Remembered, so that a runner behind an edge without mTLS does not ask twice each time. */
  let challenged = url.protocol === 'http:'

  return async (identity, signal) => {
    if (!challenged) {
      const dialed = await connect(identity, {}, signal)
      if (dialed.type !== 'refused' || dialed.status !== 401) return dialed
    }
    const proof = await prove(identity, signal)
    if ('failed' in proof) return { type: 'failed', why: proof.failed }
    const dialed = await connect(identity, proof.headers, signal)
    challenged = dialed.type === 'open' || url.protocol === 'http:'
    return dialed
  }

  async function prove(identity: Identity, signal: AbortSignal): Promise<Proof> {
    try {
      const answer = await post(new URL(TUNNEL_CHALLENGE_PATH, base), '{}', signal)
      const reading = readJson(answer.body)
      const given = answer.status === 200 && reading.ok ? parseTunnelChallenge(reading.value) : null
      if (given === null) return { failed: `HTTP ${answer.status} instead of a challenge` }
      const signature = signText(identity.key, proofText(url.host, given.challenge))
      const headers = {
        [CLIENT_CERT_HEADER]: formatClientCert(new X509Certificate(identity.certificate).raw),
        [PROOF_HEADER]: formatProof(given.challenge, signature),
      }
      return { headers }
    } catch (error) {
      return { failed: error instanceof Error ? error.message : 'no connection' }
    }
  }

  /** What OpenSSL says of a certificate quotes nothing of it. */
  function contextFor(identity: Identity): { readonly secure: SecureContext } | { readonly failed: string } {
    try {
      return { secure: tlsContext(network, identity) }
    } catch (error) {
      return { failed: `TLS takes no such certificate: ${error instanceof Error ? error.message : 'unknown'}` }
    }
  }

  function connect(
    identity: Identity,
    headers: Readonly<Record<string, string>>,
    signal: AbortSignal,
  ): Promise<Dialed> {
    const context = contextFor(identity)
    if ('failed' in context) return Promise.resolve({ type: 'failed', why: context.failed })
    const end = new AbortController()
    return new Promise((resolve) => {
      const address = new URL(url)
      address.protocol = url.protocol === 'http:' ? 'ws:' : 'wss:'
      const socket = new WebSocket(address, {
        // ws hands every option on to node:http, which takes a connection that is made later.
        createConnection: connector(url, network, context.secure, end.signal) as never,
        headers: { ...headers, 'user-agent': 'muster-runner' },
        handshakeTimeout: ATTEMPT_TIMEOUT,
        maxPayload: TUNNEL_FRAME_BYTES,
        perMessageDeflate: false,
      })
      const give = (dialed: Dialed): void => {
        signal.removeEventListener('abort', stop)
        clearTimeout(limit)
        if (dialed.type !== 'open') {
          socket.terminate()
          end.abort()
        }
        resolve(dialed)
      }
      const failed = (why: string): void => give({ type: 'failed', why })
      const stop = (): void => failed('stopped')
      const limit = setTimeout(() => failed('no ready frame in time'), ATTEMPT_TIMEOUT * 2)
      signal.addEventListener('abort', stop)
      socket.on('error', (error) => failed(failureText(error, url)))
      socket.on('close', (code) => failed(`closed with ${code} before it was ready`))
      socket.on('unexpected-response', async (_request, response) => give(await readRefusal(response)))
      socket.on('open', () => socket.send(frameText({ type: 'hello', version: TUNNEL_VERSION, instanceId })))
      socket.once('message', (data, isBinary) => {
        const frame = isBinary ? null : parseControlFrame(String(data))
        if (frame?.type !== 'ready' || frame.enrollmentId !== identity.enrollmentId) {
          socket.close(TUNNEL_CLOSE.protocolError)
          return failed('the first frame was not the ready of this enrollment')
        }
        socket.removeAllListeners('close')
        give({ type: 'open', link: new SocketLink(socket, identity) })
      })
    })
  }
}

const REFUSAL_BYTES = 16 * 1024

/** The problem document of a refused upgrade. */
async function readRefusal(response: IncomingMessage): Promise<Dialed> {
  const status = response.statusCode ?? 0
  const chunks: Buffer[] = []
  let size = 0
  try {
    for await (const chunk of response) {
      size += chunk.length
      if (size > REFUSAL_BYTES) break
      chunks.push(chunk)
    }
  } catch {
    // Cut off: what there is will not be JSON.
  }
  const reading = readJson(Buffer.concat(chunks))
  const code = reading.ok && isObject(reading.value) ? told(reading.value.code) : undefined
  return { type: 'refused', status, code, why: `the upgrade was answered with HTTP ${status}${code ? ` ${code}` : ''}` }
}

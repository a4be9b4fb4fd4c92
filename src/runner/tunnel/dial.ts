// Dials the tunnel once: TLS with the client certificate, a signed challenge where the edge sees no certificate, hello,
// ready.

import { X509Certificate } from 'node:crypto'
import type { Agent, IncomingMessage } from 'node:http'
import { WebSocket } from 'ws'
import { codeOf, messageOf } from '../../node/errors.ts'
import { failureText, type Network } from '../../node/http-client.ts'
import { agentFor } from '../../node/proxy-agent.ts'
import { authorityOf } from '../../node/proxy-rules.ts'
import { VERSION } from '../../node/version.ts'
import { readUpTo } from '../../protocol/bytes.ts'
import { TUNNEL_FRAME_BYTES } from '../../protocol/limits.ts'
import { TUNNEL_CHALLENGE_PATH, TUNNEL_PATH } from '../../protocol/paths.ts'
import { ok } from '../../protocol/result.ts'
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
import { keyPem, signText } from '../identity/keys.ts'
import { ATTEMPT_TIMEOUT, type Post, parseProblem, type RequestResult, requestFailed, USER_AGENT } from '../net/http.ts'
import { ReadySocket, type TunnelSocket } from './socket.ts'

/** One attempt; never rejects. A failure without a status: there was no answer to the upgrade, or no ready frame. */
export type Dial = (identity: Identity, signal: AbortSignal) => Promise<RequestResult<TunnelSocket>>

/** What the fleet shows of this runner. */
const AGENT = `muster/${VERSION}`

type Headers = Readonly<Record<string, string>>

export function dialer(base: URL, network: Network, post: Post, instanceId: string): Dial {
  const url = new URL(TUNNEL_PATH, base)
  const plain = url.protocol === 'http:'
  /** Remembered, so that behind an edge without mTLS the second dial goes to the challenge at once. */
  let challenged = plain

  return (identity, signal) => open(identity, signal).catch((error: unknown) => requestFailed(causeOf(error)))

  async function open(identity: Identity, signal: AbortSignal): Promise<RequestResult<TunnelSocket>> {
    if (!challenged) {
      const opened = await upgrade(identity, {}, signal)
      if (opened.ok || opened.error.status !== 401) return opened
    }
    const proof = await prove(identity, signal)
    if (!proof.ok) return proof
    const opened = await upgrade(identity, proof.value, signal)
    challenged = opened.ok || plain
    return opened
  }

  /** Headers that prove the key of the certificate. */
  async function prove(identity: Identity, signal: AbortSignal): Promise<RequestResult<Headers>> {
    const answer = await post(new URL(TUNNEL_CHALLENGE_PATH, base), '{}', signal)
    if (!answer.ok) return answer
    const { status, body } = answer.value
    const reading = readJson(body)
    const given = status === 200 && reading.ok ? parseTunnelChallenge(reading.value) : null
    if (given === null) return requestFailed(`HTTP ${status} instead of a challenge`)
    const signature = signText(identity.key, proofText(authorityOf(url), given.challenge))
    return ok({
      [CLIENT_CERT_HEADER]: formatClientCert(new X509Certificate(identity.certificate).raw),
      [PROOF_HEADER]: formatProof(given.challenge, signature),
    })
  }

  async function upgrade(
    identity: Identity,
    headers: Headers,
    signal: AbortSignal,
  ): Promise<RequestResult<TunnelSocket>> {
    const end = new AbortController()
    let agent: Agent
    try {
      const client = { certificate: identity.certificate + identity.chain, key: keyPem(identity.key) }
      agent = agentFor(url, { rules: network.rules, roots: network.extraRoots(), client, signal: end.signal })
    } catch (error) {
      // What OpenSSL says of a certificate quotes nothing of it.
      return requestFailed(`TLS takes no such certificate: ${messageOf(error)}`)
    }
    return new Promise((resolve) => {
      const address = new URL(url)
      address.protocol = plain ? 'ws:' : 'wss:'
      const socket = new WebSocket(address, {
        agent,
        headers: { ...headers, host: authorityOf(url), 'user-agent': USER_AGENT },
        handshakeTimeout: ATTEMPT_TIMEOUT,
        maxPayload: TUNNEL_FRAME_BYTES,
        perMessageDeflate: false,
      })
      const settle = (opened: RequestResult<TunnelSocket>): void => {
        signal.removeEventListener('abort', stop)
        clearTimeout(limit)
        if (!opened.ok) {
          socket.terminate()
          end.abort()
        }
        resolve(opened)
      }
      const failed = (why: string): void => settle(requestFailed(why))
      const stop = (): void => failed('stopped')
      const limit = setTimeout(() => failed('no ready frame in time'), ATTEMPT_TIMEOUT * 2)
      signal.addEventListener('abort', stop)
      socket.on('error', (error) => failed(failureText(error, url, network)))
      socket.on('close', (code) => failed(`closed with ${code} before it was ready`))
      socket.on('unexpected-response', async (_request, response) => settle(await readRefusal(response)))
      socket.on('open', () =>
        socket.send(frameText({ type: 'hello', version: TUNNEL_VERSION, instanceId, agent: AGENT })),
      )
      socket.once('message', (data, isBinary) => {
        const frame = isBinary ? null : parseControlFrame(String(data))
        if (frame?.type !== 'ready' || frame.enrollmentId !== identity.enrollmentId) {
          socket.close(TUNNEL_CLOSE.protocolError)
          return failed('the first frame was not the ready of this enrollment')
        }
        socket.removeAllListeners('close')
        settle(ok(new ReadySocket(socket, identity)))
      })
    })
  }
}

/** For what Node throws. Its code alone, since its message could quote an argument that came from outside. */
const causeOf = (error: unknown): string => `the tunnel cannot be dialed: ${codeOf(error)}`

const REFUSAL_BYTES = 16 * 1024

/** A refused upgrade; it has a problem document where the control plane itself refused. */
async function readRefusal(response: IncomingMessage): Promise<RequestResult<never>> {
  const status = response.statusCode ?? 0
  // Cut off, what there is would not be JSON.
  const body = await readUpTo(response, REFUSAL_BYTES).catch(() => null)
  const reading = readJson(body ?? new Uint8Array())
  const problem = reading.ok && isObject(reading.value) ? parseProblem(reading.value) : null
  const code = problem === null ? '' : ` ${problem.code}`
  return requestFailed(`the upgrade was answered with HTTP ${status}${code}`, { status, problem })
}

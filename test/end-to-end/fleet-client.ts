// A client that enrolls, renews and connects at a local edge over real TLS. Not a test itself.
import { readFileSync } from 'node:fs'
import { Agent, request } from 'undici'
import { WebSocket } from 'ws'
import { encodeBase64url, utf8 } from '../../src/protocol/bytes.ts'
import type { EnrollAnswer } from '../../src/protocol/enroll.ts'
import { pem } from '../fakes/ca-forge.ts'
import { enrollBody, makeRequester, type Requester } from '../fakes/requester.ts'
import type { RunningEdge } from './edge.ts'

export interface Identity {
  readonly certificate: string
  readonly keys: Requester['keys']
}

export interface Answered {
  readonly status: number
  readonly json: EnrollAnswer & { readonly code: string; readonly requestId: string }
}

export interface FleetClient {
  readonly mint: (...args: string[]) => Promise<{ readonly id: string; readonly token: string }>
  readonly enroll: (token: string) => Promise<Identity & EnrollAnswer>
  readonly renewalBody: (identity: Identity, requester: Requester) => Promise<object>
  readonly post: (body: object) => Promise<Answered>
  readonly renew: (identity: Identity, requester?: Requester) => Promise<Answered & Identity>
  readonly connect: (identity: Identity) => Promise<Tunnel>
  readonly cron: () => Promise<void>
  readonly close: () => Promise<void>
}

export interface Tunnel {
  readonly socket: WebSocket
  /** First frame that came. */
  readonly ready: Record<string, string | null>
  readonly closed: Promise<number>
}

export function fleetClient(edge: RunningEdge): FleetClient {
  const ca = readFileSync(edge.caFile)
  const dispatcher = new Agent({ connect: { ca }, connections: 16 })

  const post = async (body: object): Promise<Answered> => {
    const headers = { 'content-type': 'application/json' }
    const answer = await request(`${edge.tlsUrl}/api/enroll`, {
      method: 'POST',
      body: JSON.stringify(body),
      dispatcher,
      headers,
    })
    return { status: answer.statusCode, json: (await answer.body.json()) as Answered['json'] }
  }
  const renewalBody = async ({ certificate, keys }: Identity, requester: Requester): Promise<object> => {
    const nonce = utf8(requester.challengeNonce)
    const raw = await crypto.subtle.sign({ name: 'ECDSA', hash: 'SHA-256' }, keys.privateKey, nonce)
    const signature = encodeBase64url(new Uint8Array(raw))
    return enrollBody(requester, { mode: 'mtls-renewal', certificate, signature })
  }

  return {
    mint: async (...args) => {
      const { stdout, stderr, code } = await edge.muster('token', 'mint', '--tenant', 'acme', '--json', ...args)
      if (code !== 0) throw new Error(stderr)
      return JSON.parse(stdout)
    },
    enroll: async (token) => {
      const requester = await makeRequester()
      const { status, json } = await post(
        enrollBody(requester, { mode: token.startsWith('muster_rt_') ? 'runner-token' : 'bootstrap-token', token }),
      )
      if (status !== 200) throw new Error(JSON.stringify(json))
      return { ...json, keys: requester.keys }
    },
    renewalBody,
    post,
    renew: async (identity, requester) => {
      const asking = requester ?? (await makeRequester())
      const answered = await post(await renewalBody(identity, asking))
      return { ...answered, certificate: answered.json.certificate, keys: asking.keys }
    },
    connect: async ({ certificate, keys }) => {
      const key = pem('PRIVATE KEY', new Uint8Array(await crypto.subtle.exportKey('pkcs8', keys.privateKey)))
      const socket = new WebSocket(`${edge.tlsUrl.replace('https', 'wss')}/api/tunnel`, { ca, cert: certificate, key })
      const closed = new Promise<number>((resolve) => socket.once('close', resolve))
      const ready = await new Promise<Tunnel['ready']>((resolve, reject) => {
        socket.once('error', reject)
        socket.once('unexpected-response', (_, response) => reject(new Error(`refused with ${response.statusCode}`)))
        socket.once('message', (data) => resolve(JSON.parse(String(data))))
        socket.once('open', () => socket.send('{"type":"hello","version":1,"instanceId":"test"}'))
      })
      return { socket, ready, closed }
    },
    cron: async () => {
      await request(`${edge.url}/cdn-cgi/local/scheduled`)
    },
    close: () => dispatcher.close(),
  }
}

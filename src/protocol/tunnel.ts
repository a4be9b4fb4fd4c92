// The tunnel's protocol for both sides: frames, close codes, challenge and proof. No I/O.

import * as v from 'valibot'
import { type Bytes, decodeBase64, decodeBase64url, encodeBase64, encodeBase64url, utf8 } from './bytes.ts'
import { everyCharacter, isBase64url } from './characters.ts'
import { instanceId, label } from './enroll.ts'
import { AGENT_CHARACTERS, CERTIFICATE_BYTES, CHALLENGE_CHARACTERS, TUNNEL_FRAME_BYTES } from './limits.ts'
import { parseShape, text } from './shape.ts'
import { type Json, readJson } from './strict-json.ts'

export const TUNNEL_VERSION = 1

/** Bare text, so that the edge can answer it without waking the object. */
export const PING = 'ping'
export const PONG = 'pong'

/** Why the control plane closes a tunnel (RFC 6455 §7.4.2, private use). */
export const TUNNEL_CLOSE = {
  /** The runner broke the protocol: back off and connect again. */
  protocolError: 4000,
  /** The certificate expired: renew, then connect again. */
  expired: 4001,
  /** Another connection of the same enrollment took over. */
  replaced: 4002,
  /** Ban, revocation, clone: renew once, and act on the answer. */
  unauthorized: 4003,
} as const

const HELLO = v.strictObject({
  type: v.literal('hello'),
  version: v.literal(TUNNEL_VERSION),
  instanceId: v.optional(v.nullable(instanceId), null),
  /** What the runner says it is: `muster/<version>`. Shown in the fleet, never trusted. */
  agent: v.optional(v.nullable(label(AGENT_CHARACTERS)), null),
})

const READY = v.strictObject({
  type: v.literal('ready'),
  enrollmentId: text,
  spiffeId: text,
  runnerId: v.nullable(text),
  /** RFC 3339. The control plane closes the tunnel at this time. */
  notAfter: text,
})

/** Asks the runner to finish its work and exit. */
const DRAIN = v.strictObject({ type: v.literal('drain') })

export type HelloFrame = Readonly<v.InferOutput<typeof HELLO>>
export type ReadyFrame = Readonly<v.InferOutput<typeof READY>>
export type DrainFrame = Readonly<v.InferOutput<typeof DRAIN>>

/** From a runner. */
export type RunnerFrame = HelloFrame
/** From the control plane. */
export type ControlFrame = ReadyFrame | DrainFrame

/** Parses a message of a WebSocket. Null: a protocol error. */
export const parseRunnerFrame = (message: unknown): RunnerFrame | null => parseFrame(HELLO, message)
export const parseControlFrame = (message: unknown): ControlFrame | null => parseFrame(v.union([READY, DRAIN]), message)

export const frameText = (frame: RunnerFrame | ControlFrame): string => JSON.stringify(frame)

function parseFrame<S extends v.GenericSchema>(shape: S, message: unknown): v.InferOutput<S> | null {
  // Every frame is text; a UTF-16 length over the bound is over it in UTF-8 too.
  if (typeof message !== 'string' || message.length > TUNNEL_FRAME_BYTES) return null
  const bytes = utf8(message)
  if (bytes.length > TUNNEL_FRAME_BYTES) return null
  const reading = readJson(bytes)
  if (!reading.ok) return null
  const frame = parseShape(shape, reading.value)
  return frame.ok ? frame.value : null
}

/** The answer of `POST /api/tunnel/challenge`. Unknown fields, of a newer control plane, are ignored. */
const CHALLENGE = v.object({
  /** base64url: the runner sends it back in a header. */
  challenge: v.pipe(
    text,
    v.check(
      (challenge) =>
        challenge !== '' && challenge.length <= CHALLENGE_CHARACTERS && everyCharacter(challenge, isBase64url),
      `base64url of at most ${CHALLENGE_CHARACTERS} characters`,
    ),
  ),
  /** RFC 3339. */
  expiresAt: text,
})

export type TunnelChallenge = Readonly<v.InferOutput<typeof CHALLENGE>>

export function parseTunnelChallenge(body: Json): TunnelChallenge | null {
  const shaped = parseShape(CHALLENGE, body)
  return shaped.ok ? shaped.value : null
}

/** RFC 9440 §2.2: the leaf's DER. */
export const CLIENT_CERT_HEADER = 'Client-Cert'
/** `<challenge>.<base64url signature>`: ECDSA P-256 with SHA-256, r‖s, over `proofText`. */
export const PROOF_HEADER = 'Muster-Proof'

/** What the certificate's key signs. It has line ends, so it is never the nonce of a renewal. `host`: of the URL. */
export const proofText = (host: string, challenge: string): string => `muster-tunnel-v1\n${host}\n${challenge}`

export const formatProof = (challenge: string, signature: Uint8Array): string =>
  `${challenge}.${encodeBase64url(signature)}`

export function parseProof(header: string): { readonly challenge: string; readonly signature: Bytes } | null {
  const [challenge = '', text = '', ...rest] = header.split('.', 3)
  const signature = decodeBase64url(text)
  return rest.length === 0 && challenge !== '' && signature?.length === 64 ? { challenge, signature } : null
}

/** A structured field's byte sequence (RFC 8941 §3.3.5). */
export const formatClientCert = (der: Uint8Array): string => `:${encodeBase64(der)}:`

/** The DER in a `Client-Cert` header or in the edge's `certRFC9440`; null for anything but one byte sequence. */
export function parseClientCert(header: string): Bytes | null {
  if (header.length > (CERTIFICATE_BYTES / 3) * 4 + 6 || header.length < 3) return null
  return header.startsWith(':') && header.endsWith(':') ? decodeBase64(header.slice(1, -1)) : null
}

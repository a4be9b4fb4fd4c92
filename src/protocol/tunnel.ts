// The tunnel as both sides say it: addresses, headers of the proof, frames, close codes. No I/O.

import { type Bytes, decodeBase64, decodeBase64url, encodeBase64, encodeBase64url, utf8 } from './base64url.ts'
import { isLabel } from './labels.ts'
import { CERTIFICATE_BYTES, INSTANCE_ID_CHARACTERS, TUNNEL_FRAME_BYTES } from './limits.ts'
import { isObject, type Json, type JsonObject, readJson } from './strict-json.ts'

export const TUNNEL_PATH = '/api/tunnel'
export const TUNNEL_CHALLENGE_PATH = '/api/tunnel/challenge'
export const TUNNEL_VERSION = 1

/** Bare text, not JSON: the edge answers it without waking anything. */
export const PING = 'ping'
export const PONG = 'pong'

/** Why the control plane closes a tunnel (RFC 6455 §7.4.2, private use). */
export const TUNNEL_CLOSE = {
  /** The runner said what the protocol does not allow: back off and connect again. */
  protocolError: 4000,
  /** The certificate expired: renew, then connect again. */
  expired: 4001,
  /** Another connection of the same enrollment took over. */
  replaced: 4002,
  /** Ban, revocation, clone: renew once, what that answers decides. */
  standingLost: 4003,
} as const

export interface HelloFrame {
  readonly type: 'hello'
  readonly version: 1
  readonly instanceId: string | null
}

export interface ReadyFrame {
  readonly type: 'ready'
  readonly enrollmentId: string
  readonly spiffeId: string
  readonly runnerId: string | null
  /** RFC 3339; the tunnel is closed then. */
  readonly notAfter: string
}

/** An operator asks the runner to finish what it does and to exit. */
export interface DrainFrame {
  readonly type: 'drain'
}

/** What a runner may say: a new frame is one member here and one line in `RUNNER_FRAMES`. */
export type RunnerFrame = HelloFrame
/** What the control plane may say: a new frame is one member here and one line in `CONTROL_FRAMES`. */
export type ControlFrame = ReadyFrame | DrainFrame

type FrameReaders<F extends { readonly type: string }> = {
  readonly [type in F['type']]: (fields: JsonObject) => Extract<F, { readonly type: type }> | null
}

const RUNNER_FRAMES: FrameReaders<RunnerFrame> = {
  hello: ({ version, instanceId = null, ...rest }) =>
    isEmpty(rest) && version === TUNNEL_VERSION && (instanceId === null || isInstanceId(instanceId))
      ? { type: 'hello', version, instanceId }
      : null,
}

const CONTROL_FRAMES: FrameReaders<ControlFrame> = {
  ready: ({ enrollmentId, spiffeId, runnerId, notAfter, ...rest }) =>
    isEmpty(rest) &&
    typeof enrollmentId === 'string' &&
    typeof spiffeId === 'string' &&
    (runnerId === null || typeof runnerId === 'string') &&
    typeof notAfter === 'string'
      ? { type: 'ready', enrollmentId, spiffeId, runnerId, notAfter }
      : null,
  drain: (rest) => (isEmpty(rest) ? { type: 'drain' } : null),
}

/** A message as a WebSocket hands it over: text, or binary in the platform's type. Null: a protocol error. */
export const parseRunnerFrame = (message: unknown): RunnerFrame | null => parseFrame(RUNNER_FRAMES, message)
/** The other direction. Null: a protocol error. */
export const parseControlFrame = (message: unknown): ControlFrame | null => parseFrame(CONTROL_FRAMES, message)

export const frameText = (frame: RunnerFrame | ControlFrame): string => JSON.stringify(frame)

function parseFrame<F extends { readonly type: string }>(readers: FrameReaders<F>, message: unknown): F | null {
  // Every frame is text; a UTF-16 length over the bound is over it in UTF-8 too.
  if (typeof message !== 'string' || message.length > TUNNEL_FRAME_BYTES) return null
  const bytes = utf8(message)
  if (bytes.length > TUNNEL_FRAME_BYTES) return null
  const reading = readJson(bytes)
  if (!reading.ok || !isObject(reading.value)) return null
  const { type, ...fields } = reading.value
  return isTypeOf(readers, type) ? readers[type](fields) : null
}

const isTypeOf = <F extends { readonly type: string }>(
  readers: FrameReaders<F>,
  type: Json | undefined,
): type is F['type'] => typeof type === 'string' && Object.hasOwn(readers, type)

const isEmpty = (fields: JsonObject): boolean => Object.keys(fields).length === 0
const isInstanceId = (value: Json): value is string =>
  typeof value === 'string' && value.length <= INSTANCE_ID_CHARACTERS && isLabel(value)

/** What `POST /api/tunnel/challenge` answers. */
export interface TunnelChallenge {
  readonly challenge: string
  /** RFC 3339. */
  readonly expiresAt: string
}

export function parseTunnelChallenge(body: Json): TunnelChallenge | null {
  if (!isObject(body)) return null
  const { challenge, expiresAt } = body
  return typeof challenge === 'string' && typeof expiresAt === 'string' ? { challenge, expiresAt } : null
}

/** RFC 9440 §2.2: the leaf's DER. */
export const CLIENT_CERT_HEADER = 'Client-Cert'
/** `<challenge>.<base64url signature>`: ECDSA P-256 with SHA-256, r‖s, over `proofText`. */
export const PROOF_HEADER = 'Muster-Proof'

/** What the certificate's key signs; it holds line ends, which no nonce of a renewal does. `host`: of the URL. */
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

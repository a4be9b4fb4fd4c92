// Parses a JWK (RFC 7517, RFC 7518 §6) and says whether it may verify a token, for bundled and fetched key sets alike.
// Pure: whether an EC point is on its curve only an import tells.

import { decodeBase64url, encodeBase64url } from './bytes.ts'
import { JWS_BYTES } from './limits.ts'
import { isObject, type Json, type JsonObject } from './strict-json.ts'

export type KeyAlgorithm = 'RS256' | 'ES256'

/** The key material alone: `key_ops`, `ext` and the like can make an import throw. */
export type PublicJwk =
  | { readonly kty: 'RSA'; readonly n: string; readonly e: string }
  | { readonly kty: 'EC'; readonly crv: 'P-256'; readonly x: string; readonly y: string }

/** An RSA or P-256 key of a set, usable or not. */
export interface JwkReading {
  /** In one canonical form, so that copies are found. */
  readonly jwk: PublicJwk
  readonly alg: KeyAlgorithm
  /** The private half is published too, so the key is not used. */
  readonly isPrivate: boolean
  /** Null where the key must not verify a token. */
  readonly kid: string | null
}

const RSA_BITS_LEAST = 2048
/** A larger key costs CPU, and no cluster has one. */
const RSA_BITS_MOST = 8192
/** 65537, the only public exponent that clusters have (kube-apiserver, EKS, GKE and AKS alike). */
const RSA_EXPONENT = 'AQAB'
const P256_COORDINATE_BYTES = 32
/** RFC 7518 §6.2.2, §6.3.2, §6.4: any of these makes a private or a symmetric key. */
const PRIVATE_MEMBERS = ['d', 'p', 'q', 'dp', 'dq', 'qi', 'oth', 'k']

/** Whether an entry of a key set holds private or symmetric key material. */
export const isPrivateJwk = (entry: JsonObject): boolean => PRIVATE_MEMBERS.some((name) => Object.hasOwn(entry, name))

/** Null for anything but an RSA or P-256 key. */
export function parseJwk(entry: Json): JwkReading | null {
  if (!isObject(entry)) return null
  const material = rsaMaterial(entry) ?? ecMaterial(entry)
  if (material === null) return null
  const { alg, jwk, isSound } = material
  const isPrivate = isPrivateJwk(entry)
  return { alg, jwk, isPrivate, kid: isSound && !isPrivate ? usableKid(entry, alg) : null }
}

interface Material {
  readonly alg: KeyAlgorithm
  readonly jwk: PublicJwk
  /** Whether size and encoding are accepted. */
  readonly isSound: boolean
}

function rsaMaterial(entry: JsonObject): Material | null {
  if (entry.kty !== 'RSA') return null
  const [n, e] = [integer(entry.n), integer(entry.e)]
  const first = n?.[0]
  if (n === null || e === null || first === undefined) return null
  const bits = n.length * 8 - (Math.clz32(first) - 24)
  const jwk = { kty: 'RSA', n: encodeBase64url(n), e: encodeBase64url(e) } as const
  return { alg: 'RS256', jwk, isSound: bits >= RSA_BITS_LEAST && bits <= RSA_BITS_MOST && jwk.e === RSA_EXPONENT }
}

function ecMaterial(entry: JsonObject): Material | null {
  if (entry.kty !== 'EC' || entry.crv !== 'P-256') return null
  const [x, y] = [integer(entry.x), integer(entry.y)]
  if (x === null || y === null || x.length > P256_COORDINATE_BYTES || y.length > P256_COORDINATE_BYTES) return null
  const jwk = { kty: 'EC', crv: 'P-256', x: coordinate(x), y: coordinate(y) } as const
  // RFC 7518 §6.2.1.2: a coordinate has all of its octets. A shorter one is compared with other keys, but not used.
  return { alg: 'ES256', jwk, isSound: jwk.x === entry.x && jwk.y === entry.y }
}

/** The octets of a big-endian number without leading zeros. */
function integer(text: Json | undefined): Uint8Array | null {
  const bytes = typeof text === 'string' ? decodeBase64url(text) : null
  if (bytes === null) return null
  const start = bytes.findIndex((byte) => byte !== 0)
  return start === -1 ? null : bytes.subarray(start)
}

function coordinate(bytes: Uint8Array): string {
  const padded = new Uint8Array(P256_COORDINATE_BYTES)
  padded.set(bytes, P256_COORDINATE_BYTES - bytes.length)
  return encodeBase64url(padded)
}

function usableKid({ kid, use, alg, key_ops: operations }: JsonObject, own: KeyAlgorithm): string | null {
  // A longer one fits into no token.
  if (typeof kid !== 'string' || kid === '' || kid.length > JWS_BYTES) return null
  if (use !== undefined && use !== 'sig') return null
  if (alg !== undefined && alg !== own) return null
  if (operations !== undefined && !(Array.isArray(operations) && operations.includes('verify'))) return null
  return kid
}

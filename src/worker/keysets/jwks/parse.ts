// A JWK Set as an issuer publishes it → the keys in it that may verify a token, and what else must be known of it.
// RFC 7517, RFC 7518 §6. No network: what is read here is as bundled or as fetched.

import { calculateJwkThumbprint } from 'jose'
import { decodeBase64url, encodeBase64url } from '../../../protocol/base64url.ts'
import { JWS_BYTES, KEY_SET_KEYS } from '../../../protocol/limits.ts'
import { isObject, type Json, type JsonObject } from '../../../protocol/strict-json.ts'

export type KeyAlgorithm = 'RS256' | 'ES256'

/** Only what the key itself is made of: `key_ops`, `ext` and the like can make an import throw. */
export type PublicJwk =
  | { readonly kty: 'RSA'; readonly n: string; readonly e: string }
  | { readonly kty: 'EC'; readonly crv: 'P-256'; readonly x: string; readonly y: string }

export interface VerificationKey {
  readonly kid: string
  readonly alg: KeyAlgorithm
  readonly jwk: PublicJwk
}

export interface KeySet {
  /** No two under one kid. */
  readonly keys: readonly VerificationKey[]
  /**
   * RFC 7638 thumbprints of every RSA and P-256 key in the set, unusable ones among them: who publishes a key,
   * for whatever use and under whatever kid, may hold its private half.
   */
  readonly thumbprints: readonly string[]
  /** Thumbprints of the keys whose private half stands in the set. They are not used. */
  readonly exposed: readonly string[]
}

const RSA_BITS_LEAST = 2048
/** More costs CPU to verify with, and no cluster has it. */
const RSA_BITS_MOST = 8192
/** 65537, the only public exponent that clusters have (kube-apiserver, EKS, GKE and AKS alike). */
const RSA_EXPONENT = 'AQAB'
const P256_COORDINATE_BYTES = 32
/** RFC 7518 §6.2.2, §6.3.2: any of these is a private key. */
const PRIVATE_MEMBERS = ['d', 'p', 'q', 'dp', 'dq', 'qi', 'oth']

const IMPORT: Record<KeyAlgorithm, SubtleCryptoImportKeyAlgorithm> = {
  RS256: { name: 'RSASSA-PKCS1-v1_5', hash: 'SHA-256' },
  ES256: { name: 'ECDSA', namedCurve: 'P-256' },
}

/** Throws where the key is none, such as a point off the curve. */
export const importKey = ({ jwk, alg }: Pick<VerificationKey, 'jwk' | 'alg'>): Promise<CryptoKey> =>
  crypto.subtle.importKey('jwk', { ...jwk }, IMPORT[alg], false, ['verify'])

/** Null where it is no key set at all or has too many keys. A key that cannot be used is skipped, never fatal. */
export async function parseKeySet(set: Json): Promise<KeySet | null> {
  const entries = isObject(set) ? set.keys : undefined
  if (!Array.isArray(entries) || entries.length > KEY_SET_KEYS) return null
  const read = (await Promise.all(entries.map(readEntry))).filter((entry) => entry !== null)
  const exposed = new Set(read.filter((entry) => entry.isPrivate).map(({ thumbprint }) => thumbprint))
  return {
    keys: oneForEachKid(read.filter(({ thumbprint }) => !exposed.has(thumbprint))),
    thumbprints: [...new Set(read.map(({ thumbprint }) => thumbprint))],
    exposed: [...exposed],
  }
}

interface Entry {
  readonly thumbprint: string
  readonly isPrivate: boolean
  /** Null: stands in the set, but may not verify a token. */
  readonly key: VerificationKey | null
}

async function readEntry(entry: Json): Promise<Entry | null> {
  if (!isObject(entry)) return null
  const material = rsaMaterial(entry) ?? ecMaterial(entry)
  if (material === null) return null
  const isPrivate = PRIVATE_MEMBERS.some((name) => Object.hasOwn(entry, name))
  return {
    thumbprint: await calculateJwkThumbprint({ ...material.jwk }),
    isPrivate,
    key: !isPrivate && material.isSound ? await usableKey(entry, material) : null,
  }
}

interface Material {
  readonly alg: KeyAlgorithm
  readonly jwk: PublicJwk
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
  // RFC 7518 §6.2.1.2: a coordinate has all of its octets. What is spelt otherwise is compared, but not used.
  return { alg: 'ES256', jwk, isSound: jwk.x === entry.x && jwk.y === entry.y }
}

/** The octets of a big-endian number without leading zeros: one spelling for each key, so that copies are found. */
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

async function usableKey(entry: JsonObject, { alg, jwk }: Material): Promise<VerificationKey | null> {
  const { kid, use, key_ops: operations } = entry
  // A longer one fits into no token.
  if (typeof kid !== 'string' || kid === '' || kid.length > JWS_BYTES) return null
  if (use !== undefined && use !== 'sig') return null
  if (entry.alg !== undefined && entry.alg !== alg) return null
  if (operations !== undefined && !(Array.isArray(operations) && operations.includes('verify'))) return null
  try {
    await importKey({ alg, jwk })
  } catch {
    return null
  }
  return { kid, alg, jwk }
}

/** The same key twice counts once; of two different keys under one kid neither is used. */
function oneForEachKid(entries: readonly Entry[]): VerificationKey[] {
  const found = new Map<string, { readonly thumbprint: string; readonly key: VerificationKey } | null>()
  for (const { thumbprint, key } of entries) {
    if (key === null) continue
    const earlier = found.get(key.kid)
    found.set(key.kid, earlier === undefined || earlier?.thumbprint === thumbprint ? { thumbprint, key } : null)
  }
  return [...found.values()].flatMap((entry) => (entry === null ? [] : [entry.key]))
}

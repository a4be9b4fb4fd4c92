// Parses an issuer's JWK Set: the keys that may verify a token, and the thumbprints of all keys in it. No network.

import { calculateJwkThumbprint } from 'jose/jwk/thumbprint'
import { type JwkReading, type KeyAlgorithm, type PublicJwk, parseJwk } from '../../../protocol/jwk.ts'
import { KEY_SET_KEYS } from '../../../protocol/limits.ts'
import { isObject, type Json } from '../../../protocol/strict-json.ts'

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
  /** Thumbprints of the keys whose private half is in the set, too. They are not used. */
  readonly exposed: readonly string[]
}

const IMPORT: Record<KeyAlgorithm, SubtleCryptoImportKeyAlgorithm> = {
  RS256: { name: 'RSASSA-PKCS1-v1_5', hash: 'SHA-256' },
  ES256: { name: 'ECDSA', namedCurve: 'P-256' },
}

/** Throws for a key that WebCrypto refuses, such as a point off the curve. */
export const importKey = ({ jwk, alg }: Pick<VerificationKey, 'jwk' | 'alg'>): Promise<CryptoKey> =>
  crypto.subtle.importKey('jwk', { ...jwk }, IMPORT[alg], false, ['verify'])

/** Null for what is no JWK Set or has too many keys. A key that cannot be used is skipped. */
export async function parseKeySet(set: Json): Promise<KeySet | null> {
  const entries = isObject(set) ? set.keys : undefined
  if (!Array.isArray(entries) || entries.length > KEY_SET_KEYS) return null
  const readings = entries.map(parseJwk).filter((reading) => reading !== null)
  const read = await Promise.all(readings.map(readEntry))
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
  /** Null: must not verify a token. */
  readonly key: VerificationKey | null
}

async function readEntry({ alg, jwk, isPrivate, kid }: JwkReading): Promise<Entry> {
  const key = kid === null ? null : { kid, alg, jwk }
  return {
    thumbprint: await calculateJwkThumbprint({ ...jwk }),
    isPrivate,
    key: key !== null && (await canBeImported(key)) ? key : null,
  }
}

async function canBeImported(key: VerificationKey): Promise<boolean> {
  try {
    await importKey(key)
    return true
  } catch {
    return false
  }
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

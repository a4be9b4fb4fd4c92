// Renders the trust bundle: as PEM, and in the SPIFFE bundle format (SPIFFE Trust Domain and Bundle §4). Pure.

import { encodeBase64, encodeBase64url } from '../../protocol/bytes.ts'
import { parseDer } from '../../protocol/der.ts'
import { encodePem } from '../../protocol/pem.ts'
import type { Authority } from './authority.ts'
import type { Certificate } from './certificate.ts'
import { ecPublicKeyOf } from './public-key.ts'

/** In seconds. A new root is in the bundle for days before it signs. */
const REFRESH_HINT = 300
/** More than the number of roots in any bundle. */
const ROOTS = 64

export interface SpiffeBundle {
  readonly keys: readonly BundleKey[]
  readonly spiffe_sequence: number
  readonly spiffe_refresh_hint: number
}

export interface BundleKey {
  readonly use: 'x509-svid'
  readonly kty: string
  /** One certificate, base64 DER. */
  readonly x5c: readonly [string]
  readonly crv?: string
  readonly x?: string
  readonly y?: string
  readonly n?: string
  readonly e?: string
}

export const chainPem = ({ intermediates }: Authority): string => pemOf(intermediates)

export const trustBundlePem = ({ roots }: Authority): string => pemOf(roots)

const pemOf = (certificates: readonly Certificate[]): string =>
  certificates.map(({ der }) => encodePem('CERTIFICATE', der)).join('')

export const spiffeBundle = ({ roots }: Authority): SpiffeBundle => ({
  keys: roots.map((root) => ({ use: 'x509-svid', ...publicJwk(root), x5c: [encodeBase64(root.der)] })),
  spiffe_sequence: sequenceOf(roots),
  spiffe_refresh_hint: REFRESH_HINT,
})

/**
 * Computed from the certificates alone, and larger after each step of a rotation: an added root is the newest, and a
 * removed one raises the number by one.
 */
const sequenceOf = (roots: readonly Certificate[]): number =>
  Math.max(...roots.map(({ notBefore }) => notBefore)) * ROOTS + ROOTS - roots.length

function publicJwk({ spki, publicKey }: Certificate): Omit<BundleKey, 'use' | 'x5c'> {
  const ec = ecPublicKeyOf(spki)
  if (ec !== null) {
    const [x, y] = [ec.point.subarray(1, 1 + ec.octets), ec.point.subarray(1 + ec.octets)]
    return { kty: 'EC', crv: ec.curve, x: encodeBase64url(x), y: encodeBase64url(y) }
  }
  const [n, e] = (parseDer(publicKey)?.children ?? []).map(({ contents }) =>
    encodeBase64url(contents[0] === 0 ? contents.subarray(1) : contents),
  )
  // `loadAuthority` accepts no other kind of key.
  if (n === undefined || e === undefined) throw new Error('a root has a key that is neither EC nor RSA')
  return { kty: 'RSA', n, e }
}

// Renders the trust bundle: as PEM, and in the SPIFFE bundle format (SPIFFE Trust Domain and Bundle §4).

import { encodeBase64, encodeBase64url, sha256Hex, utf8 } from '../../protocol/bytes.ts'
import { parseDer } from '../../protocol/der.ts'
import { encodePem } from '../../protocol/pem.ts'
import type { Authority } from './authority.ts'
import type { Certificate } from './certificate.ts'
import { ecPublicKeyOf } from './public-key.ts'

/** In seconds. That is soon enough, since a new root is in the bundle for days before its CA signs. */
const REFRESH_HINT = 300

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

/** Of the lists of an authority: every answer holds the same two. */
const made = new WeakMap<readonly Certificate[], string>()

function pemOf(certificates: readonly Certificate[]): string {
  const pem = made.get(certificates) ?? certificates.map(({ der }) => encodePem('CERTIFICATE', der)).join('')
  made.set(certificates, pem)
  return pem
}

export const spiffeBundle = ({ roots }: Authority, sequence: number): SpiffeBundle => ({
  keys: roots.map((root) => ({ use: 'x509-svid', ...publicJwk(root), x5c: [encodeBase64(root.der)] })),
  spiffe_sequence: sequence,
  spiffe_refresh_hint: REFRESH_HINT,
})

/** Identifies the set of roots, in any order: SHA-256 in hexadecimal. */
export const bundleHash = ({ roots }: Authority): Promise<string> =>
  sha256Hex(
    utf8(
      roots
        .map(({ der }) => encodeBase64(der))
        .sort()
        .join(),
    ),
  )

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

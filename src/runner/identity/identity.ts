// An identity: a certificate with its key, chain and trust bundle, and what the certificate says. No I/O.

import { type KeyObject, X509Certificate } from 'node:crypto'
import { parseSpiffeId } from '../../protocol/spiffe-id.ts'
import { type EpochSeconds, epochSeconds } from '../../protocol/time.ts'

export interface Identity {
  /** PEM: the leaf alone. */
  readonly certificate: string
  /** PEM: what leads from the leaf towards a root; may be empty. */
  readonly chain: string
  /** PEM: the roots that peers of this identity are verified with. */
  readonly trustBundle: string
  readonly key: KeyObject
  readonly spiffeId: string
  readonly tenant: string
  /** `<mode>:<source>` of the enrollment. */
  readonly organizationalUnit: string
  readonly enrollmentId: string
  readonly runnerId: string | null
  readonly notBefore: EpochSeconds
  readonly notAfter: EpochSeconds
}

export interface IdentityMaterial {
  readonly certificate: string
  readonly chain: string
  readonly trustBundle: string
  readonly key: KeyObject
  readonly runnerId: string | null
}

/**
 * The identity that the material makes up, or the fault that keeps it from being one; the fault quotes nothing. Every
 * certificate is read, since TLS reads them all, and kept in one form without what stood between them.
 */
export function readIdentity(material: IdentityMaterial): Identity | { readonly fault: string } {
  const [leaf, ...others] = certificatesOf(material.certificate) ?? []
  if (leaf === undefined || others.length > 0) return { fault: 'the certificate cannot be read' }
  const chain = certificatesOf(material.chain)
  if (chain === null) return { fault: 'a certificate of the chain cannot be read' }
  const trustBundle = certificatesOf(material.trustBundle)
  if (trustBundle === null) return { fault: 'a certificate of the trust bundle cannot be read' }
  if (!leaf.checkPrivateKey(material.key)) return { fault: 'the key is not the key of the certificate' }
  const spiffeId = spiffeIdOf(leaf)
  const id = spiffeId === null ? null : parseSpiffeId(spiffeId)
  if (spiffeId === null || id === null) return { fault: 'the certificate has no SPIFFE ID of a runner' }
  return {
    ...material,
    certificate: leaf.toString(),
    chain: chain.join(''),
    trustBundle: trustBundle.join(''),
    spiffeId,
    tenant: id.tenant,
    organizationalUnit: attributeOf(leaf, 'OU'),
    enrollmentId: attributeOf(leaf, 'CN'),
    notBefore: timeOf(leaf.validFrom),
    notAfter: timeOf(leaf.validTo),
  }
}

const BEGIN = '-----BEGIN CERTIFICATE-----'
const END = '-----END CERTIFICATE-----'

/** Each certificate of a PEM text; null where one is cut off or is none. A blank text has none. */
export function certificatesOf(pem: string): X509Certificate[] | null {
  const [before = '', ...rests] = pem.split(BEGIN)
  if (rests.length === 0) return before.trim() === '' ? [] : null
  const certificates: X509Certificate[] = []
  for (const rest of rests) {
    const end = rest.indexOf(END)
    const certificate = end < 0 ? null : readCertificate(`${BEGIN}${rest.slice(0, end)}${END}\n`)
    if (certificate === null) return null
    certificates.push(certificate)
  }
  return certificates
}

function readCertificate(pem: string): X509Certificate | null {
  try {
    return new X509Certificate(pem)
  } catch {
    return null
  }
}

/** The one name that the certificate has beside its subject, where it is a URI. */
function spiffeIdOf(leaf: X509Certificate): string | null {
  const names = leaf.subjectAltName ?? ''
  return names.startsWith('URI:') ? names.slice('URI:'.length) : null
}

const attributeOf = (leaf: X509Certificate, name: string): string =>
  leaf.subject
    .split('\n')
    .find((line) => line.startsWith(`${name}=`))
    ?.slice(name.length + 1) ?? ''

const timeOf = (text: string): EpochSeconds => epochSeconds(Date.parse(text) / 1000)

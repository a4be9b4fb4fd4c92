// An identity: a certificate with its key, chain and trust bundle, and what the certificate says. No I/O.

import { type KeyObject, X509Certificate } from 'node:crypto'
import { parseSpiffeId } from '../protocol/spiffe-id.ts'
import { type EpochSeconds, epochSeconds } from '../protocol/time.ts'

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

/** The identity that the material makes up, or the fault that keeps it from being one; the fault quotes nothing. */
export function readIdentity(material: IdentityMaterial): Identity | { readonly fault: string } {
  const leaf = readCertificate(material.certificate)
  if (leaf === null) return { fault: 'the certificate cannot be read' }
  if (!leaf.checkPrivateKey(material.key)) return { fault: 'the key is not the key of the certificate' }
  const spiffeId = spiffeIdOf(leaf)
  const id = spiffeId === null ? null : parseSpiffeId(spiffeId)
  if (spiffeId === null || id === null) return { fault: 'the certificate has no SPIFFE ID of a runner' }
  return {
    ...material,
    spiffeId,
    tenant: id.tenant,
    organizationalUnit: attributeOf(leaf, 'OU'),
    enrollmentId: attributeOf(leaf, 'CN'),
    notBefore: timeOf(leaf.validFrom),
    notAfter: timeOf(leaf.validTo),
  }
}

/** The first certificate of a PEM text. */
export function readCertificate(pem: string): X509Certificate | null {
  try {
    return new X509Certificate(pem)
  } catch {
    return null
  }
}

const BEGIN = '-----BEGIN CERTIFICATE-----'
const END = '-----END CERTIFICATE-----'

/** Each certificate of a PEM text, as PEM with a line end at its end. */
export function certificatesOf(pem: string): string[] {
  return pem
    .split(BEGIN)
    .slice(1)
    .map((rest) => `${BEGIN}${rest.slice(0, rest.indexOf(END))}${END}\n`)
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

// Parses an identity: a certificate with its key, chain and trust bundle. No I/O.

import type { KeyObject, X509Certificate } from 'node:crypto'
import { readCertificates } from '../../node/certificates.ts'
import { parsePem } from '../../protocol/pem.ts'
import { err, ok, type Result } from '../../protocol/result.ts'
import { parseSpiffeId } from '../../protocol/spiffe-id.ts'
import { type EpochSeconds, epochSeconds } from '../../protocol/time.ts'
import { MAX_CERTIFICATES } from '../environment/pem-input.ts'

/** What an identity is made of, as it comes from the control plane, the disk or an operator. */
export interface IdentityMaterial {
  /** PEM: the leaf alone. */
  readonly certificate: string
  /** PEM: what leads from the leaf towards a root; may be empty. */
  readonly chain: string
  /** PEM: the roots that peers of this identity are verified with; may be empty. */
  readonly trustBundle: string
  readonly key: KeyObject
  readonly runnerId: string | null
}

export interface Identity extends IdentityMaterial {
  readonly spiffeId: string
  readonly tenant: string
  /** `<mode>:<source>` of the enrollment. */
  readonly organizationalUnit: string
  readonly enrollmentId: string
  readonly notBefore: EpochSeconds
  readonly notAfter: EpochSeconds
}

/**
 * Checks the material and reads the names and times of the certificate. The error says what is wrong and quotes nothing.
 * Every certificate is parsed, since TLS parses them all, and written anew in one form.
 */
export function readIdentity(material: IdentityMaterial): Result<Identity, string> {
  const [leaf, ...others] = parseCertificates(material.certificate) ?? []
  if (leaf === undefined || others.length > 0) return err('the certificate cannot be read')
  const chain = parseCertificates(material.chain)
  if (chain === null) return err('a certificate of the chain cannot be read')
  const trustBundle = parseCertificates(material.trustBundle)
  if (trustBundle === null) return err('a certificate of the trust bundle cannot be read')
  if (!leaf.checkPrivateKey(material.key)) return err('the key is not the key of the certificate')
  const id = runnerSpiffeId(leaf)
  if (id === null) return err('the certificate has no SPIFFE ID of a runner')
  return ok({
    ...material,
    certificate: leaf.toString(),
    chain: chain.join(''),
    trustBundle: trustBundle.join(''),
    ...id,
    organizationalUnit: attributeOf(leaf, 'OU'),
    enrollmentId: attributeOf(leaf, 'CN'),
    notBefore: timeOf(leaf.validFrom),
    notAfter: timeOf(leaf.validTo),
  })
}

/** The certificates of a PEM text and nothing else, or null. A blank text has none. */
export function parseCertificates(pem: string): X509Certificate[] | null {
  if (pem.trim() === '') return []
  const blocks = parsePem(pem, MAX_CERTIFICATES)
  if (!blocks.ok || blocks.value.some(({ label }) => label !== 'CERTIFICATE')) return null
  return readCertificates(blocks.value.map(({ bytes }) => bytes))
}

/** Who a certificate names: null unless its subject alternative name is one URI, the SPIFFE ID of a runner. */
export function runnerSpiffeId(leaf: X509Certificate): Pick<Identity, 'spiffeId' | 'tenant'> | null {
  const names = leaf.subjectAltName ?? ''
  if (!names.startsWith('URI:')) return null
  const spiffeId = names.slice('URI:'.length)
  const id = parseSpiffeId(spiffeId)
  return id === null ? null : { spiffeId, tenant: id.tenant }
}

const attributeOf = (leaf: X509Certificate, name: string): string =>
  leaf.subject
    .split('\n')
    .find((line) => line.startsWith(`${name}=`))
    ?.slice(name.length + 1) ?? ''

const timeOf = (text: string): EpochSeconds => epochSeconds(Date.parse(text) / 1000)

/** Who the operator says that this runner is. It chooses nothing: the identity must agree with it. */
export interface DeclaredIdentity {
  /** RUNNER_TENANT. */
  readonly tenant: string | null
  readonly runnerId: DeclaredRunnerId | null
}

export interface DeclaredRunnerId {
  /** RUNNER_ID or --runner-id. */
  readonly name: string
  readonly value: string
}

/** Why the runner refuses to start with this identity, or null. Where the mode attests no runner ID, any one agrees. */
export function mismatchOf({ tenant, runnerId }: DeclaredIdentity, identity: Identity): string | null {
  if (tenant !== null && tenant !== identity.tenant) {
    return `RUNNER_TENANT=${tenant} but this runner enrolled as ${identity.tenant}: refusing to start`
  }
  if (runnerId !== null && identity.runnerId !== null && runnerId.value !== identity.runnerId) {
    return `${runnerId.name}=${runnerId.value} but this runner enrolled as ${identity.runnerId}: refusing to start`
  }
  return null
}

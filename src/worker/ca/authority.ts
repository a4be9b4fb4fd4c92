// The CA as configured: CA_KEY, CA_CERT, CA_PREVIOUS and CA_TRUST, checked once and kept by the caller.

import { type Bytes, equalBytes, hex, utf8 } from '../../protocol/base64url.ts'
import { parseCertificateFile } from '../../protocol/pem.ts'
import { type Outcome, refuse } from '../../protocol/refusals.ts'
import { ok } from '../../protocol/result.ts'
import { epochSeconds } from '../../protocol/time.ts'
import { type Certificate, readCertificate } from './certificate.ts'
import { importVerifier, type Verifier } from './certificate-signature.ts'
import { KEY_USAGE } from './extensions.ts'
import { keyIdentifierOf } from './key-identifier.ts'
import { OID } from './oids.ts'
import { importPrivateKey, type PrivateKey, SIGNING } from './private-key.ts'
import type { Validity } from './profile.ts'
import type { Template } from './template.ts'

/** The secrets as they are bound; an empty one counts as absent. */
export interface AuthoritySecrets {
  readonly caKey: string | undefined
  readonly caCert: string | undefined
  readonly caPrevious?: string | undefined
  readonly caTrust?: string | undefined
  /** Only the local edge takes a development CA. */
  readonly allowDevelopment: boolean
}

/** A CA certificate whose key verifies. */
export interface IssuingCertificate {
  readonly certificate: Certificate
  readonly verifier: Verifier
}

export interface Authority {
  readonly signer: PrivateKey
  readonly issuing: IssuingCertificate
  /** Key identifier of the issuing certificate, in hexadecimal. */
  readonly issuerKeyId: string
  /** What a runner sends beside its leaf: the issuing certificate and others below the root; empty where it is the root. */
  readonly intermediates: readonly Certificate[]
  /** The trust bundle: the root of CA_CERT, then those of CA_TRUST. */
  readonly roots: readonly Certificate[]
  /** Whose leaves are accepted: the issuing certificate first, then those of CA_PREVIOUS. */
  readonly accepted: readonly IssuingCertificate[]
  /** When every certificate of CA_CERT is valid. */
  readonly validity: Validity
  /** Leaves built once, by profile (template.ts). */
  readonly templates: Map<string, Template>
}

/** OU of the subject of every certificate of a CA that `muster dev` made. */
export const DEVELOPMENT_MARK = 'Muster development only'

/** Issuing certificate, root, and up to eight between them or beside them. */
const MAX_CERTIFICATES = 10

/** Reads the CA; `ca_not_configured` with a detail that names the secret and what is wrong with it. Judges no time. */
export async function loadAuthority(secrets: AuthoritySecrets): Promise<Outcome<Authority>> {
  if (!secrets.caKey?.trim()) return misconfigured('CA_KEY is missing')
  if (!secrets.caCert?.trim()) return misconfigured('CA_CERT is missing')
  const signer = await importPrivateKey(secrets.caKey.trim())
  if ('fault' in signer) return misconfigured(`CA_KEY ${signer.fault}`)

  const chain = readCertificates('CA_CERT', secrets.caCert, secrets.allowDevelopment)
  if ('fault' in chain) return misconfigured(chain.fault)
  const previous = readCertificates('CA_PREVIOUS', secrets.caPrevious, secrets.allowDevelopment)
  if ('fault' in previous) return misconfigured(previous.fault)
  const trust = readCertificates('CA_TRUST', secrets.caTrust, secrets.allowDevelopment)
  if ('fault' in trust) return misconfigured(trust.fault)

  const links = await importVerifiers('CA_CERT', chain.certificates)
  if ('fault' in links) return misconfigured(links.fault)
  const accepted = await importVerifiers('CA_PREVIOUS', previous.certificates)
  if ('fault' in accepted) return misconfigured(accepted.fault)
  const anchors = await importVerifiers('CA_TRUST', trust.certificates)
  if ('fault' in anchors) return misconfigured(anchors.fault)
  const [issuing] = links.issuers
  const root = links.issuers.at(-1)?.certificate
  if (issuing === undefined || root === undefined) return misconfigured('CA_CERT is missing')

  const broken = await brokenChain(links.issuers)
  if (broken !== null) return misconfigured(broken)
  if (!(await isPair(signer, issuing))) return misconfigured('CA_KEY and CA_CERT are not a pair')
  const foreign = trust.certificates.find((certificate) => !isSelfIssued(certificate))
  if (foreign !== undefined) return misconfigured('CA_TRUST holds a certificate that is no root')

  return ok({
    signer,
    issuing,
    issuerKeyId: hex(await authorityKeyIdentifierOf(issuing.certificate)),
    intermediates: chain.certificates.slice(0, -1),
    roots: distinct([root, ...trust.certificates]),
    accepted: [issuing, ...accepted.issuers],
    validity: {
      notBefore: epochSeconds(Math.max(...chain.certificates.map(({ notBefore }) => notBefore))),
      notAfter: epochSeconds(Math.min(...chain.certificates.map(({ notAfter }) => notAfter))),
    },
    templates: new Map(),
  })
}

const misconfigured = (detail: string) => refuse('ca_not_configured', { detail })

interface Fault {
  readonly fault: string
}

function readCertificates(
  name: string,
  pem: string | undefined,
  allowDevelopment: boolean,
): { readonly certificates: readonly Certificate[] } | Fault {
  if (!pem?.trim()) return { certificates: [] }
  const blocks = parseCertificateFile(pem, MAX_CERTIFICATES)
  if (!blocks.ok) return { fault: `${name} is not a list of PEM certificates: ${blocks.error}` }
  const certificates: Certificate[] = []
  for (const [i, bytes] of blocks.value.entries()) {
    const which = `certificate ${i + 1} of ${name}`
    const certificate = readCertificate(bytes)
    if (certificate === null) return { fault: `${which} is not an X.509 v3 certificate in DER` }
    const { basicConstraints, keyUsage, extendedKeyUsage, unknownCritical } = certificate.extensions
    if (basicConstraints?.ca !== true) return { fault: `${which} is not a CA certificate (CA:TRUE is missing)` }
    if (keyUsage !== null && (keyUsage & KEY_USAGE.keyCertSign) === 0)
      return { fault: `${which} may not sign certificates` }
    // Verifiers hold a leaf to the usages of every CA above it.
    if (extendedKeyUsage !== null && !coversLeaves(extendedKeyUsage)) {
      return { fault: `${which} is limited to usages (extendedKeyUsage) without both clientAuth and serverAuth` }
    }
    if (unknownCritical) return { fault: `${which} has a critical extension that is not known here` }
    if (!allowDevelopment && isDevelopment(certificate)) {
      return { fault: `${which} is a development CA, made by \`muster dev\`: it is for one machine only` }
    }
    certificates.push(certificate)
  }
  return { certificates }
}

const isDevelopment = ({ subjectAttributes }: Certificate): boolean =>
  subjectAttributes.some(({ type, text }) => type === OID.organizationalUnit && text === DEVELOPMENT_MARK)

const coversLeaves = (usages: readonly string[]): boolean =>
  usages.includes(OID.anyExtendedKeyUsage) || (usages.includes(OID.clientAuth) && usages.includes(OID.serverAuth))

async function importVerifiers(
  name: string,
  certificates: readonly Certificate[],
): Promise<{ readonly issuers: readonly IssuingCertificate[] } | Fault> {
  const issuers: IssuingCertificate[] = []
  for (const [i, certificate] of certificates.entries()) {
    const verifier = await importVerifier(certificate.spki)
    if (verifier === null) return { fault: `certificate ${i + 1} of ${name} has a key of a kind that is not accepted` }
    issuers.push({ certificate, verifier })
  }
  return { issuers }
}

/** What is wrong with a chain from the issuing certificate up to a self-signed root; null for nothing. */
async function brokenChain(chain: readonly IssuingCertificate[]): Promise<string | null> {
  for (const [i, { certificate }] of chain.entries()) {
    const issuer = chain[i + 1] ?? chain[i]
    if (issuer === undefined) break
    if (!equalBytes(certificate.issuer, issuer.certificate.subject) || !(await issuer.verifier.verify(certificate))) {
      return i + 1 < chain.length
        ? `CA_CERT is no chain: certificate ${i + 2} did not sign certificate ${i + 1}`
        : 'CA_CERT does not end in a self-signed root'
    }
    // RFC 5280 §4.2.1.9: intermediates that may stand between this one and the leaf.
    const { pathLength } = certificate.extensions.basicConstraints ?? { pathLength: null }
    if (pathLength !== null && pathLength < i)
      return `certificate ${i + 1} of CA_CERT allows fewer certificates below it`
  }
  return null
}

/** Whether the private key signs for the issuing certificate: it signs, and the certificate's key verifies. */
async function isPair(signer: PrivateKey, { certificate }: IssuingCertificate): Promise<boolean> {
  const algorithm = { name: 'ECDSA', hash: SIGNING[signer.curve].hash }
  const probe = utf8('muster: do CA_KEY and CA_CERT belong together?')
  try {
    const named = { name: 'ECDSA', namedCurve: signer.curve }
    const publicKey = await crypto.subtle.importKey('spki', certificate.spki, named, false, ['verify'])
    const signature = await crypto.subtle.sign(algorithm, signer.key, probe)
    return await crypto.subtle.verify(algorithm, publicKey, signature, probe)
  } catch {
    return false
  }
}

/** What a leaf's AKI says: the issuer's SKI (RFC 5280 §4.2.1.1), or one by our own rule where it has none. */
export const authorityKeyIdentifierOf = async ({ extensions, publicKey }: Certificate): Promise<Bytes> =>
  extensions.subjectKeyIdentifier ?? keyIdentifierOf(publicKey)

const isSelfIssued = ({ issuer, subject }: Certificate): boolean => equalBytes(issuer, subject)

const distinct = (certificates: readonly Certificate[]): readonly Certificate[] =>
  certificates.filter((one, i) => certificates.findIndex((other) => equalBytes(one.der, other.der)) === i)

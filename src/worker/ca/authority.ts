// Loads the certificate authority from CA_KEY, CA_CERT, CA_PREVIOUS and CA_TRUST, and checks that they fit together.

import { type Bytes, equalBytes, hex, utf8 } from '../../protocol/bytes.ts'
import { CA_CERTIFICATES } from '../../protocol/limits.ts'
import { OID } from '../../protocol/oids.ts'
import { parseCertificateFile } from '../../protocol/pem.ts'
import { type Outcome, refuse } from '../../protocol/refusals.ts'
import { err, ok, type Result } from '../../protocol/result.ts'
import { epochSeconds } from '../../protocol/time.ts'
import { type Certificate, readCertificate } from './certificate.ts'
import { conformanceFault } from './conformance.ts'
import { KEY_USAGE } from './extensions.ts'
import { importPrivateKey, type PrivateKey, SIGNING } from './keys.ts'
import type { Validity } from './profile.ts'
import { keyIdentifierOf } from './public-key.ts'
import { importVerifier, type Verifier } from './signature.ts'

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
  /** The AKI of its leaves: its SKI (RFC 5280 §4.2.1.1), or `keyIdentifierOf` its key where it has none. */
  readonly keyIdentifier: Bytes
  readonly verifier: Verifier
}

export interface Authority {
  readonly signer: PrivateKey
  readonly issuing: IssuingCertificate
  /** Key identifier of the issuing certificate, in hexadecimal. */
  readonly issuerKeyId: string
  /** CA_CERT without its root: what a runner sends after its leaf. Empty where the issuing certificate is the root. */
  readonly intermediates: readonly Certificate[]
  /** The trust bundle: the root of CA_CERT, then those of CA_TRUST. */
  readonly roots: readonly Certificate[]
  /** Issuers of accepted leaves: the issuing certificate first, then those of CA_PREVIOUS. */
  readonly accepted: readonly IssuingCertificate[]
  /** While every certificate of CA_CERT is valid. */
  readonly validity: Validity
}

/** The OU of every certificate of a CA that `muster dev` made. */
export const DEVELOPMENT_MARK = 'Muster development only'

/** `ca_not_configured`, with a detail that names the secret and its fault. Validity times are not judged. */
export async function loadAuthority(secrets: AuthoritySecrets): Promise<Outcome<Authority>> {
  if (!secrets.caKey?.trim()) return misconfigured('CA_KEY is missing')
  if (!secrets.caCert?.trim()) return misconfigured('CA_CERT is missing')
  const { allowDevelopment } = secrets
  const signer = await importPrivateKey(secrets.caKey.trim())
  if (!signer.ok) return misconfigured(`CA_KEY ${signer.error}`)
  const chain = await readCaCertificates('CA_CERT', secrets.caCert, allowDevelopment)
  if (!chain.ok) return misconfigured(chain.error)
  const previous = await readCaCertificates('CA_PREVIOUS', secrets.caPrevious, allowDevelopment)
  if (!previous.ok) return misconfigured(previous.error)
  const trust = await readCaCertificates('CA_TRUST', secrets.caTrust, allowDevelopment)
  if (!trust.ok) return misconfigured(trust.error)

  const certificates = chain.value.map(({ certificate }) => certificate)
  const [issuing] = chain.value
  const root = certificates.at(-1)
  if (issuing === undefined || root === undefined) return misconfigured('CA_CERT is missing')
  const broken = await brokenChain(chain.value)
  if (broken !== null) return misconfigured(broken)
  // Only of CA_CERT: the other two may hold an old CA, which must not keep its successor from loading.
  const lax = conformanceFault(certificates)
  if (lax !== null)
    return misconfigured(`certificate ${lax.at + 1} of CA_CERT ${lax.fault}: its leaves would not verify`)
  if (!(await isPair(signer.value, issuing))) return misconfigured('CA_KEY and CA_CERT are not a pair')
  const anchors = trust.value.map(({ certificate }) => certificate)
  if (!anchors.every(isSelfIssued)) return misconfigured('CA_TRUST holds a certificate that is no root')

  return ok({
    signer: signer.value,
    issuing,
    issuerKeyId: hex(issuing.keyIdentifier),
    intermediates: certificates.slice(0, -1),
    roots: distinct([root, ...anchors]),
    accepted: [issuing, ...previous.value],
    validity: {
      notBefore: epochSeconds(Math.max(...certificates.map(({ notBefore }) => notBefore))),
      notAfter: epochSeconds(Math.min(...certificates.map(({ notAfter }) => notAfter))),
    },
  })
}

const misconfigured = (detail: string) => refuse('ca_not_configured', { detail })

/** The CA certificates of one secret; the error names the secret and the position of the certificate. */
async function readCaCertificates(
  name: string,
  pem: string | undefined,
  allowDevelopment: boolean,
): Promise<Result<readonly IssuingCertificate[], string>> {
  if (!pem?.trim()) return ok([])
  const blocks = parseCertificateFile(pem, CA_CERTIFICATES)
  if (!blocks.ok) return err(`${name} is not a list of PEM certificates: ${blocks.error}`)
  const read: IssuingCertificate[] = []
  for (const [i, der] of blocks.value.entries()) {
    const which = `certificate ${i + 1} of ${name}`
    const certificate = readCertificate(der)
    if (certificate === null) return err(`${which} is not an X.509 v3 certificate in DER`)
    const fault = caFault(certificate)
    if (fault !== null) return err(`${which} ${fault}`)
    if (!allowDevelopment && isDevelopment(certificate)) {
      return err(`${which} is a development CA, made by \`muster dev\`: it is for one machine only`)
    }
    const verifier = await importVerifier(certificate.spki)
    if (verifier === null) return err(`${which} has a key of a kind that is not accepted`)
    const keyIdentifier = certificate.extensions.subjectKeyIdentifier ?? (await keyIdentifierOf(certificate.publicKey))
    read.push({ certificate, keyIdentifier, verifier })
  }
  return ok(read)
}

/** Why a certificate cannot issue leaves for runners; null where it can. */
function caFault({ extensions }: Certificate): string | null {
  const { basicConstraints, keyUsage, extendedKeyUsage, unknownCritical } = extensions
  if (basicConstraints?.ca !== true) return 'is not a CA certificate (CA:TRUE is missing)'
  if (keyUsage !== null && (keyUsage & KEY_USAGE.keyCertSign) === 0) return 'may not sign certificates'
  // Verifiers limit a leaf to the usages of every CA above it.
  if (extendedKeyUsage !== null && !coversLeaves(extendedKeyUsage)) {
    return 'is limited to usages (extendedKeyUsage) without both clientAuth and serverAuth'
  }
  return unknownCritical ? 'has a critical extension that is not known here, or name constraints' : null
}

const isDevelopment = ({ subjectAttributes }: Certificate): boolean =>
  subjectAttributes.some(({ type, text }) => type === OID.organizationalUnit && text === DEVELOPMENT_MARK)

const coversLeaves = (usages: readonly string[]): boolean =>
  usages.includes(OID.anyExtendedKeyUsage) || (usages.includes(OID.clientAuth) && usages.includes(OID.serverAuth))

/** The fault of a chain from the issuing certificate up to a self-signed root; null where there is none. */
async function brokenChain(chain: readonly IssuingCertificate[]): Promise<string | null> {
  for (const [i, { certificate }] of chain.entries()) {
    const issuer = chain[i + 1] ?? chain[i]
    if (issuer === undefined) break
    if (!equalBytes(certificate.issuer, issuer.certificate.subject) || !(await issuer.verifier.verify(certificate))) {
      return i + 1 < chain.length
        ? `CA_CERT is no chain: certificate ${i + 2} did not sign certificate ${i + 1}`
        : 'CA_CERT does not end in a self-signed root'
    }
    // RFC 5280 §4.2.1.9: how many intermediates may be between this certificate and the leaf.
    const { pathLength } = certificate.extensions.basicConstraints ?? { pathLength: null }
    if (pathLength !== null && pathLength < i)
      return `certificate ${i + 1} of CA_CERT allows fewer certificates below it`
  }
  return null
}

/** Whether the certificate's key verifies what the private key signs. */
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

const isSelfIssued = ({ issuer, subject }: Certificate): boolean => equalBytes(issuer, subject)

const distinct = (certificates: readonly Certificate[]): readonly Certificate[] =>
  certificates.filter((one, i) => certificates.findIndex((other) => equalBytes(one.der, other.der)) === i)

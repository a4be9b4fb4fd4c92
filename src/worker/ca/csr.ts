// Reads PKCS#10 certificate requests (RFC 2986): verifies the self-signature, and takes the public key and the challenge.
// Names, extensions and usages in a request are ignored.

import type { Bytes } from '../../protocol/bytes.ts'
import { sha256Hex } from '../../protocol/bytes.ts'
import { bitsOf, type Element, isSequence, oidOf, parseDer, smallIntegerOf, TAG } from '../../protocol/der.ts'
import { CSR_BYTES } from '../../protocol/limits.ts'
import { OID } from '../../protocol/oids.ts'
import { parsePem } from '../../protocol/pem.ts'
import { type Outcome, refuse } from '../../protocol/refusals.ts'
import { err, ok, type Result } from '../../protocol/result.ts'
import { importP256, p256PointOf, verifyP256 } from './public-key.ts'
import { signatureToRaw } from './signature.ts'
import { textOf } from './text.ts'

export interface CertificateRequest {
  /** SubjectPublicKeyInfo, 91 octets, byte for byte as in the request. */
  readonly spki: Bytes
  /** SHA-256 of `spki`, in hexadecimal. */
  readonly publicKeyHash: string
  /** The one value of `challengePassword`. */
  readonly challenge: string
}

/** RFC 2985 §5.4.1: ub-pkcs9-challengePassword-length. */
const CHALLENGE_CHARACTERS = 255
const LABELS = ['CERTIFICATE REQUEST', 'NEW CERTIFICATE REQUEST']

/** Reads a request in PEM. Refused as `csr_invalid`, with a detail that quotes nothing of it. */
export async function readCsr(pem: string): Promise<Outcome<CertificateRequest>> {
  if (pem.length > CSR_BYTES * 2) return invalid('the request is too long')
  const blocks = parsePem(pem, 1)
  if (!blocks.ok) return invalid(blocks.error)
  const [block] = blocks.value
  if (block === undefined || !LABELS.includes(block.label)) return invalid('the PEM block is not a CERTIFICATE REQUEST')
  if (block.bytes.length > CSR_BYTES) return invalid('the request is too long')

  const request = parseDer(block.bytes)
  if (request === null) return invalid('not DER')
  const [info, algorithm, signatureBits] = request.children
  const signature = bitsOf(signatureBits)
  if (!isSequence(request, 3) || !isSequence(info, 4) || !isSequence(algorithm) || signature === null) {
    return invalid('not a PKCS#10 request with attributes')
  }
  const [version, subject, publicKey, attributes] = info.children
  if (smallIntegerOf(version) !== 0) return invalid('the version is not 0')
  if (!isSequence(subject) || !isSequence(publicKey) || attributes?.tag !== 0xa0) {
    return invalid('not a PKCS#10 request with attributes')
  }

  const point = p256PointOf(publicKey.bytes)
  if (point === null) return invalid('the key is not EC P-256 with a named curve and an uncompressed point')
  const challenge = readChallenge(attributes.children)
  if (!challenge.ok) return invalid(challenge.error)

  // RFC 5758 §3.2: the parameters are absent.
  if (oidOf(algorithm.children[0]) !== OID.ecdsaSha256 || algorithm.children.length !== 1) {
    return invalid('the request is not signed with ecdsa-with-SHA256 without parameters')
  }
  const raw = signatureToRaw(signature, 32)
  if (raw === null) return invalid('the signature is not a DER ECDSA signature')
  const key = await importP256(point)
  if (key === null) return invalid('the public key is not a point of the curve')
  if (!(await verifyP256(key, raw, info.bytes))) return invalid('the request is not signed by its own key')

  const spki = publicKey.bytes.slice()
  return ok({ spki, publicKeyHash: await sha256Hex(spki), challenge: challenge.value })
}

const invalid = (detail: string) => refuse('csr_invalid', { detail: `csr: ${detail}` })

/** The one value of the one challengePassword. Other attributes must be well formed and are ignored. */
function readChallenge(attributes: readonly Element[]): Result<string, string> {
  let challenge: string | null = null
  for (const attribute of attributes) {
    const [type, values] = attribute.children
    const oid = oidOf(type)
    if (!isSequence(attribute, 2) || oid === null || values?.tag !== TAG.set) return err('an attribute is malformed')
    if (values.children.length === 0) return err('an attribute is empty')
    if (oid === OID.extensionRequest && !areExtensions(values.children)) {
      return err('the extension request is malformed or holds an empty extension')
    }
    if (oid !== OID.challengePassword) continue
    if (challenge !== null || values.children.length !== 1) return err('more than one challengePassword')
    challenge = textOf(values.children[0])
    if (challenge === null || challenge.length === 0 || challenge.length > CHALLENGE_CHARACTERS)
      return err('challengePassword is not a string of 1 to 255 characters')
  }
  return challenge === null ? err('no challengePassword') : ok(challenge)
}

/** May be an empty SEQUENCE: CA:FALSE is encoded so (RFC 5280 §4.2.1.9), and OpenSSL requests an AKI so. */
const MAY_BE_EMPTY: readonly (string | null)[] = [OID.basicConstraints, OID.authorityKeyIdentifier]

/** Whether an extensionRequest is well formed; an empty list in it has crashed issuers (CVE-2026-40097). */
function areExtensions(values: readonly Element[]): boolean {
  const [extensions] = values
  if (values.length !== 1 || !isSequence(extensions) || extensions.children.length === 0) return false
  return extensions.children.every((extension) => {
    const [type, ...rest] = extension.children
    const oid = oidOf(type)
    const value = rest.at(-1)
    if (!isSequence(extension) || oid === null || value?.tag !== TAG.octetString) return false
    if (rest.length > 2 || (rest.length === 2 && rest[0]?.tag !== TAG.boolean)) return false
    const inner = parseDer(value.contents)
    return inner !== null && (!isEmpty(inner) || MAY_BE_EMPTY.includes(oid))
  })
}

const isEmpty = ({ tag, contents, children }: Element): boolean =>
  (tag & 0x20) !== 0 ? children.length === 0 : tag === TAG.bitString ? contents.length === 1 : false

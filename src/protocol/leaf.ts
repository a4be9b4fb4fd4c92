// The record of a leaf certificate: written before the certificate is signed, and read from one that is presented. No I/O.

import type { Bytes } from './bytes.ts'
import type { ProvenMode } from './modes.ts'
import { formatSpiffeId } from './spiffe-id.ts'
import type { EpochSeconds } from './time.ts'

/** What differs between the certificates of an enrollment. The same content can be signed again. */
export interface LeafContent {
  /** 16 octets in hexadecimal. */
  readonly serial: string
  /** SHA-256 of the SubjectPublicKeyInfo, in hexadecimal. */
  readonly publicKeyHash: string
  readonly spiffeId: string
  readonly notBefore: EpochSeconds
  readonly notAfter: EpochSeconds
  /** Key identifier of the issuing certificate, in hexadecimal. */
  readonly issuer: string
}

/** What all certificates of an enrollment have in common: the subject. */
export interface LeafSubject {
  /** CN: UUIDv7. */
  readonly enrollmentId: string
  /** O. */
  readonly tenant: string
  /** OU, first part: how the holder proved itself at enrollment. */
  readonly mode: ProvenMode
  /** OU, second part: AWS account, cluster name or empty. */
  readonly source: string
}

/** The content and the subject of a leaf. */
export type Leaf = LeafContent & LeafSubject

/** A presented leaf that this CA issued. Whether the presenter holds its key, only `hasSigned` proves. */
export interface VerifiedLeaf {
  readonly leaf: Leaf
  readonly der: Bytes
  /** End of the issuing certificate, which no grace extends. */
  readonly issuerNotAfter: EpochSeconds
  /** Whether `signature` (ECDSA P-256 with SHA-256, r ‖ s) over `message` is by the leaf's key. */
  readonly hasSigned: (signature: Bytes, message: Bytes) => Promise<boolean>
}

/** The content alone, of a record that holds more. */
export const leafContentOf = ({
  serial,
  publicKeyHash,
  spiffeId,
  notBefore,
  notAfter,
  issuer,
}: LeafContent): LeafContent => ({ serial, publicKeyHash, spiffeId, notBefore, notAfter, issuer })

/** A content as D1 has it: the tenant, which is in the SPIFFE ID, has a column of its own. */
export interface RecordedContent extends Omit<LeafContent, 'spiffeId'> {
  readonly trustDomain: string
}

/** The content of a leaf that is on record. */
export const recordedContent = (
  { serial, publicKeyHash, trustDomain, notBefore, notAfter, issuer }: RecordedContent,
  tenant: string,
): LeafContent => ({
  serial,
  publicKeyHash,
  spiffeId: formatSpiffeId({ trustDomain, tenant }),
  notBefore,
  notAfter,
  issuer,
})

// `mtls-renewal`: the caller holds the key of a certificate that this CA issued, and it may still be renewed.

import { type Bytes, decodeBase64url, utf8 } from '../../protocol/base64url.ts'
import type { ProvenMode } from '../../protocol/modes.ts'
import { type Outcome, type Refusal, refuse } from '../../protocol/refusals.ts'
import { ok } from '../../protocol/result.ts'
import type { EpochSeconds } from '../../protocol/time.ts'
import type { Attestor } from './attestor.ts'

/** A leaf that was proven to be ours. */
export interface ProvenCertificate {
  readonly enrollmentId: string
  readonly tenant: string
  /** How its holder was proven at enrollment. */
  readonly mode: ProvenMode
  readonly source: string
  /** Hex, as the hashes and the key identifier. */
  readonly serial: string
  readonly publicKeyHash: string
  readonly spiffeId: string
  readonly notBefore: EpochSeconds
  readonly notAfter: EpochSeconds
  readonly issuerKeyId: string
}

/** What proves it, and whether it is in time; the certificate authority gives both. */
export interface LeafProver {
  /** Whoever shows the leaf in PEM has not proven yet to hold its key: `signed` says whether a signature does. */
  readonly prove: (pem: string) => Promise<Outcome<ProvenLeaf>>
  /** Null where the certificate may be renewed now. */
  readonly refusalAt: (leaf: ProvenLeaf, now: EpochSeconds) => Refusal | null
}

export interface ProvenLeaf extends ProvenCertificate {
  /** End of the issuing certificate. */
  readonly issuerNotAfter: EpochSeconds
  readonly signed: (signature: Bytes, signed: Bytes) => Promise<boolean>
}

export interface RenewalProof {
  readonly mode: 'mtls-renewal'
  readonly certificate: ProvenCertificate
}

const FIELDS = { certificate: 'string', signature: 'string' } as const

/** Chain and signature first: only to the holder of the key is it said that the window has passed. */
export const mtlsRenewal = ({ prove, refusalAt }: LeafProver): Attestor<typeof FIELDS, RenewalProof> => ({
  fields: FIELDS,
  async appraise({ certificate, signature }, { now, challengeNonce }) {
    const leaf = await prove(certificate)
    if (!leaf.ok) return leaf
    const { enrollmentId, tenant, serial } = leaf.value
    const claimed = { enrollment: enrollmentId, tenant, serial }
    const raw = decodeBase64url(signature)
    if (raw === null || !(await leaf.value.signed(raw, utf8(challengeNonce)))) {
      return refuse('renewal_signature', { claimed })
    }
    const refusal = refusalAt(leaf.value, now)
    return refusal === null
      ? ok({ mode: 'mtls-renewal', certificate: leaf.value })
      : refuse(refusal.reason, { ...refusal, claimed })
  },
})

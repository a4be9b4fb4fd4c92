// `mtls-renewal`: the caller holds the key of a certificate that this CA issued, and it may still be renewed.

import * as v from 'valibot'
import { type Bytes, decodeBase64url, utf8 } from '../../protocol/bytes.ts'
import type { Leaf } from '../../protocol/leaf.ts'
import { type Outcome, type Refusal, refuse } from '../../protocol/refusals.ts'
import { ok } from '../../protocol/result.ts'
import { text } from '../../protocol/shape.ts'
import type { EpochSeconds } from '../../protocol/time.ts'
import type { Attestor } from './attestor.ts'

/** What proves a leaf, and whether it is in time; the certificate authority gives both. */
export interface LeafProver {
  /** Whoever presents the leaf in PEM has not proven yet to hold its key: `signed` says whether a signature does. */
  readonly prove: (pem: string) => Promise<Outcome<ProvenLeaf>>
  /** Null where the certificate may be renewed now. */
  readonly refusalAt: (proven: ProvenLeaf, now: EpochSeconds) => Refusal | null
}

export interface ProvenLeaf {
  readonly leaf: Leaf
  /** End of the issuing certificate. */
  readonly issuerNotAfter: EpochSeconds
  readonly signed: (signature: Bytes, signed: Bytes) => Promise<boolean>
}

export interface RenewalProof {
  readonly mode: 'mtls-renewal'
  readonly leaf: Leaf
}

const FIELDS = v.strictObject({ certificate: text, signature: text })

/** Chain and signature first: only to the holder of the key is it said that the window has passed. */
export const mtlsRenewal = ({ prove, refusalAt }: LeafProver): Attestor<typeof FIELDS, RenewalProof> => ({
  fields: FIELDS,
  async appraise({ certificate, signature }, { now, challengeNonce }) {
    const proven = await prove(certificate)
    if (!proven.ok) return proven
    const { leaf, signed } = proven.value
    const { enrollmentId, tenant, serial } = leaf
    const claimed = { enrollment: enrollmentId, tenant, serial }
    const raw = decodeBase64url(signature)
    if (raw === null || !(await signed(raw, utf8(challengeNonce)))) {
      return refuse('renewal_signature', { claimed })
    }
    const refusal = refusalAt(proven.value, now)
    return refusal === null ? ok({ mode: 'mtls-renewal', leaf }) : refuse(refusal.reason, { ...refusal, claimed })
  },
})

// `mtls-renewal`: the caller holds the key of a certificate that this CA issued, and it may still be renewed.

import * as v from 'valibot'
import { type Bytes, decodeBase64url, utf8 } from '../../protocol/bytes.ts'
import type { Leaf, VerifiedLeaf } from '../../protocol/leaf.ts'
import { type Outcome, type Refusal, refuse } from '../../protocol/refusals.ts'
import { ok } from '../../protocol/result.ts'
import { text } from '../../protocol/shape.ts'
import type { EpochSeconds } from '../../protocol/time.ts'
import type { Attestor } from './attestor.ts'

/** What the certificate authority does for this mode. */
export interface LeafVerifier {
  /** Verifies the leaf of a PEM text; its times are not judged. */
  readonly verify: (pem: string) => Promise<Outcome<VerifiedLeaf>>
  /** Null where the certificate may be renewed now. */
  readonly renewalRefusal: (verified: VerifiedLeaf, now: EpochSeconds) => Refusal | null
}

export interface RenewalProof {
  readonly mode: 'mtls-renewal'
  readonly leaf: Leaf & { readonly der: Bytes }
}

const FIELDS = v.strictObject({ certificate: text, signature: text })

/** Chain and signature come first: only the holder of the key learns that the window has passed. */
export const mtlsRenewal = ({ verify, renewalRefusal }: LeafVerifier): Attestor<typeof FIELDS, RenewalProof> => ({
  fields: FIELDS,
  async appraise({ certificate, signature }, { now, challengeNonce }) {
    const verified = await verify(certificate)
    if (!verified.ok) return verified
    const { leaf, der, hasSigned } = verified.value
    const { enrollmentId, tenant, serial } = leaf
    const claimed = { enrollment: enrollmentId, tenant, serial }
    const raw = decodeBase64url(signature)
    if (raw === null || !(await hasSigned(raw, utf8(challengeNonce)))) {
      return refuse('renewal_signature', { claimed })
    }
    const refusal = renewalRefusal(verified.value, now)
    return refusal === null
      ? ok({ mode: 'mtls-renewal', leaf: { ...leaf, der } })
      : refuse(refusal.reason, { ...refusal, claimed })
  },
})

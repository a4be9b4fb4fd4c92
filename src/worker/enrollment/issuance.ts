// What the issue of a certificate needs, for enrollments and renewals alike.

import type { Bytes } from '../../protocol/bytes.ts'
import type { Leaf } from '../../protocol/leaf.ts'
import type { EpochSeconds } from '../../protocol/time.ts'
import type { Authority } from '../ca/authority.ts'
import type { CertificateRequest } from '../ca/csr.ts'

/** What a certificate is issued from, beside what the caller proved. */
export interface Issuance {
  readonly authority: Authority
  readonly csr: CertificateRequest
  readonly now: EpochSeconds
  /** Lets work go on after the answer. */
  readonly waitUntil: (work: Promise<unknown>) => void
}

/** A certificate that is on record. */
export interface Issued extends Leaf {
  readonly der: Bytes
  readonly runnerId: string | null
}

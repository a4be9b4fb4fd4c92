// What the tests of `aws-sts` have in common: a fixed time, two known keys, and evidence signed with them.

import { epochMilliseconds, toEpochSeconds } from '../../../src/protocol/time.ts'
import { type AwsSources, awsSts } from '../../../src/worker/attestors/aws-sts.ts'
import { type FakeKey, type FakeSts, fakeSts, type Signing, signEvidence } from '../../fakes/sts.ts'

export const now = epochMilliseconds(Date.UTC(2026, 2, 1, 12))
export const nonce = 'N'.repeat(64)
export const regions = ['us-east-1', 'us-west-2', 'sa-east-1']

export const roleKey: FakeKey = {
  accessKeyId: 'ASIAEXAMPLEKEYID0001',
  secretAccessKey: 'a secret',
  sessionToken: 'FwoGZXIvYXdzEXAMPLETOKEN',
  arn: 'arn:aws:sts::111122223333:assumed-role/runner/i-0abc',
  userId: 'AROAEXAMPLE:i-0abc',
}
export const userKey: FakeKey = {
  accessKeyId: 'AKIAEXAMPLEKEYID0002',
  secretAccessKey: 'another secret',
  arn: 'arn:aws:iam::111122223333:user/ci/bot',
  userId: 'AIDAEXAMPLE',
}

export interface Sent {
  readonly region: string
  readonly headers: Readonly<Record<string, string>>
  readonly body: string
}

export const appraisal = { now: toEpochSeconds(now), challengeNonce: nonce, address: '192.0.2.1' }

/** Neither limits. */
export const unlimited = { allowNamedKey: async () => true, allowProvenKey: async () => true }

/** Evidence of the role, as odd as asked for. */
export const sign = (odd: Partial<Signing> = {}): Promise<Sent> =>
  signEvidence({ key: roleKey, nonce, at: now, ...odd })

/** What becomes of evidence, and what STS was asked for it. */
export async function appraise(
  evidence: Sent,
  sts: FakeSts = fakeSts(() => now, [roleKey, userKey]),
  limits: Pick<AwsSources, 'allowNamedKey' | 'allowProvenKey'> = unlimited,
) {
  const attestor = awsSts({ regions, fetch: sts.fetch, ...limits })
  const result = await attestor.appraise(evidence, appraisal)
  return { calls: sts.calls, result, reason: result.ok ? null : result.error.reason }
}

// `aws-sts`: AWS STS says who signed a GetCallerIdentity request. The request is built here, and only headers that the
// signature covers are taken from the caller (see CVE-2020-16250).

import * as v from 'valibot'
import { utf8 } from '../../protocol/bytes.ts'
import { FETCH_TIMEOUT } from '../../protocol/limits.ts'
import { type Outcome, refuse } from '../../protocol/refusals.ts'
import { text, texts } from '../../protocol/shape.ts'
import { toMilliseconds } from '../../protocol/time.ts'
import type { Attestor } from './attestor.ts'
import { claimsOf } from './aws/arn.ts'
import { appraiseHeaders, brief, type SignedRequest } from './aws/sigv4-headers.ts'
import { type CallerIdentity, readAnswer } from './aws/sts-answer.ts'

export interface AwsSources {
  /** The allowlist of the trust file. */
  readonly regions: readonly string[]
  readonly fetch: (url: string, init: RequestInit) => Promise<Response>
  /** Counts a call to STS that a client at this address asks for, naming this access key; false where it is over the rate. */
  readonly allowNamedKey: (address: string, accessKeyId: string) => Promise<boolean>
  /** Counts a request that STS has proven to be signed with this access key; false where it is over the rate. */
  readonly allowProvenKey: (accessKeyId: string) => Promise<boolean>
}

const FIELDS = v.strictObject({ region: text, headers: texts, body: text })
const BODY = 'Action=GetCallerIdentity&Version=2011-06-15'

export const awsSts = ({ regions, fetch, allowNamedKey, allowProvenKey }: AwsSources): Attestor<typeof FIELDS> => ({
  fields: FIELDS,
  async appraise({ region, headers, body }, { now, challengeNonce, address }) {
    if (!regions.includes(region))
      return refuse('aws_region', { acceptedRegions: regions, claimed: { region: brief(region) } })
    // Compared byte for byte, so that no parser here differs from AWS's (CVE-2022-2385).
    if (body !== BODY) return refuse('aws_body', { claimed: { region } })
    const host = `sts.${region}.amazonaws.com`
    const request = appraiseHeaders(headers, { region, host, bodyLength: BODY.length, nonce: challengeNonce, now })
    if (!request.ok) return request
    const { accessKeyId } = request.value
    if (!(await allowNamedKey(address, accessKeyId))) return refuse('rate_limited')
    const identity = await askSts(fetch, host, request.value)
    if (!identity.ok) return identity
    return (await allowProvenKey(accessKeyId)) ? claimsOf(identity.value) : refuse('rate_limited')
  },
})

/** One call without a retry: the runner retries with a new signature. */
async function askSts(
  fetch: AwsSources['fetch'],
  host: string,
  { authorization, signed }: SignedRequest,
): Promise<Outcome<CallerIdentity>> {
  // The runtime sets Host and Content-Length itself; the signed values were checked to be the same.
  const forwarded = [...signed].filter(([name]) => name !== 'host' && name !== 'content-length')
  const headers = new Headers([
    ['content-type', 'application/x-www-form-urlencoded; charset=utf-8'],
    ['accept', 'text/xml'],
  ])
  for (const [name, value] of forwarded) headers.set(name, value)
  headers.set('authorization', authorization)
  const init = {
    method: 'POST',
    headers,
    // Bytes, since the runtime would set its own content type for text.
    body: utf8(BODY),
    redirect: 'manual',
    signal: AbortSignal.timeout(toMilliseconds(FETCH_TIMEOUT)),
  } satisfies RequestInit
  try {
    return await readAnswer(await fetch(`https://${host}/`, init))
  } catch {
    // Not reached, cut off or timed out. The exception may quote the request, so it is not logged.
    return refuse('sts_unavailable')
  }
}

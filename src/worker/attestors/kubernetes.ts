// `gke-oidc`, `eks-oidc`, `kubernetes`: one verifier with three names. The caller holds a token that the kubelet
// projected into a pod. Knows no HTTP: another door can ask the same question.

import { JOSEError } from 'jose/errors'
import { compactVerify } from 'jose/jws/compact/verify'
import * as v from 'valibot'
import { isPrintable } from '../../protocol/characters.ts'
import { type Labels, type Outcome, refuse } from '../../protocol/refusals.ts'
import { err } from '../../protocol/result.ts'
import { text } from '../../protocol/shape.ts'
import { type EpochSeconds, toEpochMilliseconds } from '../../protocol/time.ts'
import type { Cluster, KubernetesClaims } from '../../trust/modes/kubernetes.ts'
import type { FindKey, FoundKey } from '../keysets/lookup.ts'
import type { Attestor } from './attestor.ts'
import { type Jws, parseJws } from './jws.ts'
import { readWorkload } from './workload-claims.ts'

export interface WorkloadSources {
  readonly clusters: readonly Cluster[]
  readonly findKey: FindKey
}

const FIELDS = v.strictObject({ token: text })

/** The mode of the proven claims is the registered cluster's, whatever name the token was sent under. */
export const kubernetes = (sources: WorkloadSources): Attestor<typeof FIELDS> => ({
  fields: FIELDS,
  appraise: ({ token }, { now }) => verifyWorkloadToken(sources, token, now),
})

/**
 * Form, issuer, key and signature, then the claims. The issuer is looked up among the registered ones before
 * anything is fetched, and nothing else of the token ever leads to an address (`jku`, `x5u` and `jwk` are not read).
 */
export async function verifyWorkloadToken(
  { clusters, findKey }: WorkloadSources,
  token: string,
  now: EpochSeconds,
): Promise<Outcome<KubernetesClaims>> {
  const jws = parseJws(token)
  if (!jws.ok) return jws
  const { alg, kid, untrustedClaims } = jws.value
  const claimed = labelsOf(jws.value)

  const cluster = clusters.find(({ issuer }) => issuer === untrustedClaims.iss)
  if (cluster === undefined) return refuse('issuer_unknown', { claimed })

  if (typeof kid !== 'string' || kid === '') return refuse('jws_header', { claimed })
  const found = await findKey(cluster, kid, toEpochMilliseconds(now))
  if (!found.ok) return err({ ...found.error, claimed: { ...claimed, cluster: cluster.name } })
  // The algorithm is the key's own: a header must not choose it (CVE-2026-22817).
  if (found.value.alg !== alg) return refuse('key_algorithm', { claimed })
  if (!(await isSignedBy(token, found.value))) return refuse('signature_invalid', { claimed })

  const workload = readWorkload(untrustedClaims, cluster, now)
  return workload.ok ? workload : refuse(workload.error.reason, { claimed })
}

/** From here on the claims may be trusted: `parseJws` read the very bytes that are verified here. */
async function isSignedBy(token: string, { alg, key }: FoundKey): Promise<boolean> {
  try {
    await compactVerify(token, key, { algorithms: [alg] })
    return true
  } catch (error) {
    if (error instanceof JOSEError) return false
    throw error
  }
}

const LONGEST_LABEL = 256

/** What an operator needs to see of a refused token; never the token. */
function labelsOf({ kid, untrustedClaims: { iss, sub, aud } }: Jws): Labels {
  const said = Object.entries({ iss, sub, kid, aud: Array.isArray(aud) ? aud[0] : aud })
  return Object.fromEntries(
    said.flatMap(([name, text]) =>
      typeof text === 'string' && isPrintable(text) ? [[name, text.slice(0, LONGEST_LABEL)]] : [],
    ),
  )
}

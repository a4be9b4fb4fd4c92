// `gke-oidc`, `eks-oidc`, `kubernetes`: one verifier under three names. The caller holds a ServiceAccount token that the
// kubelet projected into a pod. It knows no HTTP.

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

/** The mode of the claims is that of the registered cluster, whichever of the three names was sent. */
export const kubernetes = (sources: WorkloadSources): Attestor<typeof FIELDS> => ({
  fields: FIELDS,
  appraise: ({ token }, { now }) => verifyWorkloadToken(sources, token, now),
})

/**
 * Verifies form, issuer, key and signature, then the claims. Only a registered issuer leads to a fetch, and `jku`, `x5u`
 * and `jwk` are not read.
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
  // The key determines the algorithm, not the header (CVE-2026-22817).
  if (found.value.alg !== alg) return refuse('key_algorithm', { claimed })
  if (!(await isSignedBy(token, found.value))) return refuse('signature_invalid', { claimed })

  const workload = readWorkload(untrustedClaims, cluster, now)
  return workload.ok ? workload : refuse(workload.error.reason, { claimed })
}

/** True makes the claims trusted: `parseJws` parsed the same bytes that are verified here. */
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

/** The parts of a refused token that an operator needs; never the token itself. */
function labelsOf({ kid, untrustedClaims: { iss, sub, aud, iat, exp } }: Jws): Labels {
  const texts = Object.entries({
    iss,
    sub,
    kid,
    // Joined as text, another value of the list may throw.
    aud: Array.isArray(aud) ? aud.filter((one) => typeof one === 'string').join(', ') : aud,
    iat: typeof iat === 'number' ? String(iat) : iat,
    exp: typeof exp === 'number' ? String(exp) : exp,
  })
  return Object.fromEntries(
    texts.flatMap(([name, text]) =>
      typeof text === 'string' && isPrintable(text) ? [[name, text.slice(0, LONGEST_LABEL)]] : [],
    ),
  )
}

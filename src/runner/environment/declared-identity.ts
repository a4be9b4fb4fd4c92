// Whether an identity is the one that was declared: RUNNER_TENANT and RUNNER_ID choose nothing, they only must agree.

import type { Config } from '../config.ts'
import type { Identity } from '../identity/identity.ts'

/** Why the runner refuses to start with this identity, or null. A mode that attests no runner ID contradicts none. */
export function objectionTo(
  { tenant, runnerId }: Pick<Config, 'tenant' | 'runnerId'>,
  identity: Identity,
): string | null {
  if (tenant !== null && tenant !== identity.tenant) {
    return `RUNNER_TENANT=${tenant} but this runner enrolled as ${identity.tenant}: refusing to start`
  }
  if (runnerId !== null && identity.runnerId !== null && runnerId !== identity.runnerId) {
    return `RUNNER_ID=${runnerId} but this runner enrolled as ${identity.runnerId}: refusing to start`
  }
  return null
}

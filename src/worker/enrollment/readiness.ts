// Whether this door can serve: the CA pair loads, the database answers; and which trust file is live.

import { toEpochSeconds } from '../../protocol/time.ts'
import { validityOf } from '../ca/profile.ts'
import { pingDatabase } from '../store/db.ts'
import { liveRunnerIdWithSlash } from '../store/tokens.ts'
import type { Door } from './dependencies.ts'

export interface Readiness {
  readonly ready: boolean
  /** SHA-256 of the compiled trust file. */
  readonly trust: string
  /** One sentence for each thing that stands in the way. */
  readonly faults: readonly string[]
}

export async function readiness(door: Door): Promise<Readiness> {
  const faults: string[] = []
  const now = toEpochSeconds(door.clock())
  const authority = await door.authority()
  const usable = authority.ok ? validityOf(authority.value, now, door.trust.certificate.lifetime) : authority
  if (!usable.ok) faults.push(usable.error.detail ?? 'the certificate authority is not configured')
  try {
    await pingDatabase(door.database)
    const id = door.trust.clusters.length > 0 ? await liveRunnerIdWithSlash(door.database, now) : null
    if (id !== null)
      faults.push(`the runner token for ${id} is live: "/" is reserved while clusters are registered, revoke it`)
  } catch {
    faults.push('D1 does not answer or is not migrated')
  }
  return { ready: faults.length === 0, trust: door.trust.hash, faults }
}

// Whether the control plane can serve: the CA loads, the database answers, and no minted runner ID is a reserved one.

import { toEpochSeconds } from '../../protocol/time.ts'
import { validityOf } from '../ca/profile.ts'
import { pingDatabase } from '../store/db.ts'
import { liveRunnerIdWithSlash } from '../store/tokens.ts'
import type { Dependencies } from './dependencies.ts'

export interface Readiness {
  readonly ready: boolean
  /** SHA-256 of the compiled trust file. */
  readonly trust: string
  /** One sentence for each fault. Anybody may read them, so they name nobody's runners, tokens or hosts. */
  readonly faults: readonly string[]
}

export async function readiness({ clock, trust, authority, shards }: Dependencies): Promise<Readiness> {
  const faults: string[] = []
  const now = toEpochSeconds(clock())
  const loaded = await authority()
  const usable = loaded.ok ? validityOf(loaded.value, now, trust.certificate.lifetime) : loaded
  if (!usable.ok) faults.push(usable.error.detail ?? 'the certificate authority is not configured')
  const reserved = await Promise.all(
    shards.all.map(async ({ database }) => {
      await pingDatabase(database)
      return trust.clusters.length > 0 ? liveRunnerIdWithSlash(database, now) : null
    }),
  ).catch(() => {
    faults.push('D1 does not answer or is not migrated')
    return []
  })
  if (reserved.some((runnerId) => runnerId !== null))
    faults.push(
      'a live runner token has a runner ID with "/", which is reserved: `muster trust check --remote` names it',
    )
  return { ready: faults.length === 0, trust: trust.hash, faults }
}

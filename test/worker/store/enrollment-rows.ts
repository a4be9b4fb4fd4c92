// Puts enrollments into D1 without enrolling. Not a test itself.
import { env } from 'cloudflare:test'
import { addSeconds, type EpochSeconds, minutes, toEpochMilliseconds } from '../../../src/protocol/time.ts'
import { uuidv7 } from '../../../src/protocol/uuid.ts'
import { enrollment } from '../../../src/worker/store/enrollments.ts'
import { openDatabase } from './open-database.ts'

type NewRow = typeof enrollment.$inferInsert

/** Records an enrollment of `at`, by a bootstrap token unless `changes` say otherwise; its id. */
export async function recordEnrollment(at: EpochSeconds, changes: Partial<NewRow> = {}): Promise<string> {
  const id = uuidv7(toEpochMilliseconds(at))
  const row: NewRow = {
    enrollmentId: id,
    mode: 'bootstrap-token',
    source: '',
    tenant: 'acme',
    identity: id,
    claims: { mode: 'bootstrap-token', tokenId: id, tenant: 'acme' },
    enrolledAt: at,
    publicKeyHash: id,
    serial: id,
    trustDomain: 'rootpilot',
    notBefore: at,
    notAfter: addSeconds(at, minutes(15)),
    issuer: 'k',
    seenAt: at,
    liveUntil: changes.notAfter ?? addSeconds(at, minutes(15)),
    ...changes,
  }
  await openDatabase(env.DB).insert(enrollment).values(row)
  return row.enrollmentId
}

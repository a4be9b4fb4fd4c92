// The Worker that tests run in: as deployed, except that a test sets the clock and the trust file of enrollments, may record
// what their objects ask of storage and of D1, and that these have the databases of three shards.
import { env } from 'cloudflare:test'
import { compose, DEPLOYED } from '../../src/worker/compose.ts'
import type { Env } from '../../src/worker/env.ts'
import { deployment } from '../fakes/deployment.ts'
import { recording } from './recording.ts'

export { default, KeyDirectory } from '../../src/worker/index.ts'

const worker = compose(deployment.trust, DEPLOYED, deployment.clock)

export class EnrollmentObject extends worker.EnrollmentObject {
  constructor(state: DurableObjectState, given: Env) {
    recording.recorder?.watchObject(state)
    const bindings = recording.recorder?.bindings(given) ?? given
    super(state, { ...bindings, DB_1: env.SHARD_1, DB_2: env.SHARD_2 })
  }
}

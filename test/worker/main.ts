// The Worker that tests run in: as deployed, except that a test sets the clock and the trust file of enrollments, and may
// record what their objects ask of storage and of D1.
import { compose, DEPLOYED } from '../../src/worker/compose.ts'
import type { Env } from '../../src/worker/env.ts'
import { deployment } from '../fakes/deployment.ts'
import { recording } from './recording.ts'

export { default, KeyDirectory } from '../../src/worker/index.ts'

const worker = compose(deployment.trust, DEPLOYED, deployment.clock)

export class EnrollmentObject extends worker.EnrollmentObject {
  constructor(state: DurableObjectState, env: Env) {
    recording.recorder?.watchObject(state)
    super(state, recording.recorder?.bindings(env) ?? env)
  }
}

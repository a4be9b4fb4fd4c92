// The Worker that tests run in: as deployed, except that a test sets the clock and the trust file of enrollments.
import { compose, DEPLOYED } from '../../src/worker/compose.ts'
import { deployment } from '../fakes/deployment.ts'

export { default, KeyDirectory } from '../../src/worker/index.ts'
export const { EnrollmentObject } = compose(deployment.trust, DEPLOYED, deployment.clock)

// The Worker that tests run in: the deployed one, but that a test sets the clock and the trust file of enrollments.
import { compose, DEPLOYED } from '../../src/worker/compose.ts'
import { world } from '../fakes/world.ts'

export { default, KeyDirectory } from '../../src/worker/index.ts'
export const { EnrollmentObject } = compose(world.trust, DEPLOYED, world.clock)

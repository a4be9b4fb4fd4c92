// Entry file of the deployed Worker. A trust file that does not load throws here, so that the deploy is refused.

import compiled from '#trust'
import { parseCompiledTrust } from '../trust/compiled.ts'
import { compose } from './compose.ts'

const muster = compose(await parseCompiledTrust(compiled))

export const { EnrollmentObject, KeyDirectory } = muster

export default { fetch: muster.fetch, scheduled: muster.scheduled }

// Entry file of the Worker of `muster dev`, which allows what development alone may do. wrangler.toml never names it.

import compiled from '#trust'
import { parseCompiledTrust } from '../trust/compiled.ts'
import { compose } from './compose.ts'
import { behindLocalEdge } from './local-edge.ts'

const muster = compose(await parseCompiledTrust(compiled), { plainHttp: true, developmentCa: true })

export const { EnrollmentObject, KeyDirectory } = muster

export default behindLocalEdge(muster)

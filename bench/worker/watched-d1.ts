// Entry file of a Worker for the bench: as `muster dev` runs it, with its calls to D1 counted and timed, each of them sent
// later by the milliseconds of the variable D1_DELAY, as if D1 were so far away.

import { env } from 'cloudflare:workers'
import compiled from '#trust'
import { parseCompiledTrust } from '../../src/trust/compiled.ts'
import { compose } from '../../src/worker/compose.ts'
import type { Env } from '../../src/worker/env.ts'
import { behindLocalEdge } from '../../src/worker/local-edge.ts'
import { countsOf, type Recording } from '../../test/worker/call-counts.ts'
import { CallRecorder } from '../../test/worker/calls.ts'
import { ASKED, type AskedOfD1 } from '../asked-of-d1.ts'

const recorder = new CallRecorder({ d1: Number(Reflect.get(env, 'D1_DELAY')) })
const muster = compose(await parseCompiledTrust(compiled), { plainHttp: true, developmentCa: true })

export class EnrollmentObject extends muster.EnrollmentObject {
  constructor(state: DurableObjectState, own: Env) {
    super(state, recorder.bindings(own))
  }
}

/** It does not use D1. */
export const { KeyDirectory } = muster

export default behindLocalEdge<Env>({
  fetch: async (request, own, context) => {
    if (new URL(request.url).pathname === ASKED) return Response.json(askedOf(await recorder.take()))
    const response = await muster.fetch(request, recorder.bindings(own), context)
    recorder.answered()
    return response
  },
  scheduled: (event, own, context) => muster.scheduled(event, recorder.bindings(own), context),
})

function askedOf(recording: Recording): AskedOfD1 {
  const { waited, calls, rowsRead, rowsWritten } = countsOf(recording).d1
  const { sqlMilliseconds } = recording.d1
  const milliseconds = recording.calls
    .filter(({ place }) => place === 'd1')
    .reduce((sum, call) => sum + call.milliseconds, 0)
  return { waited, calls, rowsRead, rowsWritten, milliseconds, sqlMilliseconds }
}

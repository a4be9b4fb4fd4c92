// Entry file of a Worker for the bench: as `muster dev` runs it, with its calls to D1 recorded, each of them sent later by
// the milliseconds of the variable D1_DELAY, as if D1 were so far away.

import { env } from 'cloudflare:workers'
import compiled from '#trust'
import { parseCompiledTrust } from '../../src/trust/compiled.ts'
import { compose } from '../../src/worker/compose.ts'
import type { Env } from '../../src/worker/env.ts'
import { behindLocalEdge } from '../../src/worker/local-edge.ts'
import { countsOf } from '../../test/worker/call-counts.ts'
import { CallRecorder } from '../../test/worker/calls.ts'

const recorder = new CallRecorder({ d1: Number(Reflect.get(env, 'D1_DELAY')) })
const muster = compose(await parseCompiledTrust(compiled), { plainHttp: true, developmentCa: true })

export class EnrollmentObject extends muster.EnrollmentObject {
  constructor(state: DurableObjectState, own: Env) {
    super(state, recorder.bindings(own))
  }
}

/** It does not use D1. */
export const { KeyDirectory } = muster

/** Path that gives what was asked of D1 since it was last called, once nothing is under way. */
const ASKED = '/asked-of-d1'

export default behindLocalEdge<Env>({
  fetch: async (request, own, context) => {
    if (new URL(request.url).pathname === ASKED) return Response.json(countsOf(await recorder.take()).d1)
    const response = await muster.fetch(request, recorder.bindings(own), context)
    recorder.answered()
    return response
  },
  scheduled: (event, own, context) => muster.scheduled(event, recorder.bindings(own), context),
})

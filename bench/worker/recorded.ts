// Entry file of a Worker for the bench: as `muster dev` runs it, with all that it asks of its bindings, of WebCrypto and of
// other hosts recorded, one request at a time.

import compiled from '#trust'
import { parseCompiledTrust } from '../../src/trust/compiled.ts'
import { compose } from '../../src/worker/compose.ts'
import type { Env } from '../../src/worker/env.ts'
import { behindLocalEdge } from '../../src/worker/local-edge.ts'
import { countsOf } from '../../test/worker/call-counts.ts'
import { CallRecorder } from '../../test/worker/calls.ts'
import { recordGlobals } from './globals.ts'
import { stepsOf } from './steps.ts'

/** Milliseconds: longer than the rest of a request takes. */
const recorder = new CallRecorder({ d1: 60, object: 30, kv: 30 })
const globals = recordGlobals()
const muster = compose(await parseCompiledTrust(compiled), { plainHttp: true, developmentCa: true })

export class EnrollmentObject extends muster.EnrollmentObject {
  constructor(state: DurableObjectState, env: Env) {
    recorder.watchObject(state)
    super(state, recorder.bindings(env))
  }
}

export const { KeyDirectory } = muster

/** Path that gives what was recorded since it was last asked. */
const RECORDED = '/recorded'

let answer = { status: 0, answer: 0 }

export default behindLocalEdge<Env>({
  fetch: async (request, env, context) => {
    if (new URL(request.url).pathname === RECORDED) {
      const recording = await recorder.take()
      return Response.json({
        counts: countsOf(recording),
        replay: { ...stepsOf(recording, globals.take()), ...answer },
      })
    }
    const response = await muster.fetch(request, recorder.bindings(env), context)
    recorder.answered()
    globals.answered()
    answer = { status: response.status, answer: (await response.clone().text()).length }
    return response
  },
  scheduled: (event, env, context) => muster.scheduled(event, recorder.bindings(env), context),
})

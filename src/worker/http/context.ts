// What every route finds on its request: the caller, and the dependencies of its steps.

import type { Clock } from '../../protocol/time.ts'
import { uuidv7 } from '../../protocol/uuid.ts'
import type { Dependencies } from '../enrollment/dependencies.ts'
import type { Caller } from '../enrollment/event.ts'

export interface Context {
  /** `c.env` in a route. */
  readonly Bindings: { readonly caller: Caller; readonly deps: Dependencies }
}

/** The caller of a request that just came. */
export function callerOf(request: Request, clock: Clock, waitUntil: Caller['waitUntil']): Caller {
  const at = clock()
  const colo = request.cf?.colo
  return {
    requestId: uuidv7(at),
    at,
    address: request.headers.get('cf-connecting-ip') ?? '',
    colo: typeof colo === 'string' ? colo : null,
    waitUntil,
  }
}

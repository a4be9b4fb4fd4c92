// What every route finds on its request. Types only.

import type { Door } from '../enrollment/dependencies.ts'
import type { Caller } from '../enrollment/event.ts'

export interface Context {
  readonly Variables: { readonly caller: Caller; readonly door: Door }
}

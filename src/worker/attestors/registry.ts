// Every mode there is, by name: a new one is one file in this room and one line here.

import type { Mode } from '../../protocol/modes.ts'
import type { Attestor } from './attestor.ts'
import { bootstrapToken, type FindToken } from './bootstrap-token.ts'

/** What the attestors need of the rest of the Worker. */
export interface AttestorSources {
  readonly findToken: FindToken
}

export type Attestors = Partial<Record<Mode, Attestor>>

export const makeAttestors = (sources: AttestorSources): Attestors => ({
  'bootstrap-token': bootstrapToken(sources.findToken),
})

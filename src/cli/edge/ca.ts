// The development CA of the local edge: made on the first start, kept in the state folder, refused by a deployed Worker.

import type { StateFolder } from './state.ts'

/** The Worker's secrets, as PEM. */
export interface CaSecrets {
  readonly CA_KEY: string
  readonly CA_CERT: string
}

export async function developmentCa(_state: StateFolder, _now: Date): Promise<Partial<CaSecrets>> {
  return {}
}

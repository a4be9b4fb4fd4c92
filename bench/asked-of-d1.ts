// What a Worker that watches D1 (worker/watched-d1.ts) says of the requests since it was last asked.

import type { Counts } from '../test/worker/call-counts.ts'

export interface AskedOfD1 extends Pick<Counts['d1'], 'waited' | 'calls' | 'rowsRead' | 'rowsWritten'> {
  /** How long the calls took, without what was added to them. */
  readonly milliseconds: number
  /** Of that, what D1 says that its SQL took. */
  readonly sqlMilliseconds: number
}

/** A path of that Worker; another one would go to Muster. */
export const ASKED = '/asked-of-d1'

/** Waits until nothing is under way any more, so also for what follows an answer. */
export async function askedOfD1(url: string): Promise<AskedOfD1> {
  return JSON.parse(await (await fetch(`${url}${ASKED}`)).text())
}

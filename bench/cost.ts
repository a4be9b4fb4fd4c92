// What requests cost on Workers Paid at list prices, beyond what the plan includes. Pure: operations in, dollars out.

/** What requests of one kind use, on average for one of them. */
export interface Operations {
  readonly requests: number
  /** CPU of the Worker, in milliseconds. */
  readonly cpuMs: number
  /** Calls and alarms of Durable Objects. */
  readonly objectRequests: number
  /** How long objects are in memory for it, in seconds; one that hibernates is not. */
  readonly objectSeconds: number
  /** Rows of objects' storage and of D1: both cost the same. An index is a row, and so is an alarm that is set. */
  readonly rowsRead: number
  readonly rowsWritten: number
  readonly kvReads: number
  readonly kvWrites: number
  /** Events in Workers Logs. */
  readonly logged: number
}

/** Dollars for a million; of `objectSeconds` at 128 MB, 12.50 for a million gigabyte-seconds. As of November 2026. */
const PRICES: Readonly<Record<keyof Operations, number>> = {
  requests: 0.3,
  cpuMs: 0.02,
  objectRequests: 0.15,
  objectSeconds: 12.5 * 0.128,
  rowsRead: 0.001,
  rowsWritten: 1,
  kvReads: 0.5,
  kvWrites: 5,
  logged: 0.6,
}

/** Dollars for a million requests, by what they are for. */
export const dollarsPerMillion = (operations: Operations): Record<keyof Operations, number> => {
  const dollars = { ...PRICES }
  for (const name of NAMES) dollars[name] = PRICES[name] * operations[name]
  return dollars
}

export const totalOf = (dollars: Readonly<Record<keyof Operations, number>>): number =>
  NAMES.reduce((total, name) => total + dollars[name], 0)

const NAMES = [
  'requests',
  'cpuMs',
  'objectRequests',
  'objectSeconds',
  'rowsRead',
  'rowsWritten',
  'kvReads',
  'kvWrites',
  'logged',
] as const satisfies readonly (keyof Operations)[]

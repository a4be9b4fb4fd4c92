// What requests cost on Workers Paid at list prices, beyond what the plan includes. Pure: counted operations in, dollars
// out. Logs are left out: what they cost depends on where they are sent.

import type { Counts } from '../test/worker/call-counts.ts'

/** Dollars for a million, as of November 2026. Rows of D1 and of objects cost the same; so does an alarm that is set. */
const PRICES = {
  request: 0.3,
  cpuMillisecond: 0.02,
  objectCall: 0.15,
  objectGigabyteSecond: 12.5,
  rowRead: 0.001,
  rowWritten: 1,
  kvRead: 0.5,
}

/** An object has 128 MB, and hibernates when it has nothing to do: a call keeps it for some milliseconds. */
const OBJECT_CALL = { gigabytes: 0.128, seconds: 0.005 }

/** Dollars for a million requests of one kind, by what they are for. */
export interface Dollars {
  readonly requests: number
  readonly cpu: number
  readonly objects: number
  readonly rows: number
  readonly kv: number
  readonly total: number
}

/** `counts`: of one request; `cpuMs`: CPU of the Worker for it, in milliseconds. */
export function dollarsPerMillion({ d1, object, kv: { calls } }: Counts, cpuMs: number): Dollars {
  const requests = PRICES.request
  const cpu = PRICES.cpuMillisecond * cpuMs
  const inMemory = OBJECT_CALL.gigabytes * OBJECT_CALL.seconds * PRICES.objectGigabyteSecond
  const objects = object.calls * (PRICES.objectCall + inMemory)
  const read = d1.rowsRead + object.rowsRead
  const written = d1.rowsWritten + object.rowsWritten
  const rows = read * PRICES.rowRead + written * PRICES.rowWritten
  const kv = calls * PRICES.kvRead
  return { requests, cpu, objects, rows, kv, total: requests + cpu + objects + rows + kv }
}

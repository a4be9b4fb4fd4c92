// How a request ends that was refused or broke: counted against its address, recorded under its id.

import { type Outcome, type Refusal, statusOf } from '../../protocol/refusals.ts'
import { err } from '../../protocol/result.ts'
import { isStorageOutage } from '../store/db.ts'
import type { Door } from './dependencies.ts'
import { type Caller, type Facts, recordBug, recordRefusal } from './event.ts'
import { rateKeyOf } from './rate-limit.ts'

/** Only failures count against an address, so one that is full of honest runners is never shut out. */
export async function refused(door: Door, caller: Caller, refusal: Refusal, facts: Facts): Promise<Outcome<never>> {
  const theirs = statusOf(refusal) < 500
  const within = !theirs || caller.address === '' || (await door.withinRate('failures', rateKeyOf(caller.address)))
  const told: Refusal = within ? refusal : { reason: 'rate_limited' }
  recordRefusal(door, caller, told, facts)
  return err(told)
}

/** What the caller is told of an exception: an outage where it was one, else that it is a bug. */
export async function broke(door: Door, caller: Caller, error: unknown, facts: Facts): Promise<Outcome<never>> {
  recordBug(caller, error)
  return refused(door, caller, { reason: isStorageOutage(error) ? 'storage_unavailable' : 'internal' }, facts)
}

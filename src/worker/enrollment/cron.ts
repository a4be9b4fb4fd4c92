// What is done by the clock: each minute what touches runners that are in, each hour what can wait.

import { hours, subtractSeconds, toEpochSeconds } from '../../protocol/time.ts'
import { pruneEvents } from '../store/events.ts'
import type { Door } from './dependencies.ts'
import { tellRunners } from './sweep.ts'

export const EVERY_HOUR = '0 * * * *'
const EVENTS_KEPT = hours(30 * 24)

export async function runCron(door: Door, cron: string): Promise<void> {
  if (cron !== EVERY_HOUR) return tellRunners(door)
  await pruneEvents(door.database, subtractSeconds(toEpochSeconds(door.clock()), EVENTS_KEPT))
  if (door.trust.clusters.length > 0) await door.refreshKeySets()
}

// Runs the cron jobs of wrangler.toml when they are due, as Cloudflare does for a deployed Worker.

import { Cron } from 'croner'
import { SCHEDULED_PATH } from '../../protocol/paths.ts'
import { reach } from '../operator/network.ts'

/**
 * Minutes in UTC; Sunday is 1; where a day of the month and one of the week are given, either is enough: as in
 * Cloudflare's own parser (cloudflare/saffron).
 */
const CLOUDFLARE = { utcOffset: 0, alternativeWeekdays: true, mode: '5-part', unref: true } as const

/** Runs each when it is due. Gives the function that ends it. */
export function runCrons(crons: readonly string[], run: (cron: string) => Promise<void>): () => void {
  // A job that fails is the Worker's to log; the next minute comes all the same.
  const jobs = crons.map((cron) => new Cron(cron, CLOUDFLARE, () => run(cron).catch(() => {})))
  return () => {
    for (const job of jobs) job.stop()
  }
}

/** A cron job at Cloudflare may take 15 minutes. In milliseconds. */
const LONGEST_JOB = 15 * 60_000

/** Has the Worker behind the edge at `url` run the job of `cron`. A failure is logged by the Worker. */
export async function runScheduled(url: string, cron: string): Promise<void> {
  await reach(new URL(`${SCHEDULED_PATH}?cron=${encodeURIComponent(cron)}`, url), {
    method: 'GET',
    headers: {},
    timeout: LONGEST_JOB,
    limit: 1024,
  })
}

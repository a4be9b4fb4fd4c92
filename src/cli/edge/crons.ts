// Runs the cron jobs of wrangler.toml when they are due, as Cloudflare does for a deployed Worker.

import { request } from 'node:http'
import { Cron } from 'croner'
import { directAgent } from '../../node/proxy-agent.ts'
import type { Upstream } from './terminator.ts'

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

/** Has the Worker do the job of `cron`. */
export function runScheduled({ port, secret }: Upstream, cron: string): Promise<void> {
  const path = `/cdn-cgi/local/scheduled?cron=${encodeURIComponent(cron)}`
  const headers = { 'MF-CF-Blob': JSON.stringify({ edge: { secret, scheme: 'http' } }) }
  return new Promise((resolve, reject) => {
    request({ host: '127.0.0.1', port, path, headers, agent: directAgent() })
      .on('response', (answer) => answer.resume().on('end', resolve))
      .on('error', reject)
      .end()
  })
}

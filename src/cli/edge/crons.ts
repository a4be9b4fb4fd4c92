// Runs the cron jobs of wrangler.toml when they are due, as Cloudflare does for a deployed Worker.

/** UTC, like Cloudflare's. Gives the function that ends it. */
export function runCrons(crons: readonly string[], run: (due: readonly string[]) => Promise<void>): () => void {
  let timer: NodeJS.Timeout
  const wait = (): void => {
    timer = setTimeout(tick, 60_000 - (Date.now() % 60_000))
    timer.unref()
  }
  const tick = (): void => {
    const due = crons.filter((cron) => isDue(cron, new Date()))
    // A job that fails is the Worker's to log; the next minute comes all the same.
    if (due.length > 0) run(due).catch(() => {})
    wait()
  }
  wait()
  return () => clearTimeout(timer)
}

/** Knows numbers, lists, ranges, steps and `*`: what Cloudflare takes, but for names of days and months, L, W and #. */
export function isDue(cron: string, at: Date): boolean {
  const fields = cron.trim().split(/\s+/)
  const now = [at.getUTCMinutes(), at.getUTCHours(), at.getUTCDate(), at.getUTCMonth() + 1, at.getUTCDay() + 1]
  return fields.length === now.length && fields.every((field, i) => matches(field, now[i] ?? 0))
}

const matches = (field: string, value: number): boolean =>
  field.split(',').some((part) => {
    const [range = '*', step = '1'] = part.split('/')
    const [from, to] = range === '*' ? [0, 59] : range.split('-').map(Number)
    if (from === undefined || Number.isNaN(from)) return false
    return value >= from && value <= (to ?? (part.includes('/') ? 59 : from)) && (value - from) % Number(step) === 0
  })

// Writes the Worker's log: one JSON line for each message, `level` and `message` first. Never pass it evidence or keys.

export type Level = 'info' | 'warn' | 'error'

export function log(level: Level, message: string, fields: Readonly<Record<string, unknown>> = {}): void {
  console[level](JSON.stringify({ level, message, ...fields }))
}

/** Logs an exception that stops nothing, as an error. */
export function logFailure(message: string, error: unknown, fields: Readonly<Record<string, unknown>> = {}): void {
  // Whatever is thrown and is no Error is not from this code, and may hold anything.
  log('error', message, { ...fields, error: error instanceof Error ? error.message : 'unknown' })
}

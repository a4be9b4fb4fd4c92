// The Worker's log: one JSON line for each message, `level` and `message` first. Callers never hand evidence or keys to it.

export type Level = 'info' | 'warn' | 'error'

export function log(level: Level, message: string, fields: Readonly<Record<string, unknown>> = {}): void {
  console[level](JSON.stringify({ level, message, ...fields }))
}

/** What an exception may say in a log. Something other than an Error was thrown by no code of ours. */
export const errorText = (error: unknown): string => (error instanceof Error ? error.message : 'unknown')

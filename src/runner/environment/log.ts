// Writes log lines: one JSON object each, `level` and `message` first. Nothing here decides what may be logged; callers
// never pass evidence or keys.

import { isPrintable } from '../../protocol/characters.ts'
import { type Clock, rfc3339, toEpochSeconds } from '../../protocol/time.ts'

export type Level = 'info' | 'warn' | 'error'
export type Field = string | number | boolean | null | readonly string[] | undefined
export type Fields = Readonly<Record<string, Field>>
export type Log = (level: Level, message: string, fields?: Fields) => void

/** Every line carries the instance and the time, after its own fields. */
export function jsonLog(write: (line: string) => void, instanceId: string, clock: Clock): Log {
  return (level, message, fields = {}) => {
    const time = rfc3339(toEpochSeconds(clock()))
    write(`${JSON.stringify({ level, message, ...fields, instanceId, time })}\n`)
  }
}

const TEXT_CHARACTERS = 300

/** A text that another machine sent: short, and what would spoil a line on a screen escaped. */
export function sanitized(text: unknown): string | undefined {
  if (typeof text !== 'string') return undefined
  return [...text.slice(0, TEXT_CHARACTERS)].map((c) => (isPrintable(c) ? c : escaped(c))).join('')
}

const escaped = (character: string): string => `\\u{${character.codePointAt(0)?.toString(16)}}`

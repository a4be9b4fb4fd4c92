// Prints the log of the Worker and of the demonstration runner: JSON lines for a program, short lines for a person.

import { isObject } from '../../protocol/strict-json.ts'
import { adviceOf } from '../operator/advice.ts'
import { onTerminal } from '../operator/command.ts'

export class EdgeLog {
  readonly #json: boolean
  #held: string[] | null = []

  constructor(json: boolean) {
    this.#json = json
    // A reader may close the pipe after the ready line: the edge goes on.
    process.stdout.on('error', () => {})
  }

  /** One line of `source`, held back until `begin`. */
  write(source: string, level: string, message: string): void {
    const fields = readObject(message)
    const line = this.#json
      ? fields === null
        ? JSON.stringify({ level, message })
        : message
      : `${dim(`${new Date().toISOString().slice(11, 19)} ${source.padEnd(6)}`)} ${fields === null ? message : brief(fields)}`
    if (this.#held === null) process.stdout.write(`${line}\n`)
    else this.#held.push(line)
  }

  /** Prints what was held back, and from now on every line at once. */
  begin(): void {
    for (const line of this.#held ?? []) process.stdout.write(`${line}\n`)
    this.#held = null
  }
}

/** The fields that a person needs beside the message. */
const SHOWN = ['mode', 'tenant', 'runnerId', 'reason', 'detail', 'code', 'error']

function brief(fields: Record<string, unknown>): string {
  const { level, message, reason } = fields
  const advice = typeof reason === 'string' ? adviceOf(reason) : null
  const shown = level === 'info' ? SHOWN : [...SHOWN, 'requestId']
  const known = shown.map((name) => fields[name]).filter((value) => typeof value === 'string' && value !== '')
  const line = [level === 'error' || level === 'warn' ? bold(String(message)) : String(message), ...known].join('  ')
  return advice === null ? line : `${line}\n${' '.repeat(16)}${dim(advice)}`
}

export function readObject(text: string): Record<string, unknown> | null {
  try {
    const value: unknown = text.startsWith('{') && !text.includes('\n') ? JSON.parse(text) : null
    return isObject(value) ? value : null
  } catch {
    return null
  }
}

export const dim = (text: string): string => (onTerminal() ? `\u001b[2m${text}\u001b[22m` : text)
export const bold = (text: string): string => (onTerminal() ? `\u001b[1m${text}\u001b[22m` : text)

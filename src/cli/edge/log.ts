// What the Worker and the demonstration runner log, as JSON lines for a program or as short lines for a person.

import { onTerminal } from '../operator/command.ts'

export class EdgeLog {
  readonly #json: boolean
  #held: string[] | null = []

  constructor(json: boolean) {
    this.#json = json
    // Whoever read the ready line may have closed the pipe: the edge goes on.
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

  /** What was held back comes out, and from now on everything at once. */
  begin(): void {
    for (const line of this.#held ?? []) process.stdout.write(`${line}\n`)
    this.#held = null
  }
}

/** What a line says beyond its message is for programs; a person wants who, where and why. */
const SHOWN = ['mode', 'tenant', 'runnerId', 'reason', 'detail', 'code', 'error']

function brief(fields: Record<string, unknown>): string {
  const { level, message, advice } = fields
  const shown = level === 'info' ? SHOWN : [...SHOWN, 'requestId']
  const known = shown.map((name) => fields[name]).filter((value) => typeof value === 'string' && value !== '')
  const line = [level === 'error' || level === 'warn' ? bold(String(message)) : String(message), ...known].join('  ')
  return typeof advice === 'string' ? `${line}\n${' '.repeat(16)}${dim(advice)}` : line
}

export function readObject(text: string): Record<string, unknown> | null {
  try {
    const value: unknown = text.startsWith('{') && !text.includes('\n') ? JSON.parse(text) : null
    return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : null
  } catch {
    return null
  }
}

export const dim = (text: string): string => (onTerminal() ? `\u001b[2m${text}\u001b[22m` : text)
export const bold = (text: string): string => (onTerminal() ? `\u001b[1m${text}\u001b[22m` : text)

// The deployed D1, through `wrangler d1 execute --remote`: wrangler's login, and a statement with its values written in.

import { spawn } from 'node:child_process'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { text } from 'node:stream/consumers'
import { stripVTControlCharacters } from 'node:util'
import { PROJECT } from '../edge/project.ts'
import { CommandError, type SharedOptions } from '../operator/command.ts'

export async function executeRemotely(
  options: SharedOptions,
  sql: string,
  params: readonly unknown[],
): Promise<unknown[][]> {
  const environment = options.env === undefined ? [] : ['--env', options.env]
  const config = ['--config', join(PROJECT, 'wrangler.toml')]
  const output = await wrangler([
    'd1',
    'execute',
    'DB',
    '--remote',
    '--json',
    '--yes',
    ...config,
    ...environment,
    '--command',
    inline(sql, params),
  ])
  return rowsOf(output)
}

/** Writes the values in the place of the `?` outside of quotes and comments. */
export function inline(sql: string, params: readonly unknown[]): string {
  const rest = [...params]
  const written = sql.replace(/'(?:[^']|'')*'|"(?:[^"]|"")*"|--[^\n]*|\/\*[\s\S]*?\*\/|\?/g, (part) => {
    if (part !== '?') return part
    if (rest.length === 0) throw new Error('more placeholders than values')
    return literal(rest.shift())
  })
  if (rest.length > 0) throw new Error('more values than placeholders')
  return written
}

/** SQLite's literals, for what the tables hold. There is none for a string with a NUL in it. */
function literal(value: unknown): string {
  if (value === null) return 'NULL'
  if (typeof value === 'string' && !value.includes('\0')) return `'${value.replaceAll("'", "''")}'`
  if (typeof value === 'number' && Number.isSafeInteger(value)) return String(value)
  if (typeof value === 'boolean') return value ? '1' : '0'
  throw new Error('a value that SQL has no literal for')
}

async function wrangler(args: readonly string[]): Promise<string> {
  const program = join(dirname(createRequire(import.meta.url).resolve('wrangler/package.json')), 'bin/wrangler.js')
  const environment = { ...process.env, WRANGLER_HIDE_BANNER: 'true', WRANGLER_SEND_METRICS: 'false' }
  const child = spawn(process.execPath, [program, ...args], { stdio: ['inherit', 'pipe', 'pipe'], env: environment })
  const exited = new Promise<number | null>((resolve) => child.on('close', resolve))
  const [output, complaint, code] = await Promise.all([text(child.stdout), text(child.stderr), exited])
  if (code !== 0)
    throw new CommandError(`wrangler d1 execute: ${faultOf(output) ?? firstLine(complaint) ?? `exit ${code}`}`)
  return output
}

/** With `--json` wrangler says on stdout what went wrong, too: a sentence, and notes that say it better. */
export function faultOf(output: string): string | undefined {
  try {
    const { error } = JSON.parse(output)
    const notes: { text: string }[] = error.notes ?? []
    return firstLine([error.text, ...notes.map((note) => note.text)].join(': '))
  } catch {
    return undefined
  }
}

/** What `--json` prints: an array with one answer for each statement. */
export function rowsOf(output: string): unknown[][] {
  const answers: unknown = JSON.parse(output.slice(Math.max(output.search(/^\[/m), 0)))
  const results: unknown = Array.isArray(answers) ? answers[0]?.results : undefined
  if (!Array.isArray(results)) throw new CommandError('wrangler d1 execute gave no rows; its --json output has changed')
  return results.map((row: object) => Object.values(row))
}

/** The first line with a word in it, without a terminal's colours. */
const firstLine = (output: string): string | undefined =>
  stripVTControlCharacters(output)
    .split('\n')
    .map((line) => line.replace(/^[^A-Za-z]+/, '').trim())
    .find((line) => line !== '')

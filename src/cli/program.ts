// Lists the operator's commands and runs the one that the arguments name; exit 0: done, 1: refused.

import { Command } from 'commander'
import { codeOf } from '../node/errors.ts'
import { VERSION } from '../node/version.ts'
import { printable } from '../protocol/characters.ts'
import { CommandError, group, shareOptions } from './operator/command.ts'

/** Each is loaded where it is named, and all of them only to be listed: loading takes most of a quick command's time. */
const COMMANDS: Readonly<Record<string, () => Promise<Command>>> = {
  dev: async () => (await import('./dev.ts')).devCommand(),
  ca: async () => (await import('./ca.ts')).caCommand(),
  trust: async () => (await import('./trust.ts')).trustCommand(),
  token: async () => (await import('./token.ts')).tokenCommand(),
  ban: async () => (await import('./bans.ts')).banCommand(),
  unban: async () => (await import('./bans.ts')).unbanCommand(),
  bans: async () => (await import('./bans.ts')).bansCommand(),
  drain: async () => (await import('./bans.ts')).drainCommand(),
  events: async () => (await import('./events.ts')).eventsCommand(),
  explain: async () => (await import('./explain.ts')).explainCommand(),
}

async function programFor(words: readonly string[]): Promise<Command> {
  const program = group(
    'muster',
    'The enrollment door and certificate authority for fleets of runners, on Cloudflare Workers.',
  ).version(VERSION, '--version', 'print the version')
  if (words[0] === '--version') return program
  const [named = ''] = words.filter((word) => !word.startsWith('-'))
  const loads = Object.hasOwn(COMMANDS, named) ? [COMMANDS[named]] : Object.values(COMMANDS)
  for (const load of loads) if (load !== undefined) program.addCommand(await load())
  shareOptions(program)
  // Listed here; main.ts starts it.
  return program.addCommand(
    new Command('runner').summary('enroll this machine, keep its certificate alive, hold its tunnel open'),
  )
}

/** Runs the command that the words after `muster` name. A refusal is a line on stderr and exit code 1. */
export async function runProgram(words: readonly string[]): Promise<void> {
  try {
    const program = await programFor(words)
    await program.parseAsync(words, { from: 'user' })
  } catch (error) {
    const line = refusalOf(error)
    if (line === null) throw error
    process.stderr.write(`muster: ${line}\n`)
    process.exitCode = 1
  }
}

/** Whoever read enough of the output (`head`) is gone, which is no mistake; a full disk is one. */
export function watchOutput(): void {
  process.stdout.on('error', (error) => {
    if (codeOf(error) === 'EPIPE') return
    process.stderr.write(`muster: the output cannot be written: ${codeOf(error)}\n`)
    process.exitCode = 1
  })
}

/** What a person can act on, in one line. Null: a bug, which is reported with its stack. */
function refusalOf(error: unknown): string | null {
  if (error instanceof CommandError) return error.message
  // A file or folder that cannot be used is the operator's mistake in every command, not a bug.
  if (!(error instanceof Error && 'syscall' in error && 'path' in error && 'code' in error)) return null
  return printable(`${error.path}: ${error.syscall} is refused (${error.code})`)
}

// Lists the operator's commands and runs the one that the arguments name; exit 0: done, 1: refused.

import { Command } from 'commander'
import { codeOf } from '../node/errors.ts'
import { VERSION } from '../node/version.ts'
import { printable } from '../protocol/characters.ts'
import { banCommand, bansCommand, drainCommand, unbanCommand } from './bans.ts'
import { caCommand } from './ca.ts'
import { devCommand } from './dev.ts'
import { eventsCommand } from './events.ts'
import { explainCommand } from './explain.ts'
import { CommandError, group, shareOptions } from './operator/command.ts'
import { tokenCommand } from './token.ts'
import { trustCommand } from './trust.ts'

const program = group(
  'muster',
  'The enrollment door and certificate authority for fleets of runners, on Cloudflare Workers.',
).version(VERSION, '--version', 'print the version')

program.addCommand(devCommand())
program.addCommand(caCommand())
program.addCommand(trustCommand())
program.addCommand(tokenCommand())
program.addCommand(banCommand())
program.addCommand(unbanCommand())
program.addCommand(bansCommand())
program.addCommand(drainCommand())
program.addCommand(eventsCommand())
program.addCommand(explainCommand())
shareOptions(program)
// Listed here; main.ts starts it.
program.addCommand(
  new Command('runner').summary('enroll this machine, keep its certificate alive, hold its tunnel open'),
)

/** Runs the command that the words after `muster` name. A refusal is a line on stderr and exit code 1. */
export async function runProgram(words: readonly string[]): Promise<void> {
  try {
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

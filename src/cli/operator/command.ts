// What every command has in common: the shared options, one-line refusals, exit codes.

import { Command } from 'commander'
import { printable } from '../../protocol/characters.ts'

/** Options that every command accepts, needed or not. */
export interface SharedOptions {
  /** Print one JSON value (or JSON lines) for a program to read. */
  readonly json?: true
  /** Folder of the local edge's state. */
  readonly persistTo: string
  /** Path of the trust file. */
  readonly trust: string
  /** Act on the deployed Muster instead of the local one. */
  readonly remote?: true
  /** wrangler's environment. */
  readonly env?: string
}

export const DEFAULT_STATE = '.wrangler/state'

/** A refusal that a person can act on: one line, exit 1. */
export class CommandError extends Error {
  override readonly name = 'CommandError'
}

/** A command of `muster`; what every command accepts is added when its own options are known. */
export const command = (name: string, summary: string): Command =>
  new Command(name)
    .summary(summary)
    .description(summary)
    .helpOption('-h, --help', 'show this help')
    .configureOutput({
      outputError: (message, write) => {
        // A guess at what was meant is a line of its own, and a value may hold anything.
        const line = printable(
          message
            .replace(/^error: /, '')
            .trim()
            .replaceAll('\n', ' '),
        )
        write(`muster: ${line} (--help says what there is)\n`)
      },
    })

/** A command that only has commands. */
export function group(name: string, summary: string): Command {
  const made = command(name, summary).enablePositionalOptions()
  // A command that is not there has no help; commander would show the group's.
  return made.on('beforeHelp', () => {
    const [first, second] = made.args.filter((arg) => !arg.startsWith('-'))
    const named = first === 'help' ? second : first
    if (named !== undefined) made.error(`unknown command '${named}'`)
  })
}

/** Adds the options that every command accepts, after its own. */
export function shareOptions(to: Command): void {
  for (const sub of to.commands) shareOptions(sub)
  // Before the name of one of its commands they would count for nothing.
  if (to.commands.length > 0) return
  to.optionsGroup('Options of every command:')
    .option('--json', 'print JSON for a program to read')
    .option('--trust <file>', 'the trust file', 'trust.yaml')
    .option('--local', 'act on the local state (the default)')
    .option('--persist-to <dir>', 'folder of the local state', DEFAULT_STATE)
    .option('--remote', 'act on the deployed Muster, with wrangler’s login')
    .option('--env <name>', 'environment of wrangler.toml')
}

/** One line for a person, or the value as JSON on one line. */
export function print(options: { readonly json?: true }, value: unknown, text: () => string): void {
  process.stdout.write(`${options.json ? JSON.stringify(value) : text()}\n`)
}

export const onTerminal = (): boolean => process.stdout.isTTY === true && process.env.NO_COLOR === undefined

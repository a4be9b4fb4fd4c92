// What every command has in common: the shared options, one-line refusals, exit codes.

import { Command } from 'commander'

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

/** A command of `muster` with the shared options. */
export function command(name: string, summary: string): Command {
  return (
    new Command(name)
      .summary(summary)
      .description(summary)
      .option('--json', 'print JSON for a program to read')
      .option('--trust <file>', 'the trust file', 'trust.yaml')
      .option('--local', 'act on the local state (the default)')
      .option('--persist-to <dir>', 'folder of the local state', DEFAULT_STATE)
      .option('--remote', 'act on the deployed Muster, with wrangler’s login')
      .option('--env <name>', 'environment of wrangler.toml')
      // Of a group, what stands after the subcommand's name is the subcommand's.
      .enablePositionalOptions()
      .helpOption('-h, --help', 'show this help')
      .showHelpAfterError('(--help says what there is)')
  )
}

/** One line for a person, or the value as JSON on one line. */
export function print(options: { readonly json?: true }, value: unknown, text: () => string): void {
  process.stdout.write(`${options.json ? JSON.stringify(value) : text()}\n`)
}

export const onTerminal = (): boolean => process.stdout.isTTY === true && process.env.NO_COLOR === undefined

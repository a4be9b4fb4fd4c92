// Makes the commands of `muster`: the shared options, help, one-line refusals, output.

import { Command, Option } from 'commander'
import { isPrintable, printable } from '../../protocol/characters.ts'
import { MAX_NOTE_CHARACTERS } from '../../protocol/limits.ts'
import { withoutSecrets } from '../../protocol/tokens.ts'

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

/** A refusal that a person can act on: one line, exit 1. `list`: what it is about, a line each. */
export class CommandError extends Error {
  override readonly name = 'CommandError'

  constructor(line: string, list: readonly string[] = []) {
    super([line, ...list].map(quotable).join('\n'))
  }
}

/** A quoted part of the command line may hold anything, even a token that was pasted instead of its id. */
const quotable = (line: string): string => printable(withoutSecrets(line))

/** The shared options, by their names on the command line. */
export type SharedName = 'json' | 'trust' | 'local' | 'persist-to' | 'remote' | 'env'

const SHARED_OPTIONS = 'Options of every command:'

/** What a command on the database uses, local or deployed. */
export const DATABASE: readonly SharedName[] = ['json', 'local', 'persist-to', 'remote', 'env']

/** A command of `muster`. Its help names the shared options that it uses; it accepts all of them. */
class MusterCommand extends Command {
  readonly uses: readonly SharedName[]

  constructor(name: string, uses: readonly SharedName[]) {
    super(name)
    this.uses = uses
  }
}

/** `uses`: the shared options that change what it does. They are added last, by `shareOptions`. */
export const command = (name: string, summary: string, uses: readonly SharedName[]): Command =>
  new MusterCommand(name, uses)
    .summary(summary)
    .description(summary)
    .helpOption('-h, --help', 'show this help')
    .configureHelp({
      // commander would put them first where a command has no other options.
      groupItems: (_, items, groupOf) =>
        Map.groupBy(
          items.toSorted((a, b) => Number(groupOf(a) === SHARED_OPTIONS) - Number(groupOf(b) === SHARED_OPTIONS)),
          groupOf,
        ),
    })
    .configureOutput({
      outputError: (message, write) => {
        // commander puts its suggestion on a second line.
        const line = quotable(
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
  const made = command(name, summary, []).enablePositionalOptions()
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
  // Before the name of a subcommand these options would have no effect.
  if (to.commands.length === 0) {
    to.optionsGroup(SHARED_OPTIONS)
    for (const [name, option] of SHARED) {
      to.addOption(to instanceof MusterCommand && to.uses.includes(name) ? option() : option().hideHelp())
    }
  }
}

const SHARED: readonly (readonly [SharedName, () => Option])[] = [
  ['json', () => new Option('--json', 'print JSON for a program to read')],
  ['trust', () => new Option('--trust <file>', 'the trust file').default('trust.yaml')],
  ['local', () => new Option('--local', 'act on the local state (the default)').conflicts('remote')],
  ['persist-to', () => new Option('--persist-to <dir>', 'folder of the local state').default(DEFAULT_STATE)],
  ['remote', () => new Option('--remote', 'act on the deployed Muster, with wrangler’s login')],
  ['env', () => new Option('--env <name>', 'environment of wrangler.toml')],
]

/** One line for a person, or the value as JSON on one line. */
export function print(options: { readonly json?: true }, value: unknown, text: () => string): void {
  process.stdout.write(`${options.json ? JSON.stringify(value) : text()}\n`)
}

export const onTerminal = (): boolean => process.stdout.isTTY === true && process.env.NO_COLOR === undefined

/** The value of `--note`, null without one. */
export function readNote(note: string | undefined): string | null {
  if (note === undefined) return null
  if ([...note].length <= MAX_NOTE_CHARACTERS && isPrintable(note)) return note
  throw new CommandError(`--note must be at most ${MAX_NOTE_CHARACTERS} printable characters`)
}

// Makes the commands of the bench: their help, one line for what is wrong, exit codes 1 (failed), 2 (asked wrongly) and 130
// (interrupted).

import { setTimeout as sleep } from 'node:timers/promises'
import { Command, InvalidArgumentError } from 'commander'
import { messageOf } from '../src/node/errors.ts'

/** `npm run <name>`. */
export const benchCommand = (name: string, summary: string): Command =>
  new Command(name)
    .description(summary)
    .helpOption('-h, --help', 'show this help')
    .configureHelp({ commandUsage: (command) => `npm run ${name} -- ${command.usage()}` })
    .configureOutput({
      outputError: (message, write) => {
        // commander puts its suggestion on a second line.
        const line = message
          .replace(/^error: /, '')
          .trim()
          .replaceAll('\n', ' ')
        write(`${name}: ${line} (--help says what there is)\n`)
      },
    })
    .exitOverride(({ exitCode }) => process.exit(exitCode === 0 ? 0 : 2))

/** Reads the value of an option or an argument. Bounds are inclusive. */
export const wholeNumber =
  (least: number, most: number) =>
  (text: string): number => {
    const number = Number(text)
    // As it is written in no other way: not '', 1e3 or 0x10.
    const isWhole = Number.isSafeInteger(number) && String(number) === text
    if (isWhole && number >= least && number <= most) return number
    throw new InvalidArgumentError(`It must be a whole number from ${least} to ${most}.`)
  }

/** Milliseconds. Ctrl-C reaches what a command started, too: what that leaves undone may be seen before the signal is. */
const SIGNAL_COMES_WITHIN = 100

/** Runs the command with the words of this process. `ending` fires on a signal; without it a signal ends the process. */
export async function runCommand(command: Command, ending?: AbortSignal): Promise<void> {
  ending?.addEventListener('abort', () => {
    process.exitCode = 130
  })
  try {
    await command.parseAsync()
  } catch (error) {
    await sleep(SIGNAL_COMES_WITHIN)
    const isInterrupted = ending?.aborted === true
    process.exitCode = isInterrupted ? 130 : 1
    console.error(`${command.name()}: ${isInterrupted ? 'interrupted' : messageOf(error)}`)
  }
}

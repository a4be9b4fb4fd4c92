// The operator's commands and how they end: 0 done, 1 refused.

import { Command } from 'commander'
import { banCommand, bansCommand, unbanCommand } from './bans.ts'
import { caCommand } from './ca.ts'
import { CommandError } from './command.ts'
import { devCommand } from './dev.ts'
import { drainCommand } from './drain.ts'
import { eventsCommand, explainCommand } from './events.ts'
import { tokenCommand } from './token.ts'
import { trustCommand } from './trust.ts'

const program = new Command('muster')
  .description('The enrollment door and certificate authority for fleets of runners, on Cloudflare Workers.')
  .enablePositionalOptions()
  .helpOption('-h, --help', 'show this help')

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
// Listed here; main.ts starts it.
program.addCommand(
  new Command('runner').summary('enroll this machine, keep its certificate alive, hold its tunnel open'),
)

/** Runs the command that the arguments name. */
export async function runProgram(): Promise<void> {
  try {
    await program.parseAsync()
  } catch (error) {
    if (!(error instanceof CommandError)) throw error
    process.stderr.write(`muster: ${error.message}\n`)
    process.exitCode = 1
  }
}

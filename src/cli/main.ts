#!/usr/bin/env node
// `muster`: the commands and how they end. 0 done, 1 refused; `muster runner` has codes of its own.

import { Command } from 'commander'
import { caCommand } from './ca.ts'
import { CommandError } from './command.ts'
import { devCommand } from './dev.ts'
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
program.addCommand(eventsCommand())
program.addCommand(explainCommand())

try {
  await program.parseAsync()
} catch (error) {
  if (!(error instanceof CommandError)) throw error
  process.stderr.write(`muster: ${error.message}\n`)
  process.exitCode = 1
}

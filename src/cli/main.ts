#!/usr/bin/env node
// `muster`: an agent, or an operator's command. An agent loads nothing of the commands: every machine pays for it.

import module from 'node:module'

// Not compiled anew at each start; from a checkout, where types are stripped, that is a third of an agent's memory.
module.enableCompileCache?.()

if (process.argv[2] === 'runner') {
  const { runnerCommand } = await import('../runner/command.ts')
  await runnerCommand().parseAsync(process.argv.slice(3), { from: 'user' })
} else {
  const { runProgram } = await import('./program.ts')
  await runProgram()
}

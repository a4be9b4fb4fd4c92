#!/usr/bin/env node
// `muster`: an agent, or an operator's command. An agent loads nothing of the commands: every machine pays for it.

import module from 'node:module'

// Not compiled anew at each start. From a checkout, where types are stripped, that is a fifth of an agent's memory.
module.enableCompileCache?.()

if (process.argv[2] === 'runner') {
  const { runRunner } = await import('../runner/command.ts')
  // Now: an agent may run for months, and be killed in the end.
  module.flushCompileCache?.()
  await runRunner(process.argv.slice(3))
} else {
  const { runProgram, watchOutput } = await import('./program.ts')
  watchOutput()
  await runProgram(process.argv.slice(2))
}

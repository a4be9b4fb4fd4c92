#!/usr/bin/env node
// Starts `muster`: the runner, or an operator's command. The runner loads none of the commands, to save memory on every
// machine.

import module from 'node:module'

// Keeps compiled code between starts. From a checkout, where types are stripped, that saves a fifth of a runner's memory.
module.enableCompileCache?.()

if (process.argv[2] === 'runner') {
  const { runRunner } = await import('../runner/command.ts')
  // Written now: a runner may run for months and be killed in the end.
  module.flushCompileCache?.()
  await runRunner(process.argv.slice(3))
} else {
  const { runProgram, watchOutput } = await import('./program.ts')
  watchOutput()
  await runProgram(process.argv.slice(2))
}

#!/usr/bin/env node
// Starts `muster`: the runner, or an operator's command. The runner loads none of the commands, to save memory on every
// machine.

import module from 'node:module'

// Keeps compiled code between starts. From a checkout, where types are stripped, that saves a fifth of a runner's memory.
module.enableCompileCache?.()

const isRunner = process.argv[2] === 'runner'

/** As `engines` of package.json says; npm only warns, and an older one fails somewhere on the way. */
const OLDEST_NODE = 22
if (Number.parseInt(process.versions.node, 10) < OLDEST_NODE) {
  const found = `${process.execPath} is Node ${process.versions.node}`
  process.stderr.write(`muster: ${found}; install Node ${OLDEST_NODE} or newer, and put it first on the PATH\n`)
  // A runner's "configuration is wrong": a restart changes nothing.
  process.exit(isRunner ? 78 : 1)
}

if (isRunner) {
  // A runner works for a moment every few minutes, on every machine: without compilers and with a small young generation
  // it takes 10 MB less. Each collection is a full one, which also frees TLS contexts: V8 does not count their megabyte.
  const { setFlagsFromString } = process.getBuiltinModule('node:v8')
  const flags = ['no-opt', 'no-maglev', 'no-sparkplug', 'semi-space-growth-factor=1', 'gc-global']
  for (const flag of flags) setFlagsFromString(`--${flag}`)
  // The first process of a container has no default action for signals, and loading takes its time.
  const stop = (): never => process.exit(0)
  process.on('SIGTERM', stop).on('SIGINT', stop)
  const { runRunner } = await import('../runner/command.ts')
  // Written now: a runner may run for months and be killed in the end.
  module.flushCompileCache?.()
  const ended = runRunner(process.argv.slice(3))
  // Now the runner listens itself: without any listener a signal that came meanwhile would be dropped.
  process.off('SIGTERM', stop).off('SIGINT', stop)
  await ended
} else {
  const { runProgram, watchOutput } = await import('./program.ts')
  watchOutput()
  await runProgram(process.argv.slice(2))
}

// Tells `muster dev` to stop: on a signal, and when the npm that started it is gone.

import { fstatSync, readFileSync, statSync } from 'node:fs'

/** Milliseconds from the first reason to stop until the process ends in any case; watchdogs kill its children. */
const STOP_WITHIN = 4500
/** Milliseconds between two looks at the starter. */
const LOOK_EVERY = 250

/** Fires once. Ctrl-C under npm comes twice: from the terminal and from npm. */
export function stopSignal(): AbortSignal {
  const controller = new AbortController()
  const stop = (): void => {
    if (controller.signal.aborted) return
    controller.abort()
    setTimeout(() => process.exit(), STOP_WITHIN).unref()
  }
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, stop)
  watchStarter(stop, controller.signal)
  return controller.signal
}

/**
 * npm passes on SIGINT and SIGTERM alone, and a shell that runs `npm start` passes on nothing: both leave their child
 * to init when they are killed. The scripts of package.json say which process npm is, since it may be gone before this
 * runs. The shell is not watched where the edge was left in the background on purpose: a shell without job control,
 * nohup and most service managers give such a process /dev/null to read.
 */
function watchStarter(stop: () => void, stopped: AbortSignal): void {
  const { MUSTER_STARTED_BY } = process.env
  if (MUSTER_STARTED_BY === undefined) return
  const npm = Number(MUSTER_STARTED_BY)
  const shell = isForeground() ? parentOf(npm) : null
  const look = (): void => {
    if (process.ppid !== npm || (shell !== null && parentOf(npm) !== shell)) stop()
  }
  const timer = setInterval(look, LOOK_EVERY)
  timer.unref()
  stopped.addEventListener('abort', () => clearInterval(timer))
  look()
}

function isForeground(): boolean {
  try {
    return fstatSync(0).rdev !== statSync('/dev/null').rdev
  } catch {
    return false
  }
}

/** Null where there is no such process, and on systems without /proc. */
function parentOf(pid: number): number | null {
  try {
    // `pid (name) state ppid`, and a name may hold spaces and brackets: proc(5).
    const status = readFileSync(`/proc/${pid}/stat`, 'utf8')
    return Number(status.slice(status.lastIndexOf(')')).split(' ')[2])
  } catch {
    return null
  }
}

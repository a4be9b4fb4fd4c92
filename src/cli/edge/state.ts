// Opens the folder of the local edge's state, and locks it. It holds keys, so it is for its owner alone.

import { join, resolve } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { messageOf } from '../../node/errors.ts'
import { CommandError } from '../operator/command.ts'
import { makeFolder } from '../operator/files.ts'

export interface StateFolder {
  /** What wrangler calls `--persist-to`; both share what lies under `v3`. */
  readonly root: string
  /** Where Miniflare keeps D1, KV and the objects: wrangler's own place. */
  readonly resources: string
  /** Our own: lock, development keys, how the CLI reaches a running edge. */
  readonly own: string
}

export function stateFolder(persistTo: string): StateFolder {
  const root = resolve(persistTo)
  const own = join(root, 'muster')
  makeFolder(own, persistTo)
  return { root, resources: join(root, 'v3'), own }
}

/**
 * Takes the folder for this process, or gives null where another process has it.
 * The lock is SQLite's on a file of its own: the system drops it with the process, however that ends.
 */
export function lockState(state: StateFolder): (() => void) | null {
  const path = join(state.own, 'lock.sqlite')
  let lock: DatabaseSync | null = null
  try {
    lock = new DatabaseSync(path, { timeout: 0 })
    lock.exec('BEGIN EXCLUSIVE')
    return lock.close.bind(lock)
  } catch (error) {
    lock?.close()
    if (isBusy(error)) return null
    throw new CommandError(`${path}: ${messageOf(error)}`)
  }
}

/** Result code 5 is SQLITE_BUSY. */
const isBusy = (error: unknown): boolean => error instanceof Error && 'errcode' in error && error.errcode === 5

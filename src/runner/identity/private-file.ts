// Reads files that belong to this user alone, judges them by what was opened, and makes the folder for them.

import { closeSync, constants, fchmodSync, fstatSync, mkdirSync, openSync, type Stats } from 'node:fs'
import { dirname } from 'node:path'
import { readRegularFile } from '../../node/bounded-file.ts'
import { codeOf } from '../../node/errors.ts'

export interface PrivateFile {
  readonly text: string
  /** Whether others than its owner could read it, until now. */
  readonly wasOpen: boolean
}

/** The file must not be used, since somebody else can have written it. The message says why, and no path. */
export class UnsafeFileError extends Error {
  override readonly name = 'UnsafeFileError'
}

const OTHERS_READ = 0o044
const OTHERS_WRITE = 0o022

/**
 * Never through a symbolic link. A file that others can only read (a copy, a backup) is used and gets mode 600. Throws
 * the system's error, an `UnsafeFileError`, or another one for what is no regular file of at most `limit` bytes.
 */
export function readPrivateFile(path: string, limit: number): PrivateFile {
  let wasOpen = false
  const text = readRegularFile(path, limit, constants.O_NOFOLLOW, (stats, file) => {
    const fault = faultOf(stats, isOurs(stats))
    if (fault !== null) throw new UnsafeFileError(fault)
    wasOpen = (stats.mode & OTHERS_READ) !== 0
    if (wasOpen) tighten(file)
  })
  return { text, wasOpen }
}

/** Why somebody else can write what was opened, or null. */
function faultOf(stats: Stats, isOwnerTrusted: boolean): string | null {
  if (!isOwnerTrusted) return `it belongs to user ${stats.uid}`
  return (stats.mode & OTHERS_WRITE) === 0 ? null : `others than its owner may write it (mode ${modeOf(stats)})`
}

/** Gives mode 600 to a file that is kept but not used. Never through a link; throws the system's error. */
export function tightenFile(path: string): void {
  const file = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK | constants.O_NOFOLLOW)
  try {
    if (fstatSync(file).isFile()) tighten(file)
  } finally {
    closeSync(file)
  }
}

function tighten(file: number): void {
  try {
    fchmodSync(file, 0o600)
  } catch {
    // A file system without modes, or another owner's file.
  }
}

/**
 * Makes the folder, mode 700, and those above it. Gives why others can replace the files in it, or null. Throws the
 * system's error. Node's own `recursive` never returns for a folder under /proc.
 */
export function openFolder(path: string): string | null {
  makeFolder(path)
  const folder = openSync(path, constants.O_RDONLY | constants.O_DIRECTORY)
  try {
    const stats = fstatSync(folder)
    return faultOf(stats, isOurs(stats) || stats.uid === 0)
  } finally {
    closeSync(folder)
  }
}

function makeFolder(path: string): void {
  try {
    mkdirSync(path, { mode: 0o700 })
  } catch (error) {
    if (codeOf(error) === 'EEXIST') return
    if (codeOf(error) !== 'ENOENT' || dirname(path) === path) throw error
    makeFolder(dirname(path))
    mkdirSync(path, { mode: 0o700 })
  }
}

/** Windows knows no user ids. */
const isOurs = ({ uid }: Stats): boolean => process.geteuid === undefined || uid === process.geteuid()

const modeOf = ({ mode }: Stats): string => (mode & 0o7777).toString(8).padStart(4, '0')

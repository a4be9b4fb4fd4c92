// Reads a PEM that a variable gives, inline or as the path of a file, and repairs what env files do to line ends.

import { existsSync } from 'node:fs'
import { readRegularFile } from '../../node/bounded-file.ts'
import { codeOf } from '../../node/errors.ts'
import { err, ok, type Result } from '../../protocol/result.ts'
import { pathMistake } from './paths.ts'
import { isQuoted, type Settings } from './settings.ts'

export interface PemSource {
  /** What messages call it: its variable, or the path of the default file. */
  readonly name: string
  /** Gives the text; a file is read anew each time. The error begins with the name and quotes nothing. */
  readonly read: () => Result<string, string>
}

const PEM_BYTES = 1024 * 1024
/** Of one PEM text; the whole bundle of a system has 150 to 400. */
export const MAX_CERTIFICATES = 1000

/** The PEM of the variable `name`, else of the file at `path` where there is one, else null. */
export function pemSetting(settings: Settings, name: string, path: string): PemSource | null {
  const value = settings.raw(name)
  if (value !== null) return { name, read: pemReader(name, value) }
  return existsSync(path) ? { name: path, read: () => readPemFile(path, path) } : null
}

export function pemReader(name: string, value: string): PemSource['read'] {
  const text = unquoted(value.trim())
  if (holdsPem(text)) return () => repaired(name, text)
  const path = pemPath(value)
  if (path === null) return () => err(`${name} holds the base64 of a PEM: give the PEM itself, or the path of a file`)
  const mistake = pathMistake(name, path)
  return () => (mistake === null ? readPemFile(name, path) : err(mistake))
}

/** The path that a value is read from; null where it is the PEM, or its base64, itself. */
export function pemPath(value: string): string | null {
  const text = unquoted(value.trim())
  // Base64 of `-----BEGIN`.
  return holdsPem(text) || text.startsWith('LS0tLS1CRUdJTi') ? null : text
}

function readPemFile(name: string, path: string): Result<string, string> {
  try {
    const text = readRegularFile(path, PEM_BYTES)
    return holdsPem(text) ? repaired(name, text) : err(`${name}: there is no PEM in the file`)
  } catch (error) {
    const why = codeOf(error, 'too large or not a file')
    const what = name === path ? 'cannot be read' : 'is neither a PEM nor the path of a file that can be read'
    return err(`${name} ${what} (${why})`)
  }
}

/** A PEM rather than a path. Its content is checked by the PEM reader. */
const holdsPem = (text: string): boolean => text.includes('-----BEGIN ')

/** Line ends written as `\n` can be read in only one way; doubly escaped ones and lost ones are the sender's fault. */
function repaired(name: string, text: string): Result<string, string> {
  if (text.includes('\\\\n')) return err(`${name} has line ends that were escaped twice (\\\\n)`)
  const pem = text.replaceAll('\\r\\n', '\n').replaceAll('\\n', '\n').replaceAll('\r\n', '\n')
  if (!pem.trim().includes('\n')) return err(`${name} has lost its line ends: a PEM has more than one line`)
  return ok(pem.endsWith('\n') ? pem : `${pem}\n`)
}

const unquoted = (value: string): string => (isQuoted(value) ? value.slice(1, -1) : value)

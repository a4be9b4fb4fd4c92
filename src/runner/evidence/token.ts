// Where a token comes from: a variable, or a file that is read anew at every use. White space around it is trimmed once.

import { closeSync, constants, fstatSync, openSync, readSync } from 'node:fs'
import { JWS_BYTES } from '../../protocol/limits.ts'
import { type EpochMilliseconds, epochMilliseconds } from '../../protocol/time.ts'
import { isCompactJws, unverifiedClaims } from './unverified.ts'

/** `absent`: the file cannot be read; `empty`: there is nothing in it. */
export type TokenReading = { readonly token: string } | { readonly fault: 'absent' | 'empty'; readonly cause: string }

export type TokenSource = (now: EpochMilliseconds) => TokenReading

export const staticToken =
  (token: string): TokenSource =>
  () => ({ token })

/**
 * The kubelet replaces the file's folder by a symbolic link, so it is opened by its path each time and nothing is
 * watched. Where it cannot be read, the last good token serves while it is unexpired; a token without an expiry does.
 */
export function fileToken(path: string): TokenSource {
  let last: string | null = null
  return (now) => {
    const reading = readTokenFile(path)
    if ('token' in reading) last = reading.token
    else if (last !== null && now < expiryOf(last)) return { token: last }
    return reading
  }
}

const expiryOf = (token: string): EpochMilliseconds => {
  const exp = unverifiedClaims(token)?.exp
  return epochMilliseconds(typeof exp === 'number' ? exp * 1000 : isCompactJws(token) ? 0 : Number.POSITIVE_INFINITY)
}

function readTokenFile(path: string): TokenReading {
  try {
    const token = readBounded(path, JWS_BYTES + 1024).trim()
    return token === '' ? { fault: 'empty', cause: 'empty' } : { token }
  } catch (error) {
    return { fault: 'absent', cause: error instanceof Error ? error.message : String(error) }
  }
}

/** The text of a regular file of at most `limit` bytes; throws otherwise. A pipe in its place does not hang. */
export function readBounded(path: string, limit: number, flags = 0): string {
  const file = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK | flags)
  try {
    if (!fstatSync(file).isFile()) throw new Error(`${path} is not a regular file`)
    const bytes = Buffer.alloc(limit + 1)
    let length = 0
    for (let n = -1; n !== 0 && length <= limit; length += n) {
      n = readSync(file, bytes, length, bytes.length - length, null)
    }
    if (length > limit) throw new Error(`${path} is over ${limit} bytes`)
    return bytes.toString('utf8', 0, length)
  } finally {
    closeSync(file)
  }
}

// Reads the runner's own token from a variable or a file, and the claims of a token that is a JWS, unverified.

import { readRegularFile } from '../../node/bounded-file.ts'
import { messageOf } from '../../node/errors.ts'
import { decodeBase64url } from '../../protocol/bytes.ts'
import { JWS_BYTES } from '../../protocol/limits.ts'
import type { ConfigurableMode } from '../../protocol/modes.ts'
import { err, ok, type Result } from '../../protocol/result.ts'
import { isObject, type JsonObject, readJson } from '../../protocol/strict-json.ts'
import { type EpochMilliseconds, epochMilliseconds } from '../../protocol/time.ts'
import { isCompactJws } from '../../protocol/tokens.ts'
import type { Fields } from '../environment/log.ts'
import type { EvidenceSource } from './evidence.ts'

/** Names of each variable that gives a token, first the one that the messages name. */
export const TOKEN_VARIABLES = ['RUNNER_TOKEN', 'COMPASS_RUNNER_TOKEN']
export const TOKEN_FILE_VARIABLES = ['RUNNER_TOKEN_FILE', 'COMPASS_RUNNER_TOKEN_FILE']

export interface TokenFault {
  /** `absent`: the file cannot be read; `empty`: there is nothing in it. */
  readonly kind: 'absent' | 'empty'
  readonly cause: string
}

/** Gives the token, the white space around it trimmed: of a variable, or of a file that is read anew at every use. */
export type TokenSource = (now: EpochMilliseconds) => Result<string, TokenFault>

export const staticToken =
  (token: string): TokenSource =>
  () =>
    ok(token)

export interface TokenParts {
  readonly token: TokenSource
  /** Gets the token, or null while there is none. */
  readonly modeOf: (token: string | null) => ConfigurableMode
  /** What may be logged of the token where it is refused. */
  readonly describe: (token: string) => Fields
  /** The file that it is read from, and the message for a fault of it; null where there is none. */
  readonly file: { readonly path: string; readonly missing: (kind: TokenFault['kind']) => string } | null
}

/** Nothing may be logged of a minted token. */
export const undescribed = (): Fields => ({})

/** Evidence that is a token and nothing else. */
export function tokenEvidence({ token, modeOf, describe, file }: TokenParts): EvidenceSource {
  return {
    path: file?.path ?? null,
    modeAt(now) {
      const reading = token(now)
      return modeOf(reading.ok ? reading.value : null)
    },
    missingAt(now) {
      const reading = token(now)
      return reading.ok || file === null ? null : file.missing(reading.error.kind)
    },
    async gather(_, now) {
      const reading = token(now)
      if (!reading.ok) return err(file?.missing(reading.error.kind) ?? reading.error.cause)
      return ok({
        attestation: { mode: modeOf(reading.value), token: reading.value },
        described: describe(reading.value),
      })
    },
  }
}

/**
 * The kubelet replaces the file's folder by a symbolic link, so it is opened by its path each time and nothing is
 * watched. Where it cannot be read, the last good token serves until it expires; the expiry of a minted one is
 * not known here.
 */
export function fileToken(path: string): TokenSource {
  let last: string | null = null
  return (now) => {
    const reading = readTokenFile(path)
    if (reading.ok) last = reading.value
    else if (last !== null && now < expiryOf(last)) return ok(last)
    return reading
  }
}

const expiryOf = (token: string): EpochMilliseconds => {
  const exp = unverifiedClaims(token)?.exp
  return epochMilliseconds(typeof exp === 'number' ? exp * 1000 : isCompactJws(token) ? 0 : Number.POSITIVE_INFINITY)
}

function readTokenFile(path: string): Result<string, TokenFault> {
  try {
    const token = readRegularFile(path, JWS_BYTES + 1024).trim()
    return token === '' ? err({ kind: 'empty', cause: 'empty' }) : ok(token)
  } catch (error) {
    return err({ kind: 'absent', cause: messageOf(error) })
  }
}

/** Unverified: for the expiry of our own token and for the log, never for a decision about anybody else. */
export function unverifiedClaims(token: string): JsonObject | null {
  const bytes = isCompactJws(token) ? decodeBase64url(token.split('.')[1] ?? '') : null
  const reading = bytes === null ? null : readJson(bytes)
  return reading?.ok === true && isObject(reading.value) ? reading.value : null
}

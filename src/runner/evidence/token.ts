// Reads the runner's own token from a variable or a file, and the claims of a Kubernetes token, unverified.

import { readRegularFile } from '../../node/bounded-file.ts'
import { messageOf } from '../../node/errors.ts'
import { decodeBase64url } from '../../protocol/bytes.ts'
import { JWS_BYTES } from '../../protocol/limits.ts'
import { type ConfigurableMode, isKubernetesMode } from '../../protocol/modes.ts'
import { err, ok, type Result } from '../../protocol/result.ts'
import { isObject, type JsonObject, readJson } from '../../protocol/strict-json.ts'
import { type EpochMilliseconds, epochMilliseconds } from '../../protocol/time.ts'
import { isCompactJws } from '../../protocol/tokens.ts'
import { type Fields, sanitized } from '../log.ts'
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

/**
 * Evidence that is a token and nothing else. `modeOf` gets the token, or null while there is none. `file` is the one
 * that it is read from, and the message for a fault of it.
 */
export function tokenEvidence(
  token: TokenSource,
  modeOf: (token: string | null) => ConfigurableMode,
  file?: { readonly path: string; readonly missing: (kind: TokenFault['kind']) => string },
): EvidenceSource {
  return {
    path: file?.path ?? null,
    modeAt(now) {
      const reading = token(now)
      return modeOf(reading.ok ? reading.value : null)
    },
    missingAt(now) {
      const reading = token(now)
      return reading.ok || file === undefined ? null : file.missing(reading.error.kind)
    },
    async gather(_, now) {
      const reading = token(now)
      if (!reading.ok) return err(file?.missing(reading.error.kind) ?? reading.error.cause)
      const mode = modeOf(reading.value)
      return ok({
        attestation: { mode, token: reading.value },
        described: isKubernetesMode(mode) ? describeToken(reading.value) : {},
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
function unverifiedClaims(token: string): JsonObject | null {
  const bytes = isCompactJws(token) ? decodeBase64url(token.split('.')[1] ?? '') : null
  const reading = bytes === null ? null : readJson(bytes)
  return reading?.ok === true && isObject(reading.value) ? reading.value : null
}

/** The claims that most refusals are about, for the log line of one. */
function describeToken(token: string): Fields {
  const claims = unverifiedClaims(token)
  if (claims === null) return {}
  const { iss, aud, sub, exp } = claims
  const audiences = (Array.isArray(aud) ? aud : [aud]).map((one) => sanitized(one) ?? '').filter((one) => one !== '')
  return { iss: sanitized(iss), aud: audiences, sub: sanitized(sub), exp: typeof exp === 'number' ? exp : undefined }
}

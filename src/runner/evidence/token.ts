// Gives the runner's own token as evidence, from a variable or from a file that is read anew at every use. The form of
// the token tells its kind; text of any other form is never sent.

import { readRegularFile } from '../../node/bounded-file.ts'
import { messageOf } from '../../node/errors.ts'
import { JWS_BYTES } from '../../protocol/limits.ts'
import type { ConfigurableMode, KubernetesMode } from '../../protocol/modes.ts'
import { err, ok, type Result } from '../../protocol/result.ts'
import { type EpochMilliseconds, epochMilliseconds } from '../../protocol/time.ts'
import { namedKind } from '../../protocol/tokens.ts'
import type { Log } from '../environment/log.ts'
import { foldersOf } from '../environment/mounts.ts'
import type { EvidenceSource } from './evidence.ts'
import { describeToken, unverifiedClaims } from './jws.ts'

export interface TokenFault {
  /** `absent`: the file cannot be read; `empty`: it is empty; `foreign`: it holds something else than a token. */
  readonly kind: 'absent' | 'empty' | 'foreign'
  /** In the system's words. */
  readonly cause: string
}

/** Gives the token, the white space around it trimmed. */
export type TokenSource = (now: EpochMilliseconds) => Result<string, TokenFault>

export const staticToken =
  (token: string): TokenSource =>
  () =>
    ok(token)

/** The mode of a token: a minted one says it with its prefix, a compact JWS has `jwsMode`. Null for any other text. */
export function modeOfToken(token: string, jwsMode: KubernetesMode): ConfigurableMode | null {
  const kind = namedKind(token)
  if (kind !== null) return kind === 'bootstrap' ? 'bootstrap-token' : 'runner-token'
  return unverifiedClaims(token) === null ? null : jwsMode
}

export interface TokenParts {
  readonly token: TokenSource
  /** The mode while there is no token. */
  readonly mode: ConfigurableMode
  /** The mode of a compact JWS. */
  readonly jwsMode: KubernetesMode
  /** The file that it is read from, and the message for a fault of it; null where there is none. */
  readonly file: { readonly path: string; readonly missing: (kind: TokenFault['kind']) => string } | null
}

/** Evidence that is a token and nothing else. */
export function tokenEvidence({ token, mode, jwsMode, file }: TokenParts): EvidenceSource {
  const modeOf = (value: string): ConfigurableMode => modeOfToken(value, jwsMode) ?? mode
  return {
    guarded: foldersOf('the token directory', file?.path ?? ''),
    modeAt(now) {
      const reading = token(now)
      return reading.ok ? modeOf(reading.value) : mode
    },
    missingAt(now) {
      const reading = token(now)
      return reading.ok || file === null ? null : file.missing(reading.error.kind)
    },
    async gather(_, now) {
      const reading = token(now)
      if (!reading.ok) return err(file?.missing(reading.error.kind) ?? reading.error.cause)
      const { value } = reading
      return ok({ attestation: { mode: modeOf(value), token: value }, described: describeToken(value) })
    },
  }
}

/**
 * The kubelet replaces the file's folder by a symbolic link, so it is opened by its path each time and nothing is
 * watched. While it has no token, the last token is used until it expires, and the log says so once for each cause. The
 * expiry of a minted token is not known here.
 */
export function fileToken(path: string, log: Log): TokenSource {
  let last: string | null = null
  let logged: string | null = null
  return (now) => {
    const reading = readTokenFile(path)
    if (reading.ok) {
      last = reading.value
      logged = null
      return reading
    }
    if (last === null || now >= expiryOf(last)) return reading
    const { kind, cause } = reading.error
    if (logged !== kind) log('warn', `the token file ${path} ${FAULTS[kind]}: the last token serves`, { cause })
    logged = kind
    return ok(last)
  }
}

const FAULTS = { absent: 'cannot be read', empty: 'is empty', foreign: 'holds no token' } as const

const expiryOf = (token: string): EpochMilliseconds => {
  const claims = unverifiedClaims(token)
  if (claims === null) return epochMilliseconds(Number.POSITIVE_INFINITY)
  return epochMilliseconds(typeof claims.exp === 'number' ? claims.exp * 1000 : 0)
}

function readTokenFile(path: string): Result<string, TokenFault> {
  try {
    const token = readRegularFile(path, JWS_BYTES + 1024).trim()
    if (token === '') return err({ kind: 'empty', cause: 'empty' })
    // Which mode a JWS has does not matter here.
    return modeOfToken(token, 'kubernetes') === null ? err({ kind: 'foreign', cause: 'another text' }) : ok(token)
  } catch (error) {
    return err({ kind: 'absent', cause: messageOf(error) })
  }
}

// Reads the runner's token from where an operator put it: one variable or file, for any kind of token.

import type { ConfigurableMode, KubernetesMode } from '../../protocol/modes.ts'
import { err, ok, type Result } from '../../protocol/result.ts'
import type { Settings } from '../environment/settings.ts'
import type { EvidenceSource, Given } from './evidence.ts'
import { fileToken, modeOfToken, staticToken, type TokenFault, tokenEvidence } from './token.ts'

/** The variables that may give a token. Of two names for the same, messages suggest the first. */
export interface TokenVariables {
  /** The token itself. */
  readonly tokens: readonly string[]
  /** The path of its file. */
  readonly files: readonly string[]
}

export const BOOTSTRAP_VARIABLES: TokenVariables = {
  tokens: ['RUNNER_BOOTSTRAP_TOKEN'],
  files: ['RUNNER_BOOTSTRAP_TOKEN_FILE'],
}
export const RUNNER_VARIABLES: TokenVariables = {
  tokens: ['RUNNER_TOKEN', 'COMPASS_RUNNER_TOKEN'],
  files: ['RUNNER_TOKEN_FILE', 'COMPASS_RUNNER_TOKEN_FILE'],
}

/** How a token is used. */
export interface TokenUse {
  /** The mode while there is no token. */
  readonly mode: ConfigurableMode
  /** The mode of a compact JWS. */
  readonly jwsMode: KubernetesMode
  /** The message for a file that cannot be read or is empty. */
  readonly missing: (path: string, kind: 'absent' | 'empty') => string
}

const NO_TOKEN = 'neither a token of Muster (muster_bt_…, muster_rt_…) nor a compact JWS: it is not sent'

/**
 * The evidence that the variables or `--token-file` give; null where none is set. `others` are sources that only clash.
 * The error is a mistake; null where it is among the mistakes already.
 */
export function readGivenToken(
  settings: Settings,
  { tokens, files }: TokenVariables,
  { fileFlag, log }: Given,
  useOf: (name: string) => TokenUse,
  others: readonly string[] = [],
): Result<EvidenceSource, string | null> | null {
  const isSet = (name: string): boolean => settings.has(name)
  const setFiles = fileFlag === null ? files.filter(isSet) : ['--token-file']
  const set = [...tokens.filter(isSet), ...setFiles]
  const [name] = set
  if (name === undefined) return null
  const clashing = [...set, ...others.filter(isSet)]
  if (clashing.length > 1) {
    return err(`${clashing.join(' and ')} are ${clashing.length === 2 ? 'both' : 'all'} set: give one of them`)
  }
  const use = useOf(name)
  if (setFiles.includes(name)) {
    const path = fileFlag ?? settings.path(name)
    return path === null ? err(null) : ok(fileEvidence(name, path, use, { fileFlag, log }))
  }
  const token = settings.token(name)
  if (token === null) return err(null)
  if (modeOfToken(token, use.jwsMode) === null) return err(`${name} holds ${NO_TOKEN}`)
  return ok(tokenEvidence({ token: staticToken(token), ...use, file: null }))
}

/** `name`: the variable or option that names the file, or the setting whose default it is. */
export function fileEvidence(name: string, path: string, use: TokenUse, { log }: Given): EvidenceSource {
  const missing = (kind: TokenFault['kind']): string =>
    kind === 'foreign' ? `${name}: the file ${path} holds ${NO_TOKEN}` : use.missing(path, kind)
  return tokenEvidence({ token: fileToken(path, log), ...use, file: { path, missing } })
}

/** For a minted token. */
export const missingToken =
  (mode: ConfigurableMode): TokenUse['missing'] =>
  (path, kind) =>
    `RUNNER_ATTESTATION_MODE=${mode}: ${kind === 'empty' ? `token at ${path} is empty` : `failed to read token at ${path}`}`

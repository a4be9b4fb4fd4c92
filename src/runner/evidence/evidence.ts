// Gathers the evidence of an enrollment: which source the configuration names, and what it gives at each use.

import { everyCharacter, isLowerOrDigit } from '../../protocol/characters.ts'
import { isCompactJws } from '../../protocol/jws.ts'
import {
  CONFIGURABLE_MODES,
  type ConfigurableMode,
  isKubernetesMode,
  type KubernetesMode,
} from '../../protocol/modes.ts'
import { err, ok, type Result } from '../../protocol/result.ts'
import type { EpochMilliseconds } from '../../protocol/time.ts'
import type { Settings } from '../environment/settings.ts'
import type { Fields } from '../log.ts'
import { describeToken, fileToken, staticToken, type TokenSource } from './token.ts'

export type EvidenceSource =
  | { readonly mode: 'bootstrap-token' | 'runner-token'; readonly token: TokenSource; readonly path: string | null }
  | { readonly mode: KubernetesMode; readonly token: TokenSource; readonly path: string }
  /** No mode is named: what is in the file decides at each use, since it may come late. */
  | { readonly mode: null; readonly token: TokenSource; readonly path: string }
  | { readonly mode: 'aws-sts'; readonly region: string }

/** What the environment says; `mistake` is one that only an enrollment minds, null where it is among the mistakes. */
export type EvidenceConfig =
  | { readonly mode: ConfigurableMode; readonly source: EvidenceSource }
  | { readonly mode: null; readonly source: Extract<EvidenceSource, { mode: null }> }
  | { readonly mode: ConfigurableMode; readonly source: null; readonly mistake: string | null }

const TOKEN_FILES: Readonly<Record<KubernetesMode, string>> = {
  'gke-oidc': '/var/run/secrets/tokens/gke-oidc/token',
  'eks-oidc': '/var/run/secrets/tokens/eks-oidc/token',
  kubernetes: '/var/run/secrets/muster/runner/token',
}
const PATH_VARIABLES = { 'gke-oidc': 'RUNNER_GKE_TOKEN_PATH', 'eks-oidc': 'RUNNER_EKS_TOKEN_PATH' } as const

/** Names of each variable that gives a token, first the one that the messages name. */
const TOKEN = ['RUNNER_TOKEN', 'COMPASS_RUNNER_TOKEN']
const TOKEN_FILE = ['RUNNER_TOKEN_FILE', 'COMPASS_RUNNER_TOKEN_FILE']

export function readEvidenceConfig(settings: Settings, tokenFileFlag: string | null): EvidenceConfig {
  const named = settings.choice('RUNNER_ATTESTATION_MODE', CONFIGURABLE_MODES)
  const token = oneOf(settings, TOKEN, (name) => settings.token(name))
  const file = tokenFileFlag ?? oneOf(settings, TOKEN_FILE, (name) => settings.text(name))
  const given = [
    ...TOKEN.filter((name) => settings.has(name)),
    ...(tokenFileFlag === null ? TOKEN_FILE.filter((name) => settings.has(name)) : ['--token-file']),
  ]
  if (token !== null && file !== null) settings.mistakes.push(`${given.join(' and ')} are both set: give one of them`)
  if (named === null && file !== null) return { mode: null, source: { mode: null, token: fileToken(file), path: file } }
  const mode = named ?? (token !== null ? 'runner-token' : 'bootstrap-token')
  /** What is set and wrong, or set in place of the mode, is a mistake already. */
  const missing = (mode: ConfigurableMode, what: string, names: readonly string[]) => {
    const known = [...(named === null ? ['RUNNER_ATTESTATION_MODE', ...TOKEN, ...TOKEN_FILE] : []), ...names]
    const mistake = known.some((name) => settings.has(name)) ? null : `RUNNER_ATTESTATION_MODE=${mode} requires ${what}`
    return { mode, source: null, mistake }
  }
  switch (mode) {
    case 'bootstrap-token': {
      const token = settings.token('RUNNER_BOOTSTRAP_TOKEN')
      return token === null
        ? missing(mode, 'RUNNER_BOOTSTRAP_TOKEN', ['RUNNER_BOOTSTRAP_TOKEN'])
        : { mode, source: { mode, token: staticToken(token), path: null } }
    }
    case 'runner-token':
      if (file !== null) return { mode, source: { mode, token: fileToken(file), path: file } }
      return token === null
        ? missing(mode, 'RUNNER_TOKEN or RUNNER_TOKEN_FILE', [...TOKEN, ...TOKEN_FILE])
        : { mode, source: { mode, token: staticToken(token), path: null } }
    case 'aws-sts': {
      const rule = 'must be the name of a region, such as us-east-1'
      const region = settings.word('AWS_REGION', 40, (text) => everyCharacter(text, isRegionCharacter), rule)
      return region === null ? missing(mode, 'AWS_REGION', ['AWS_REGION']) : { mode, source: { mode, region } }
    }
    case 'gke-oidc':
    case 'eks-oidc': {
      const path = tokenFileFlag ?? settings.text(PATH_VARIABLES[mode]) ?? TOKEN_FILES[mode]
      return { mode, source: { mode, token: fileToken(path), path } }
    }
    case 'kubernetes': {
      const path = file ?? TOKEN_FILES[mode]
      return { mode, source: { mode, token: fileToken(path), path } }
    }
  }
}

const isRegionCharacter = (c: string): boolean => isLowerOrDigit(c) || c === '-'

function oneOf(settings: Settings, names: readonly string[], read: (name: string) => string | null): string | null {
  const values = names.filter((name) => settings.has(name))
  if (values.length > 1) settings.mistakes.push(`${values.join(' and ')} are both set: give one of them`)
  return values[0] === undefined ? null : read(values[0])
}

const modeOfToken = (token: string) => (isCompactJws(token) ? 'kubernetes' : 'runner-token')

/** Whether it is a cluster that vouches, as far as is known at `now`: a file that is not there yet it will project. */
export function standsOnCluster(evidence: EvidenceConfig, now: EpochMilliseconds): boolean {
  if (evidence.mode !== null) return isKubernetesMode(evidence.mode)
  const reading = evidence.source.token(now)
  return !reading.ok || modeOfToken(reading.value) === 'kubernetes'
}

/** What is wrong with the token file right now, as its message; null where there is nothing to wait for. */
export function tokenFileMistake(source: EvidenceSource, now: EpochMilliseconds): string | null {
  if (source.mode === 'aws-sts' || source.path === null) return null
  const reading = source.token(now)
  if (reading.ok) return null
  const { kind } = reading.error
  const setting = `RUNNER_ATTESTATION_MODE=${source.mode ?? 'kubernetes'}`
  if (source.mode === 'gke-oidc' && kind === 'absent') {
    return `${setting}: failed to read projected KSA token at ${source.path} (is the Workload Identity token volume mounted?)`
  }
  if (source.mode === 'runner-token' || source.mode === 'bootstrap-token') {
    return `${setting}: ${kind === 'empty' ? `token at ${source.path} is empty` : `failed to read token at ${source.path}`}`
  }
  return kind === 'empty'
    ? `${setting}: projected token at ${source.path} is empty`
    : `${setting}: failed to read projected token at ${source.path} (is the token volume mounted?)`
}

export interface Evidence {
  /** The `attestation` object of a request. */
  readonly attestation: Readonly<Record<string, unknown>>
  /** What may be logged of it where it is refused. */
  readonly described: Fields
}

/** The evidence for one attempt; `nonce` is the one of the request's key. The error says why there is none now. */
export async function gatherEvidence(
  source: EvidenceSource,
  nonce: string,
  now: EpochMilliseconds,
): Promise<Result<Evidence, string>> {
  if (source.mode === 'aws-sts') return signAwsRequest(source.region, nonce, now)
  const reading = source.token(now)
  if (!reading.ok) return err(tokenFileMistake(source, now) ?? reading.error.cause)
  const token = reading.value
  const mode = source.mode ?? modeOfToken(token)
  return ok({ attestation: { mode, token }, described: isKubernetesMode(mode) ? describeToken(token) : {} })
}

async function signAwsRequest(
  region: string,
  nonce: string,
  now: EpochMilliseconds,
): Promise<Result<Evidence, string>> {
  // Loaded on use: the AWS SDK is most of the memory of a runner that has it.
  const { AwsEvidenceError, gatherAwsEvidence } = await import('./aws.ts')
  try {
    return ok({ attestation: { ...(await gatherAwsEvidence({ region, nonce, now })) }, described: { region } })
  } catch (error) {
    if (error instanceof AwsEvidenceError) return err(error.message)
    throw error
  }
}

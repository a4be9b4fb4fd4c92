// Lists every mode that a runner may be configured with (the compiler demands a line for each), and reads which one the
// environment names, or else which token it gives.

import { CONFIGURABLE_MODES, type ConfigurableMode } from '../../protocol/modes.ts'
import { err, type Result } from '../../protocol/result.ts'
import type { Guarded } from '../environment/mounts.ts'
import type { Settings } from '../environment/settings.ts'
import { AWS_FILE_VARIABLES } from './aws-files.ts'
import { awsSts } from './aws-sts.ts'
import { BOOTSTRAP_USE, bootstrapToken } from './bootstrap-token.ts'
import { type EvidenceMode, type EvidenceSource, type Given, MODE_VARIABLE, requires } from './evidence.ts'
import { BOOTSTRAP_VARIABLES, RUNNER_VARIABLES, readGivenToken } from './given-token.ts'
import { eksOidc, gkeOidc, kubernetes, PATH_VARIABLES, projectedUse } from './kubernetes.ts'
import { runnerToken } from './runner-token.ts'

const EVIDENCE_MODES: Readonly<Record<ConfigurableMode, EvidenceMode>> = {
  'bootstrap-token': bootstrapToken,
  'runner-token': runnerToken,
  'aws-sts': awsSts,
  'gke-oidc': gkeOidc,
  'eks-oidc': eksOidc,
  kubernetes,
}

/** Every variable that is about evidence. */
export const EVIDENCE_VARIABLES: readonly string[] = [
  ...new Set([MODE_VARIABLE, ...Object.values(EVIDENCE_MODES).flatMap(({ variables }) => variables)]),
]

/** The lines of the help about them. */
export const EVIDENCE_HELP = Object.values(EVIDENCE_MODES)
  .map(({ help }) => help)
  .join('')

/** What no job may see: the files of the source, and every file that a variable names for another mode. */
export function guardedEvidence(settings: Settings, evidence: EvidenceConfig): Guarded[] {
  const names = [...EVIDENCE_VARIABLES.filter((name) => /_(FILE|PATH)$/.test(name)), ...AWS_FILE_VARIABLES]
  return [
    ...(evidence.ok ? evidence.value.guarded : []),
    ...names.flatMap((name) => {
      const path = settings.raw(name)?.trim()
      return path === undefined ? [] : [{ what: `the file of ${name}`, path }]
    }),
  ]
}

/** The error is a mistake if the runner must enroll; null where it is among the mistakes already. */
export type EvidenceConfig = Result<EvidenceSource, string | null>

/** With a mode named, only its variables are read: what else stands in the environment may be another product's. */
export function readEvidenceConfig(settings: Settings, given: Given): EvidenceConfig {
  if (!settings.has(MODE_VARIABLE)) return readWithoutMode(settings, given)
  const named = settings.choice(MODE_VARIABLE, CONFIGURABLE_MODES)
  return named === null ? err(null) : EVIDENCE_MODES[named].read(settings, given)
}

/** The one token that is given decides, and two are a mistake. */
function readWithoutMode(settings: Settings, given: Given): EvidenceConfig {
  const [bootstrap, runner] = [BOOTSTRAP_VARIABLES, RUNNER_VARIABLES]
  const all = { tokens: [...bootstrap.tokens, ...runner.tokens], files: [...bootstrap.files, ...runner.files] }
  const isBootstrap = (name: string): boolean => [...bootstrap.tokens, ...bootstrap.files].includes(name)
  const useOf = (name: string) => (isBootstrap(name) ? BOOTSTRAP_USE : projectedUse('kubernetes'))
  return (
    readGivenToken(settings, all, given, useOf, PATH_VARIABLES) ??
    err(requires('bootstrap-token', 'RUNNER_BOOTSTRAP_TOKEN'))
  )
}

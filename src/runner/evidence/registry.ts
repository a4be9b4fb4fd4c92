// Lists every mode that a runner may be configured with (the compiler demands a line for each), and reads which one the
// environment names.

import { CONFIGURABLE_MODES, type ConfigurableMode } from '../../protocol/modes.ts'
import { err, ok, type Result } from '../../protocol/result.ts'
import type { Settings } from '../environment/settings.ts'
import { awsSts } from './aws-sts.ts'
import { bootstrapToken } from './bootstrap-token.ts'
import type { EvidenceMode, EvidenceSource } from './evidence.ts'
import { eksOidc, gkeOidc, kubernetes, tokenOfEitherKind } from './kubernetes.ts'
import { runnerToken } from './runner-token.ts'
import { TOKEN_FILE_VARIABLES, TOKEN_VARIABLES } from './token.ts'

const EVIDENCE_MODES: Readonly<Record<ConfigurableMode, EvidenceMode>> = {
  'bootstrap-token': bootstrapToken,
  'runner-token': runnerToken,
  'aws-sts': awsSts,
  'gke-oidc': gkeOidc,
  'eks-oidc': eksOidc,
  kubernetes,
}

const MODE_VARIABLE = 'RUNNER_ATTESTATION_MODE'

/** Every variable that is about evidence. */
export const EVIDENCE_VARIABLES: readonly string[] = [
  ...new Set([MODE_VARIABLE, ...Object.values(EVIDENCE_MODES).flatMap(({ variables }) => variables)]),
]

/** The lines of the help about them. */
export const EVIDENCE_HELP = Object.values(EVIDENCE_MODES)
  .map(({ help }) => help)
  .join('')

/** The error is a mistake if the runner must enroll; null where it is among the mistakes already. */
export type EvidenceConfig = Result<EvidenceSource, string | null>

export function readEvidenceConfig(settings: Settings, fileFlag: string | null): EvidenceConfig {
  const named = settings.choice(MODE_VARIABLE, CONFIGURABLE_MODES)
  const token = oneOf(settings, TOKEN_VARIABLES, (name) => settings.token(name))
  const file = fileFlag ?? oneOf(settings, TOKEN_FILE_VARIABLES, (name) => settings.text(name))
  const given = [
    ...TOKEN_VARIABLES.filter((name) => settings.has(name)),
    ...(fileFlag === null ? TOKEN_FILE_VARIABLES.filter((name) => settings.has(name)) : ['--token-file']),
  ]
  if (token !== null && file !== null) settings.mistakes.push(`${given.join(' and ')} are both set: give one of them`)
  if (named === null && file !== null) return ok(tokenOfEitherKind(file))
  const mode = named ?? (token !== null ? 'runner-token' : 'bootstrap-token')
  const source = EVIDENCE_MODES[mode].read(settings, { token, file, fileFlag })
  if (source.ok) return source
  // What is set and wrong, or set in place of the mode, is a mistake already.
  const { variables } = EVIDENCE_MODES[mode]
  const known = named === null ? [MODE_VARIABLE, ...TOKEN_VARIABLES, ...TOKEN_FILE_VARIABLES, ...variables] : variables
  return err(known.some((name) => settings.has(name)) ? null : `${MODE_VARIABLE}=${mode} requires ${source.error}`)
}

function oneOf(settings: Settings, names: readonly string[], read: (name: string) => string | null): string | null {
  const values = names.filter((name) => settings.has(name))
  if (values.length > 1) settings.mistakes.push(`${values.join(' and ')} are both set: give one of them`)
  return values[0] === undefined ? null : read(values[0])
}

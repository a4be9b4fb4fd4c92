// Reads the evidence of `bootstrap-token`: the single-use token of a variable or of a file.

import { err } from '../../protocol/result.ts'
import { type EvidenceMode, requires } from './evidence.ts'
import { BOOTSTRAP_VARIABLES, missingToken, readGivenToken, type TokenUse } from './given-token.ts'

const MODE = 'bootstrap-token'

export const BOOTSTRAP_USE: TokenUse = { mode: MODE, jwsMode: 'kubernetes', missing: missingToken(MODE) }

export const bootstrapToken: EvidenceMode = {
  variables: [...BOOTSTRAP_VARIABLES.tokens, ...BOOTSTRAP_VARIABLES.files],
  help: `
  RUNNER_BOOTSTRAP_TOKEN, RUNNER_BOOTSTRAP_TOKEN_FILE
                             bootstrap-token: the single-use token, or its file`,
  read: (settings, given) =>
    readGivenToken(settings, BOOTSTRAP_VARIABLES, given, () => BOOTSTRAP_USE) ??
    err(requires(MODE, 'RUNNER_BOOTSTRAP_TOKEN')),
}

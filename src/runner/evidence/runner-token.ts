// Reads the evidence of `runner-token`: the minted token of a variable or of a file.

import { err } from '../../protocol/result.ts'
import { type EvidenceMode, requires } from './evidence.ts'
import { missingToken, RUNNER_VARIABLES, readGivenToken, type TokenUse } from './given-token.ts'

const MODE = 'runner-token'

const USE: TokenUse = { mode: MODE, jwsMode: 'kubernetes', missing: missingToken(MODE) }

export const runnerToken: EvidenceMode = {
  variables: [...RUNNER_VARIABLES.tokens, ...RUNNER_VARIABLES.files],
  help: `
  RUNNER_TOKEN, RUNNER_TOKEN_FILE
                             runner-token: the minted token, or its file; kubernetes: the file
                             (COMPASS_RUNNER_TOKEN and COMPASS_RUNNER_TOKEN_FILE are read too)`,
  read: (settings, given) =>
    readGivenToken(settings, RUNNER_VARIABLES, given, () => USE) ??
    err(requires(MODE, 'RUNNER_TOKEN or RUNNER_TOKEN_FILE')),
}

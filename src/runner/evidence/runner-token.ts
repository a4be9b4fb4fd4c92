// Reads the evidence of `runner-token`: the minted token of a variable or of a file.

import { err, ok } from '../../protocol/result.ts'
import type { EvidenceMode } from './evidence.ts'
import {
  fileToken,
  staticToken,
  TOKEN_FILE_VARIABLES,
  TOKEN_VARIABLES,
  type TokenParts,
  type TokenSource,
  tokenEvidence,
  undescribed,
} from './token.ts'

const MODE = 'runner-token'

const evidence = (token: TokenSource, file: TokenParts['file']) =>
  ok(tokenEvidence({ token, modeOf: () => MODE, describe: undescribed, file }))

export const runnerToken: EvidenceMode = {
  variables: [...TOKEN_VARIABLES, ...TOKEN_FILE_VARIABLES],
  help: `
  RUNNER_TOKEN, RUNNER_TOKEN_FILE
                             runner-token: the minted token, or its file; kubernetes: the file
                             (COMPASS_RUNNER_TOKEN and COMPASS_RUNNER_TOKEN_FILE are read too)`,
  read(_, { token, file }) {
    if (file !== null) {
      const missing = (kind: 'absent' | 'empty') =>
        `RUNNER_ATTESTATION_MODE=${MODE}: ${kind === 'empty' ? `token at ${file} is empty` : `failed to read token at ${file}`}`
      return evidence(fileToken(file), { path: file, missing })
    }
    return token === null ? err('RUNNER_TOKEN or RUNNER_TOKEN_FILE') : evidence(staticToken(token), null)
  },
}

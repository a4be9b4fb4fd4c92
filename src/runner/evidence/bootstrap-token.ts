// Reads the evidence of `bootstrap-token`: the single-use token of a variable.

import { err, ok } from '../../protocol/result.ts'
import type { EvidenceMode } from './evidence.ts'
import { staticToken, tokenEvidence, undescribed } from './token.ts'

export const bootstrapToken: EvidenceMode = {
  variables: ['RUNNER_BOOTSTRAP_TOKEN'],
  help: `
  RUNNER_BOOTSTRAP_TOKEN     bootstrap-token: the single-use token`,
  read(settings) {
    const token = settings.token('RUNNER_BOOTSTRAP_TOKEN')
    return token === null
      ? err('RUNNER_BOOTSTRAP_TOKEN')
      : ok(
          tokenEvidence({
            token: staticToken(token),
            modeOf: () => 'bootstrap-token',
            describe: undescribed,
            file: null,
          }),
        )
  },
}

// What a runner needs of a mode: its variables, its help, and the evidence for each attempt. One mode a file, listed
// in registry.ts.

import type { Network } from '../../node/http-client.ts'
import type { ConfigurableMode } from '../../protocol/modes.ts'
import type { Result } from '../../protocol/result.ts'
import type { EpochMilliseconds } from '../../protocol/time.ts'
import type { Settings } from '../environment/settings.ts'
import type { Fields } from '../log.ts'

export interface Evidence {
  /** The `attestation` object of a request. */
  readonly attestation: Readonly<Record<string, unknown>>
  /** What may be logged of it where it is refused. */
  readonly described: Fields
}

/** Where the evidence of one mode comes from. */
export interface EvidenceSource {
  /** The file that it stands on, whose folder no job may see; null where there is none. */
  readonly path: string | null
  /** What a request would be sent under, as far as is known at `now`. */
  readonly modeAt: (now: EpochMilliseconds) => ConfigurableMode
  /** What is wrong at `now` with the file, as its message; null where there is nothing to wait for. */
  readonly missingAt: (now: EpochMilliseconds) => string | null
  /**
   * For one attempt; `nonce` is the one of the request's key, `network` how to reach who vouches. The error says why
   * there is none now.
   */
  readonly gather: (nonce: string, now: EpochMilliseconds, network: Network) => Promise<Result<Evidence, string>>
}

/** What the environment gives beside or in place of a variable of the mode's own. */
export interface GivenToken {
  readonly token: string | null
  /** `--token-file`, or else its variable. */
  readonly file: string | null
  /** Of the two, the flag alone. */
  readonly fileFlag: string | null
}

export interface EvidenceMode {
  /** All that it reads, whatever else gives it a token. */
  readonly variables: readonly string[]
  /** Lines of the help about them. */
  readonly help: string
  /** Wrong variables are noted in `settings`. The error names what must be set and is not. */
  readonly read: (settings: Settings, given: GivenToken) => Result<EvidenceSource, string>
}

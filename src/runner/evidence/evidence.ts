// The interface of a mode in the runner: its variables, its help, and the evidence for each attempt. One mode a file,
// listed in registry.ts.

import type { Network } from '../../node/http-client.ts'
import type { ConfigurableMode } from '../../protocol/modes.ts'
import type { Result } from '../../protocol/result.ts'
import type { EpochMilliseconds } from '../../protocol/time.ts'
import type { Fields } from '../environment/log.ts'
import type { Settings } from '../environment/settings.ts'

export interface Evidence {
  /** The `attestation` object of a request. */
  readonly attestation: Readonly<Record<string, unknown>>
  /** What may be logged of it where it is refused. */
  readonly described: Fields
}

/** Where the evidence of one mode comes from. */
export interface EvidenceSource {
  /** The file that it is read from, whose folder no job may see; null where there is none. */
  readonly path: string | null
  /** The mode that a request at `now` would name. */
  readonly modeAt: (now: EpochMilliseconds) => ConfigurableMode
  /** What is wrong with the file at `now`, as a message; null where nothing is missing. */
  readonly missingAt: (now: EpochMilliseconds) => string | null
  /**
   * The evidence for one attempt; `nonce` is that of the request's key, `network` how a cloud's endpoints are reached.
   * The error says why there is none now.
   */
  readonly gather: (nonce: string, now: EpochMilliseconds, network: Network) => Promise<Result<Evidence, string>>
}

/** A token that the environment gives whatever the mode is. */
export interface GivenToken {
  readonly token: string | null
  /** `--token-file`, or else its variable. */
  readonly file: string | null
  /** Of the two, the flag alone. */
  readonly fileFlag: string | null
}

export interface EvidenceMode {
  /** All that it reads itself. */
  readonly variables: readonly string[]
  /** Their lines in the help. */
  readonly help: string
  /** Wrong variables are mistakes in `settings`. The error names what must be set and is not. */
  readonly read: (settings: Settings, given: GivenToken) => Result<EvidenceSource, string>
}

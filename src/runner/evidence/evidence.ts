// The interface of a mode in the runner: its variables, its help, and the evidence for each attempt. One mode a file,
// listed in registry.ts.

import type { Network } from '../../node/http-client.ts'
import type { ConfigurableMode } from '../../protocol/modes.ts'
import type { Result } from '../../protocol/result.ts'
import type { EpochMilliseconds } from '../../protocol/time.ts'
import type { Fields, Log } from '../environment/log.ts'
import type { Guarded } from '../environment/mounts.ts'
import type { Settings } from '../environment/settings.ts'

export interface Evidence {
  /** The `attestation` object of a request. */
  readonly attestation: Readonly<Record<string, unknown>>
  /** What may be logged of it where it is refused. */
  readonly described: Fields
}

/** Where the evidence of one mode comes from. */
export interface EvidenceSource {
  /** The files and folders that it is read from: no job may see one. */
  readonly guarded: readonly Guarded[]
  /** The mode that a request at `now` would name. */
  readonly modeAt: (now: EpochMilliseconds) => ConfigurableMode
  /** What is wrong with the file at `now`, as a message; null where nothing is missing. */
  readonly missingAt: (now: EpochMilliseconds) => string | null
  /**
   * The evidence for one attempt; `nonce` is that of the request's key, `now` the control plane's time as far as it is
   * known, `network` how a cloud's endpoints are reached. The error says why there is none now.
   */
  readonly gather: (nonce: string, now: EpochMilliseconds, network: Network) => Promise<Result<Evidence, string>>
}

/** What a mode may use beside the variables. */
export interface Given {
  /** `--token-file`. It wins over the variables that name a file. */
  readonly fileFlag: string | null
  readonly log: Log
}

export interface EvidenceMode {
  /** Every variable that the mode reads. */
  readonly variables: readonly string[]
  /** Their lines in the help. */
  readonly help: string
  /** The error is a mistake only if the runner must enroll. Null: `settings` has the mistake already. */
  readonly read: (settings: Settings, given: Given) => Result<EvidenceSource, string | null>
}

export const MODE_VARIABLE = 'RUNNER_ATTESTATION_MODE'

/** The mistake where a mode lacks a variable that it needs. */
export const requires = (mode: ConfigurableMode, variables: string): string =>
  `${MODE_VARIABLE}=${mode} requires ${variables}`

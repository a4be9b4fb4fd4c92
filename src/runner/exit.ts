// How a runner ends: its exit codes (sysexits.h) and the messages that explain them.

export const EXIT = {
  /** Told to: SIGTERM, SIGINT, `stop()`, or an operator's drain. */
  stopped: 0,
  /** EX_SOFTWARE: the control plane does not understand what this runner sends. */
  protocol: 70,
  /** EX_TEMPFAIL: the identity is gone and a fresh start may get another. */
  lost: 75,
  /** EX_NOPERM: the credential was refused, or the identity is banned. A restart changes nothing. */
  refused: 77,
  /** EX_CONFIG: somebody has to correct the configuration. A restart changes nothing. */
  config: 78,
} as const

export type ExitCode = (typeof EXIT)[keyof typeof EXIT]

/** An end, and what to log of it at level error, a line each. */
export interface Ending {
  readonly exitCode: ExitCode
  readonly messages: readonly string[]
}

export const ending = (exitCode: ExitCode, ...messages: string[]): Ending => ({ exitCode, messages })

export const EXPIRED = 'identity expired beyond the renewal grace window — runner needs re-enrollment'
export const NOT_PERSISTED = 'could not persist identity — next boot will re-enroll from scratch'
export const FOREIGN = 'persisted identity was written for another identity dir — ignoring'

// The exit codes of a runner (sysexits.h), and the exit with its messages.

export const EXIT = {
  /** It was asked to stop: SIGTERM, SIGINT, `stop()`, or an operator's drain. */
  stopped: 0,
  /** EX_SOFTWARE: the control plane does not understand what this runner sends. */
  protocol: 70,
  /** EX_TEMPFAIL: the identity is gone and a fresh start may get another. */
  lost: 75,
  /** EX_NOPERM: the token was refused, or the identity is banned. A restart changes nothing. */
  refused: 77,
  /** EX_CONFIG: somebody has to correct the configuration. A restart changes nothing. */
  config: 78,
} as const

export type ExitCode = (typeof EXIT)[keyof typeof EXIT]

export interface Exit {
  readonly exitCode: ExitCode
  /** What to log of it at level error, a line each. */
  readonly messages: readonly string[]
}

export const exitWith = (exitCode: ExitCode, ...messages: string[]): Exit => ({ exitCode, messages })

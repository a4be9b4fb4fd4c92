// `muster/runner`: a runner as a library. Starts and stops it, and gives its current identity to the service around it.

import { EventEmitter } from 'node:events'
import { createSecureContext, type SecureContext } from 'node:tls'
import { rfc3339 } from '../protocol/time.ts'
import { Agent } from './agent.ts'
import type { Flags } from './environment/arguments.ts'
import { systemClocks } from './environment/clock.ts'
import { EXIT, type Exit, type ExitCode } from './environment/exit.ts'
import type { Identity } from './identity/identity.ts'
import { keyPem } from './identity/keys.ts'

/** The arguments of `muster runner`, its environment and its log. */
export interface RunnerOptions extends Flags {
  /** The variables of `muster runner`; default: those of this process. */
  readonly env?: Readonly<Record<string, string | undefined>>
  /** Takes each log line, JSON with a line end; default: nothing is logged. */
  readonly log?: (line: string) => void
}

/** Who this runner is; certificates and key are PEM, times RFC 3339. */
export interface RunnerIdentity {
  readonly runnerId: string | null
  readonly tenant: string
  readonly spiffeId: string
  readonly enrollmentId: string
  readonly certificate: string
  readonly chain: string
  readonly trustBundle: string
  readonly privateKey: string
  readonly notBefore: string
  readonly notAfter: string
}

/** The runner ended for a reason of its own: what `muster runner` would have logged and exited with. */
export class RunnerError extends Error {
  override readonly name = 'RunnerError'
  readonly exitCode: ExitCode

  constructor({ exitCode, messages }: Exit) {
    super(messages.join('; ') || 'the runner was stopped')
    this.exitCode = exitCode
  }
}

export interface RunnerEvents {
  /** The tunnel is open and the certificate lives; again after each interruption. */
  ready: []
  /** Another certificate is in use: renewed, enrolled anew, or replaced by an operator. */
  renewed: [RunnerIdentity]
  /** Past `ready`: the runner ended and serves no more. */
  lost: [RunnerError]
}

export class Runner extends EventEmitter<RunnerEvents> {
  readonly #agent: Agent
  #done: Promise<Exit> | null = null
  #context: { readonly identity: Identity; readonly context: SecureContext } | null = null

  constructor({ env = process.env, log, ...flags }: RunnerOptions = {}) {
    super()
    const system = { env: { ...env }, clocks: systemClocks, random: Math.random, write: log ?? (() => {}) }
    this.#agent = new Agent(system, flags, {
      onIdentity: (identity, how) => how === 'renewed' && this.emit('renewed', describe(identity)),
      onReady: () => this.emit('ready'),
    })
  }

  /** Resolves when the runner is ready for the first time; rejects with a `RunnerError` where it ends before. */
  start(): Promise<void> {
    if (this.#done !== null) throw new Error('a Runner starts once')
    const done = this.#agent.run()
    this.#done = done
    let ready = false
    return new Promise((resolve, reject) => {
      this.once('ready', () => {
        ready = true
        resolve()
      })
      done.then((exit) => {
        if (!ready) reject(new RunnerError(exit))
        else if (exit.exitCode !== EXIT.stopped) this.emit('lost', new RunnerError(exit))
      }, reject)
    })
  }

  /** Closes the tunnel and resolves within five seconds, with the answer of an attempt under way kept. */
  async stop(): Promise<void> {
    this.#agent.stop()
    await this.#done
  }

  /** Resolves with the exit code of the run that `start` began. */
  async ended(): Promise<ExitCode> {
    if (this.#done === null) throw new Error('the runner was not started')
    return (await this.#done).exitCode
  }

  /** Null while there is no certificate that lives. */
  get identity(): RunnerIdentity | null {
    const { identity } = this.#agent
    return identity === null ? null : describe(identity)
  }

  /** The files of `RUNNER_SECRETS_DIR/<tenant>`, by name. */
  get secrets(): ReadonlyMap<string, Uint8Array> {
    return this.#agent.secrets
  }

  /**
   * For the service's own mTLS, as server or client: shows the current certificate and trusts its bundle. Ask anew for
   * each connection (`SNICallback: (_, cb) => cb(null, runner.secureContext)`), so that it follows the renewals.
   */
  get secureContext(): SecureContext {
    const { identity } = this.#agent
    if (identity === null) throw new Error('there is no live certificate')
    if (this.#context?.identity !== identity) {
      const { certificate, chain, trustBundle, key } = identity
      const ca = trustBundle === '' ? {} : { ca: trustBundle }
      this.#context = { identity, context: createSecureContext({ cert: certificate + chain, key: keyPem(key), ...ca }) }
    }
    return this.#context.context
  }
}

function describe(identity: Identity): RunnerIdentity {
  const { runnerId, tenant, spiffeId, enrollmentId, certificate, chain, trustBundle, key } = identity
  const times = { notBefore: rfc3339(identity.notBefore), notAfter: rfc3339(identity.notAfter) }
  return {
    ...{ runnerId, tenant, spiffeId, enrollmentId, certificate, chain, trustBundle },
    privateKey: keyPem(key),
    ...times,
  }
}

// Puts together what keeps an identity alive: the rotator, its policy, and the watch of a provisioned certificate.

import type { Network } from '../../node/http-client.ts'
import { MODES, THREE_TRIES } from '../../protocol/modes.ts'
import type { Clock } from '../../protocol/time.ts'
import type { Clocks } from '../environment/clock.ts'
import { EXIT, type Exit, exitWith } from '../environment/exit.ts'
import type { Log } from '../environment/log.ts'
import { ServerClock } from '../environment/server-clock.ts'
import type { EvidenceConfig } from '../evidence/registry.ts'
import { type DeclaredIdentity, type Identity, mismatchOf } from '../identity/identity.ts'
import type { IdentityStore } from '../identity/store.ts'
import type { Post } from '../net/http.ts'
import type { BootConfig, BootIdentity } from './boot.ts'
import { enrollClient } from './enroll-client.ts'
import type { Policy } from './lifecycle.ts'
import { ProvisionedWatch } from './provisioned-watch.ts'
import { Rotator } from './rotator.ts'

export interface RenewalConfig extends BootConfig, DeclaredIdentity {
  readonly enrollUrl: URL | null
  readonly evidence: EvidenceConfig
  readonly network: Network
  readonly instanceId: string
}

export interface RenewalParts {
  readonly clocks: Clocks
  /** In [0, 1). */
  readonly random: () => number
  readonly log: Log
  readonly post: Post
  readonly store: IdentityStore | null
  /** An identity may be used from now on. `kept`: it was there at boot; `renewed`: it replaces another one. */
  readonly onIdentity: (identity: Identity, how: 'enrolled' | 'renewed' | 'kept') => void
}

const ISSUE_ANOTHER = 'a provisioned certificate that cannot be renewed must be issued anew'

export class Renewal {
  readonly #rotator: Rotator
  readonly #watch: ProvisionedWatch | null
  readonly #provisioned: boolean
  #ended: Promise<Exit> | null = null

  constructor(config: RenewalConfig, parts: RenewalParts, found: BootIdentity) {
    const { enrollUrl, evidence, instanceId, network, provisioned, renews } = config
    const { clocks, log, post } = parts
    const serverClock = new ServerClock(clocks)
    if (!renews && provisioned === null) {
      log('warn', 'RUNNER_CERT_RENEWAL=off: this runner ends when its certificate does')
    }
    const client = enrollUrl === null ? null : enrollClient(enrollUrl, network, post, serverClock, instanceId)
    const mismatch = (identity: Identity) => mismatchOf(config, identity)
    const rotator = new Rotator(
      { ...parts, policy: policyOf(config, serverClock.now), evidence, client, mismatch },
      found,
    )
    this.#rotator = rotator
    this.#provisioned = provisioned !== null
    this.#watch =
      provisioned === null
        ? null
        : new ProvisionedWatch({ source: provisioned, declared: config, renews, rotator, clocks, log })
  }

  /** The identity, while its certificate lives. */
  get live(): Identity | null {
    return this.#rotator.live
  }

  /** The same, after a look at the files of a provisioned certificate. */
  refreshed(): Identity | null {
    this.#watch?.refresh()
    return this.live
  }

  /** Renews at once: the control plane no longer accepts the certificate. */
  renewNow(): void {
    this.#rotator.renewNow()
  }

  /** Resolves when the identity is lost for good, or after `stop`. */
  keepAlive(): Promise<Exit> {
    const ended = this.#rotator
      .run()
      .then((exit) =>
        this.#provisioned && exit.exitCode === EXIT.lost
          ? exitWith(exit.exitCode, ...exit.messages, ISSUE_ANOTHER)
          : exit,
      )
    this.#ended = ended
    void this.#watch?.run()
    return ended
  }

  /** Resolves when `keepAlive` has ended; the answer of an attempt under way is waited for and kept. */
  async stop(): Promise<void> {
    this.#watch?.stop()
    this.#rotator.stop()
    await this.#ended?.catch(() => {})
  }
}

/** The mode is asked for each time: a token file without a named mode may hold another kind of token by then. */
function policyOf({ evidence, provisioned, renews }: RenewalConfig, clock: Clock): Policy {
  const mode = () => (evidence.ok ? evidence.value.modeAt(clock()) : null)
  const atBoot = mode()
  return {
    renews,
    enrollsAgain: provisioned === null && atBoot !== null && MODES[atBoot].reusable,
    waitsForOperator: provisioned !== null && !renews,
    get patience() {
      const current = provisioned === null ? mode() : null
      return current === null ? THREE_TRIES : MODES[current].patience
    },
  }
}

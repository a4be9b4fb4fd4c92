// What a runner already has when it boots: a provisioned certificate, or the identity that it persisted.

import { type EpochMilliseconds, milliseconds, rfc3339, toEpochMilliseconds } from '../../protocol/time.ts'
import type { Config } from '../config.ts'
import type { Identity } from '../identity/identity.ts'
import type { IdentityDir } from '../identity/identity-dir.ts'
import { readProvisionedIdentity } from '../identity/provisioned.ts'
import type { Log } from '../log.ts'
import type { Time } from './clock.ts'
import { hold, holdFromDisk, WINDOW } from './lifecycle.ts'
import type { Possession } from './rotator.ts'

export interface Possessed {
  readonly possession: Possession | null
}

interface Chance {
  readonly time: Time
  readonly random: () => number
}

/** Whatever cannot be used is logged and left; only a provisioned certificate that cannot be read is a mistake. */
export function possess(
  config: Config,
  store: IdentityDir | null,
  log: Log,
  { time, random }: Chance,
): Possessed | { readonly faults: readonly string[] } {
  const now = time.now()
  if (config.provisioned !== null) {
    const read = readProvisionedIdentity(config.provisioned, config.network.extraRoots())
    if ('faults' in read) return read
    const { identity } = read
    tellProvisioned(log, identity)
    const { overridden } = config
    if (overridden.length > 0) log('warn', 'the provisioned cert overrides what else is set', { overridden })
    return { possession: { identity, held: hold(lifeOf(identity, now.wall), now, random()) } }
  }
  const identity = loadPersisted(store, config.renews, log, now.wall)
  if (identity === null) return { possession: null }
  const life = lifeOf(identity, now.wall)
  const held = config.renews ? holdFromDisk(life, now) : { ...hold(life, now, random()), fromDisk: true }
  return { possession: { identity, held } }
}

export const tellProvisioned = (log: Log, { spiffeId, notAfter }: Identity): void =>
  log('info', 'using provisioned cert', { spiffeId, notAfter: rfc3339(notAfter) })

/** By this machine's clock, since nobody else was asked yet. */
export const lifeOf = (identity: Identity, now: EpochMilliseconds) =>
  milliseconds(toEpochMilliseconds(identity.notAfter) - now)

function loadPersisted(store: IdentityDir | null, renews: boolean, log: Log, now: EpochMilliseconds): Identity | null {
  const persisted = store?.load() ?? null
  if (store === null || persisted === null) return null
  if ('identity' in persisted) {
    const usable = lifeOf(persisted.identity, now) + (renews ? WINDOW : 0)
    if (usable >= 0) {
      if (persisted.wasOpen) log('warn', 'persisted identity was open to other users than its owner')
      return persisted.identity
    }
  }
  const expired = 'persisted identity expired beyond the renewal grace window — enrolling'
  log('warn', 'ignored' in persisted ? persisted.ignored : expired)
  try {
    store.setAside()
  } catch {
    // It stays and is ignored again, or replaced by the next identity.
  }
  return null
}

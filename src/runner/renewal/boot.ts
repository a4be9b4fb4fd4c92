// Loads the identity that a runner has when it boots, provisioned or persisted; without one, waits for the evidence of
// an enrollment.

import { messageOf } from '../../node/errors.ts'
import { err, ok, type Result } from '../../protocol/result.ts'
import { type EpochMilliseconds, milliseconds, rfc3339, toEpochMilliseconds } from '../../protocol/time.ts'
import type { ClockReading, Clocks } from '../environment/clock.ts'
import type { Log } from '../environment/log.ts'
import type { EvidenceConfig } from '../evidence/registry.ts'
import type { Identity } from '../identity/identity.ts'
import { type ProvisionedSource, readProvisionedIdentity } from '../identity/provisioned.ts'
import { IdentityStore, NOT_PERSISTED } from '../identity/store.ts'
import { type Lifetime, lifetimeFrom, persistedLifetime, RENEWAL_WINDOW } from './lifecycle.ts'

export interface CurrentIdentity {
  readonly identity: Identity
  readonly lifetime: Lifetime
}

/** What a runner has when it boots. */
export interface BootIdentity {
  readonly current: CurrentIdentity | null
  /** On disk, and past its window by this machine's clock: the control plane's may tell otherwise. */
  readonly expired: Identity | null
}

/** The folder may be read-only: its identity is used, and later ones are written once that is possible. */
export function openStore(identityDir: string | null, log: Log): IdentityStore | null {
  if (identityDir === null) return null
  const store = new IdentityStore(identityDir)
  const { openToOthers, unwritable } = store
  if (unwritable !== null) log('warn', NOT_PERSISTED, { cause: messageOf(unwritable) })
  if (openToOthers !== null) log('warn', `others may replace the files in ${identityDir}: ${openToOthers}`)
  return store
}

/** How the identity is configured. */
export interface BootConfig {
  readonly provisioned: ProvisionedSource | null
  readonly renews: boolean
  /** Variables that are set and have no effect beside a provisioned certificate. */
  readonly overridden: readonly string[]
}

/**
 * Whatever cannot be used is logged and left; only a provisioned certificate that cannot be read is a mistake, or
 * several. `random` is in [0, 1).
 */
export function identityAtBoot(
  { provisioned, renews, overridden }: BootConfig,
  store: IdentityStore | null,
  log: Log,
  now: ClockReading,
  random: number,
): Result<BootIdentity, readonly string[]> {
  if (provisioned !== null) {
    const read = readProvisionedIdentity(provisioned)
    if (!read.ok) return err(read.error)
    const identity = read.value
    logProvisioned(log, identity)
    if (overridden.length > 0) log('warn', 'the provisioned cert overrides what else is set', { overridden })
    return ok({ current: { identity, lifetime: provisionedLifetime(identity, now, random) }, expired: null })
  }
  const identity = loadPersisted(store, log)
  if (identity === null) return ok({ current: null, expired: null })
  const length = remainingLife(identity, now.wall)
  if (length + (renews ? RENEWAL_WINDOW : 0) < 0) {
    // It stays until another is written: this clock may be wrong, and the control plane's or a later boot's knows better.
    log('warn', 'persisted identity expired beyond the renewal grace window — enrolling')
    return ok({ current: null, expired: renews ? identity : null })
  }
  const lifetime = renews ? persistedLifetime(now, length) : { ...lifetimeFrom(now, length, random), fromDisk: true }
  return ok({ current: { identity, lifetime }, expired: null })
}

/** One that seems to be over counts from now: this machine's clock may be wrong, and the control plane decides. */
export const provisionedLifetime = (identity: Identity, now: ClockReading, random: number): Lifetime =>
  lifetimeFrom(now, milliseconds(Math.max(0, remainingLife(identity, now.wall))), random)

export const logProvisioned = (log: Log, { spiffeId, notAfter }: Identity): void =>
  log('info', 'using provisioned cert', { spiffeId, notAfter: rfc3339(notAfter) })

/** By this machine's clock: no other is known yet. */
const remainingLife = (identity: Identity, now: EpochMilliseconds) =>
  milliseconds(toEpochMilliseconds(identity.notAfter) - now)

function loadPersisted(store: IdentityStore | null, log: Log): Identity | null {
  const persisted = store?.load() ?? ok(null)
  if (store === null || (persisted.ok && persisted.value === null)) return null
  if (persisted.ok && persisted.value !== null) {
    const { identity, wasOpen } = persisted.value
    if (wasOpen) log('warn', 'persisted identity was open to other users than its owner')
    return identity
  }
  if (!persisted.ok) log('warn', persisted.error)
  try {
    store.setAside()
  } catch {
    // It stays and is ignored again, or replaced by the next identity.
  }
  return null
}

/** How long a token file that is missing or empty at boot is waited for, and how often it is looked for. */
const TOKEN_FILE_GRACE = milliseconds(10_000)
const TOKEN_FILE_RETRY = milliseconds(250)

/** What an enrollment lacks, or null. `patient`: waits for a token file, which a container may get after its start. */
export async function waitForEvidence(
  evidence: EvidenceConfig,
  clocks: Clocks,
  patient: boolean,
  stop: AbortSignal,
): Promise<string | null> {
  if (!evidence.ok) return evidence.error
  for (let waited = 0; ; waited += TOKEN_FILE_RETRY) {
    const mistake = evidence.value.missingAt(clocks.now().wall)
    if (mistake === null || stop.aborted || !patient || waited >= TOKEN_FILE_GRACE) return mistake
    await clocks.sleep(TOKEN_FILE_RETRY, stop)
  }
}

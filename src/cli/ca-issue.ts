// `muster ca issue`: issues the provisioned certificate of a machine that cannot enroll, from the operator's CA folder.

import { join } from 'node:path'
import { sha256Hex } from '../protocol/bytes.ts'
import { quote } from '../protocol/characters.ts'
import type { Leaf } from '../protocol/leaf.ts'
import { PROVISIONED_LIFETIME_MAX } from '../protocol/limits.ts'
import { PROVISIONED_FILES } from '../protocol/paths.ts'
import { encodePem } from '../protocol/pem.ts'
import { minutes, rfc3339, type Seconds, systemClock, toEpochSeconds } from '../protocol/time.ts'
import { uuidv7 } from '../protocol/uuid.ts'
import { parseDuration } from '../trust/duration.ts'
import { shardOf } from '../trust/shards.ts'
import { loadFolder, refuseTaken, writeNew } from './ca/folder.ts'
import { requireCheckout } from './edge/project.ts'
import { CommandError, print, type SharedOptions } from './operator/command.ts'
import { makeFolder } from './operator/files.ts'
import { stateName } from './store/state-name.ts'

export interface IssueOptions extends SharedOptions {
  readonly dir: string
  readonly out: string
  readonly tenant: string
  readonly ttl: string
}

export async function issue(options: IssueOptions): Promise<void> {
  requireCheckout('a command on the database')
  const { tenant, dir, out } = options
  const lifetime = readLifetime(options.ttl)
  const { readTrust, requireTenant } = await import('./operator/trust-file.ts')
  const trust = await readTrust(options.trust)
  requireTenant(trust, tenant, options.trust)
  refuseTaken(out, Object.values(PROVISIONED_FILES))
  const authority = await loadFolder(dir)
  // Before anything is recorded.
  makeFolder(out)
  const now = toEpochSeconds(systemClock())
  const { newLeafContent } = await import('../worker/ca/profile.ts')
  const { createRunnerKey } = await import('./ca/create.ts')
  const { key, spki } = await createRunnerKey()
  const publicKeyHash = await sha256Hex(spki)
  const { trustDomain } = trust
  const content = newLeafContent(authority, now, lifetime, { trustDomain, tenant, publicKeyHash })
  if (!content.ok) throw new CommandError(`${dir}: ${content.error.detail}`)
  const leaf: Leaf = {
    enrollmentId: uuidv7(systemClock()),
    mode: 'provisioned',
    source: '',
    tenant,
    ...content.value,
  }

  // The record comes before the signature, as in an enrollment.
  const { withDatabases } = await import('./store/database.ts')
  const { insertProvisioned } = await import('../worker/store/enrollments.ts')
  await withDatabases(options, ({ of }) =>
    insertProvisioned(of(trust, tenant), {
      ...leaf,
      trustDomain,
      identity: '',
      claims: { mode: 'provisioned', tenant },
      enrolledAt: now,
      seenAt: now,
      liveUntil: leaf.notAfter,
    }),
  )

  const { issueCertificate } = await import('../worker/ca/issue.ts')
  const { chainPem, trustBundlePem } = await import('../worker/ca/bundle.ts')
  const { der } = await issueCertificate(authority, { ...leaf, spki })
  writeNew(out, [
    [PROVISIONED_FILES.key, key, 0o600],
    [PROVISIONED_FILES.certificate, encodePem('CERTIFICATE', der) + chainPem(authority), 0o644],
    [PROVISIONED_FILES.ca, trustBundlePem(authority), 0o644],
  ])
  const issued = {
    enrollmentId: leaf.enrollmentId,
    tenant,
    spiffeId: leaf.spiffeId,
    serial: leaf.serial,
    notBefore: rfc3339(leaf.notBefore),
    notAfter: rfc3339(leaf.notAfter),
    files: [PROVISIONED_FILES.certificate, PROVISIONED_FILES.key, PROVISIONED_FILES.ca].map((name) => join(out, name)),
  }
  const state = await stateName(options, shardOf(trust.shards, tenant))
  print(options, { ...issued, state }, () => `${about(issued)}\nits enrollment is written to ${state}`)
}

const about = ({ files, ...issued }: { files: string[]; spiffeId: string; notAfter: string; enrollmentId: string }) =>
  [
    ...files.map((file) => `wrote ${file}`),
    '',
    `${issued.spiffeId} until ${issued.notAfter}, enrollment ${issued.enrollmentId}`,
    'for one machine: a second one that uses it counts as a clone',
  ].join('\n')

function readLifetime(text: string): Seconds {
  const lifetime = parseDuration(text)
  if (lifetime === null || lifetime < minutes(5) || lifetime > PROVISIONED_LIFETIME_MAX) {
    throw new CommandError(`--ttl ${quote(text)} must be a duration of 5m to 2160h (90 days), as 720h`)
  }
  return lifetime
}

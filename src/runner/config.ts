// Reads the whole configuration of a runner from its environment and arguments, and collects every mistake.

import { hostname } from 'node:os'
import { join } from 'node:path'
import { DIRECT, proxyRules } from '../node/proxy-rules.ts'
import { INSTANCE_ID_CHARACTERS } from '../protocol/limits.ts'
import { ENROLL_PATH, PROVISIONED_FILES, TUNNEL_PATH } from '../protocol/paths.ts'
import { isTenantSlug } from '../protocol/spiffe-id.ts'
import type { Flags } from './environment/arguments.ts'
import type { Log } from './environment/log.ts'
import { foldersOf, type Guarded, mountMistakes } from './environment/mounts.ts'
import { pathMistake } from './environment/paths.ts'
import { pemPath } from './environment/pem-input.ts'
import type { Settings } from './environment/settings.ts'
import { EVIDENCE_VARIABLES, type EvidenceConfig, guardedEvidence, readEvidenceConfig } from './evidence/registry.ts'
import type { DeclaredRunnerId } from './identity/identity.ts'
import { readProvisionedSource, strangerIn } from './identity/provisioned.ts'
import { readExtraRoots } from './net/extra-roots.ts'
import type { RenewalConfig } from './renewal/renewal.ts'

export interface Config extends RenewalConfig {
  readonly tunnelUrl: URL
  readonly secretsDir: string | null
  readonly identityDir: string | null
}

/** Read before everything else, since every log line carries it. */
export const readInstanceId = (settings: Settings): string =>
  settings.word(
    'RUNNER_INSTANCE_ID',
    INSTANCE_ID_CHARACTERS,
    () => true,
    `must have at most ${INSTANCE_ID_CHARACTERS} characters`,
  ) ?? hostname().slice(0, INSTANCE_ID_CHARACTERS)

const CERTIFICATES = '/certs'

const NO_IDENTITY = 'either provide RUNNER_CERT_PEM+RUNNER_KEY_PEM (provisioned cert) or RUNNER_ENROLL_URL (enrollment)'

/** Reads everything. Mistakes go to `settings.mistakes`; with any, the result must not be used. */
export function readConfig(
  env: NodeJS.ProcessEnv,
  settings: Settings,
  flags: Flags,
  log: Log,
  certificates = CERTIFICATES,
): Config {
  const { mistakes } = settings
  const evidence = readEvidenceConfig(settings, { fileFlag: readTokenFlag(flags, settings), log })
  const enrollUrl = settings.origin('RUNNER_ENROLL_URL', ENROLL_PATH, 'https')
  const tunnelUrl = settings.origin('RUNNER_TUNNEL_URL', TUNNEL_PATH, 'wss') ?? enrollUrl
  const stranger = strangerIn(settings, certificates)
  if (stranger !== null) settings.warnings.push(stranger)
  const extraRoots = readExtraRoots(settings, certificates, stranger !== null)
  const provisioned = stranger === null ? readProvisionedSource(settings, certificates, extraRoots) : null
  const tenant = settings.word(
    'RUNNER_TENANT',
    63,
    isTenantSlug,
    'must be a tenant: a-z, 0-9 and -, 1 to 63 characters',
  )
  const secretsDir = settings.folder('RUNNER_SECRETS_DIR')
  const renewal = settings.choice('RUNNER_CERT_RENEWAL', ['on', 'off'])
  const identityDir = settings.stateFolder('RUNNER_IDENTITY_DIR')
  const rules = proxyRules(env)
  const runnerId = readRunnerId(flags, settings)
  const instanceId = readInstanceId(settings)
  if (provisioned === null && !settings.has('RUNNER_ENROLL_URL')) mistakes.push(NO_IDENTITY)
  if (provisioned !== null && !settings.has('RUNNER_TUNNEL_URL') && !settings.has('RUNNER_ENROLL_URL')) {
    mistakes.push('provisioned cert requires RUNNER_TUNNEL_URL or RUNNER_ENROLL_URL')
  }
  if (secretsDir !== null && !settings.has('RUNNER_TENANT')) {
    mistakes.push('RUNNER_SECRETS_DIR requires RUNNER_TENANT, which names the folder in it')
  }
  if (!rules.ok) mistakes.push(rules.error)
  mistakes.push(...mountMistakes(flags.mounts ?? [], guardedPaths(evidence, settings, certificates)))
  return {
    enrollUrl,
    // A stand-in, never used: where no URL is given there is a mistake.
    tunnelUrl: tunnelUrl ?? new URL('https://muster.invalid'),
    network: { rules: rules.ok ? rules.value : DIRECT, extraRoots, rootsVariable: 'RUNNER_CA_PEM' },
    evidence,
    provisioned,
    tenant,
    runnerId,
    secretsDir,
    renews: renewal !== 'off' && enrollUrl !== null,
    identityDir,
    instanceId,
    overridden: OVERRIDDEN.filter((name) => settings.has(name)),
  }
}

function readTokenFlag({ tokenFile }: Flags, { mistakes }: Settings): string | null {
  if (tokenFile === undefined) return null
  const name = '--token-file'
  const mistake = tokenFile.trim() === '' ? `${name} is empty` : pathMistake(name, tokenFile)
  if (mistake !== null) mistakes.push(mistake)
  return mistake === null ? tokenFile : null
}

function readRunnerId(flags: Flags, settings: Settings): DeclaredRunnerId | null {
  if (flags.runnerId?.trim() === '') settings.mistakes.push('--runner-id is empty')
  if (flags.runnerId) return { name: '--runner-id', value: flags.runnerId }
  const value = settings.text('RUNNER_ID')
  return value === null ? null : { name: 'RUNNER_ID', value }
}

const OVERRIDDEN = [...EVIDENCE_VARIABLES, 'RUNNER_IDENTITY_DIR']

/** Everything of this runner that no job may see. */
function guardedPaths(evidence: EvidenceConfig, settings: Settings, certificates: string): Guarded[] {
  const folder = (what: string, name: string): Guarded[] => {
    const path = settings.raw(name)?.trim()
    return path === undefined ? [] : [{ what, path }]
  }
  const pemFileOf = (name: string, file: string): string =>
    pemPath(settings.raw(name) ?? join(certificates, file)) ?? ''
  const pems = [
    pemFileOf('RUNNER_CERT_PEM', PROVISIONED_FILES.certificate),
    pemFileOf('RUNNER_KEY_PEM', PROVISIONED_FILES.key),
  ]
  const ca = pemFileOf('RUNNER_CA_PEM', PROVISIONED_FILES.ca)
  return [
    ...guardedEvidence(settings, evidence),
    ...folder('the identity directory', 'RUNNER_IDENTITY_DIR'),
    ...folder('the secrets directory', 'RUNNER_SECRETS_DIR'),
    { what: 'the certificate directory', path: certificates },
    ...pems.flatMap((path) => foldersOf('the certificate directory', path)),
    // The file alone: it is no secret, but a job that writes it chooses whom the runner trusts.
    ...(ca === '' ? [] : [{ what: 'the trusted CA', path: ca }]),
    ...folder('the trusted CA', 'NODE_EXTRA_CA_CERTS'),
    // An environment holds tokens, and `root` of any process leads everywhere, though not every user can see where.
    { what: 'the processes', path: '/proc' },
  ]
}

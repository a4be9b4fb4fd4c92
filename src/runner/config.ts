// The whole configuration of a runner from its environment and its arguments: every mistake is found before any is told.

import { existsSync } from 'node:fs'
import { hostname } from 'node:os'
import { join } from 'node:path'
import { INSTANCE_ID_CHARACTERS } from '../protocol/limits.ts'
import { isTenantSlug } from '../protocol/spiffe-id.ts'
import { foldersOf, type Guarded, mountMistakes } from './environment/mounts.ts'
import { type PemSource, pemFile, pemPath, pemSource } from './environment/pem-input.ts'
import type { Settings } from './environment/settings.ts'
import { type EvidenceConfig, readEvidenceConfig } from './evidence/evidence.ts'
import { certificatesOf } from './identity/identity.ts'
import type { Network } from './net/connection.ts'
import { NO_PROXY_AT_ALL, readProxySettings } from './net/proxy.ts'

export interface Flags {
  readonly tokenFile?: string
  readonly runnerId?: string
  readonly mounts?: readonly string[]
  /** What is wrong with the arguments themselves. */
  readonly mistakes?: readonly string[]
}

/** A certificate that an operator issued; the files are read anew at each use. */
export interface ProvisionedSource {
  readonly certificate: PemSource
  readonly key: PemSource
}

export interface Config {
  readonly enrollUrl: URL | null
  readonly tunnelUrl: URL
  readonly evidence: EvidenceConfig
  readonly provisioned: ProvisionedSource | null
  readonly network: Network
  readonly tenant: string | null
  readonly runnerId: string | null
  readonly secretsDir: string | null
  readonly renews: boolean
  readonly identityDir: string | null
  readonly instanceId: string
  /** Variables that are set and that a provisioned certificate makes pointless. */
  readonly overridden: readonly string[]
}

/** What can be known before the configuration is held to be right: enough to log and to answer probes. */
export const readInstanceId = (settings: Settings): string =>
  settings.word(
    'RUNNER_INSTANCE_ID',
    INSTANCE_ID_CHARACTERS,
    () => true,
    `must have at most ${INSTANCE_ID_CHARACTERS} characters`,
  ) ?? hostname().slice(0, INSTANCE_ID_CHARACTERS)

const CERTIFICATES = '/certs'
const ENROLL_PATH = '/api/enroll'
const TUNNEL_PATH = '/api/tunnel'

const NO_IDENTITY = 'either provide RUNNER_CERT_PEM+RUNNER_KEY_PEM (provisioned cert) or RUNNER_ENROLL_URL (enrollment)'

/** Reads everything; mistakes go to `settings.mistakes`, and the answer is of use only where there are none. */
export function readConfig(
  env: NodeJS.ProcessEnv,
  settings: Settings,
  flags: Flags,
  certificates = CERTIFICATES,
): Config {
  const { mistakes } = settings
  for (const [flag, value] of [
    ['--token-file', flags.tokenFile],
    ['--runner-id', flags.runnerId],
  ]) {
    if (value?.trim() === '') mistakes.push(`${flag} is empty`)
  }
  const evidence = readEvidenceConfig(settings, flags.tokenFile || null)
  const enrollUrl = settings.origin('RUNNER_ENROLL_URL', ENROLL_PATH, 'https')
  const tunnelUrl = settings.origin('RUNNER_TUNNEL_URL', TUNNEL_PATH, 'wss') ?? enrollUrl
  const provisioned = readProvisioned(settings, certificates)
  const tenant = settings.word(
    'RUNNER_TENANT',
    63,
    isTenantSlug,
    'must be a tenant: a-z, 0-9 and -, 1 to 63 characters',
  )
  const secretsDir = settings.text('RUNNER_SECRETS_DIR')
  const renewal = settings.choice('RUNNER_CERT_RENEWAL', ['on', 'off'])
  const identityDir = settings.text('RUNNER_IDENTITY_DIR')
  const proxies = readProxySettings(env)
  const config = {
    enrollUrl,
    evidence,
    provisioned,
    tenant,
    runnerId: flags.runnerId || settings.text('RUNNER_ID'),
    secretsDir,
    renews: renewal !== 'off' && enrollUrl !== null,
    identityDir,
    instanceId: readInstanceId(settings),
    overridden: OVERRIDDEN.filter((name) => settings.has(name)),
  }
  if (provisioned === null && !settings.has('RUNNER_ENROLL_URL')) mistakes.push(NO_IDENTITY)
  if (provisioned !== null && !settings.has('RUNNER_TUNNEL_URL') && !settings.has('RUNNER_ENROLL_URL')) {
    mistakes.push('provisioned cert requires RUNNER_TUNNEL_URL or RUNNER_ENROLL_URL')
  }
  if (secretsDir !== null && !settings.has('RUNNER_TENANT')) {
    mistakes.push('RUNNER_SECRETS_DIR requires RUNNER_TENANT, which names the folder in it')
  }
  if ('fault' in proxies) mistakes.push(proxies.fault)
  const extraRoots = readExtraRoots(settings, certificates)
  mistakes.push(...mountMistakes(flags.mounts ?? [], guardedFolders(config, settings, certificates)))
  return {
    ...config,
    // Neither stand-in is used: there is a mistake for each.
    tunnelUrl: tunnelUrl ?? new URL('https://muster.invalid'),
    network: { proxies: 'fault' in proxies ? NO_PROXY_AT_ALL : proxies, extraRoots },
  }
}

const OVERRIDDEN = [
  'RUNNER_ATTESTATION_MODE',
  'RUNNER_BOOTSTRAP_TOKEN',
  'RUNNER_TOKEN',
  'RUNNER_TOKEN_FILE',
  'COMPASS_RUNNER_TOKEN',
  'COMPASS_RUNNER_TOKEN_FILE',
  'RUNNER_GKE_TOKEN_PATH',
  'RUNNER_EKS_TOKEN_PATH',
  'AWS_REGION',
  'RUNNER_IDENTITY_DIR',
]

function readProvisioned(settings: Settings, folder: string): ProvisionedSource | null {
  const certificate = pemOf(settings, 'RUNNER_CERT_PEM', join(folder, 'cert.pem'))
  const key = pemOf(settings, 'RUNNER_KEY_PEM', join(folder, 'key.pem'))
  if (certificate !== null && key === null) settings.mistakes.push('RUNNER_CERT_PEM is given without RUNNER_KEY_PEM')
  if (certificate === null && key !== null) settings.mistakes.push('RUNNER_KEY_PEM is given without RUNNER_CERT_PEM')
  // With one alone the mistake is told; the rest is read as for a provisioned runner.
  if (certificate === null && key === null) return null
  return { certificate: certificate ?? NOTHING, key: key ?? NOTHING }
}

const NOTHING: PemSource = () => ({ fault: '' })

function pemOf(settings: Settings, name: string, path: string): PemSource | null {
  const value = settings.raw(name)
  if (value !== null) return pemSource(name, value)
  return existsSync(path) ? pemFile(name, path) : null
}

/** Read anew at each use, since an operator replaces the file; while it cannot be read, what was read last holds. */
function readExtraRoots(settings: Settings, folder: string): () => string | null {
  let last: string | null = null
  const refresh = (): string | null => {
    const reading = pemOf(settings, 'RUNNER_CA_PEM', join(folder, 'ca.pem'))?.()
    if (reading === undefined) return null
    if ('fault' in reading) return reading.fault
    const roots = certificatesOf(reading.pem) ?? []
    if (roots.length === 0) return 'RUNNER_CA_PEM is not a certificate in PEM'
    last = roots.join('')
    return null
  }
  const fault = refresh()
  if (fault !== null) settings.mistakes.push(fault)
  return () => {
    refresh()
    return last
  }
}

function guardedFolders(
  { evidence, identityDir }: { readonly evidence: EvidenceConfig; readonly identityDir: string | null },
  settings: Settings,
  certificates: string,
): Guarded[] {
  const { source } = evidence
  const token = source === null ? null : 'path' in source ? source.path : settings.raw('AWS_WEB_IDENTITY_TOKEN_FILE')
  const pemFileOf = (name: string, file: string): string =>
    pemPath(settings.raw(name) ?? join(certificates, file)) ?? ''
  const pems = [pemFileOf('RUNNER_CERT_PEM', 'cert.pem'), pemFileOf('RUNNER_KEY_PEM', 'key.pem')]
  const ca = pemFileOf('RUNNER_CA_PEM', 'ca.pem')
  return [
    ...foldersOf('the token directory', token?.trim() ?? ''),
    ...(identityDir === null ? [] : [{ what: 'the identity directory', path: identityDir }]),
    { what: 'the certificate directory', path: certificates },
    ...pems.flatMap((path) => foldersOf('the certificate directory', path)),
    // No secret: its neighbours are nobody's concern, but a job that writes it chooses whom the runner trusts.
    ...(ca === '' ? [] : [{ what: 'the trusted CA', path: ca }]),
  ]
}

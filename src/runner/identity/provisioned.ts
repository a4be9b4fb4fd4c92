// Reads a provisioned certificate from its variables or files, at boot and again whenever it may have been replaced.

import type { X509Certificate } from 'node:crypto'
import { join } from 'node:path'
import { readCertificates } from '../../node/certificates.ts'
import { PROVISIONED_FILES } from '../../protocol/paths.ts'
import { parsePemFile } from '../../protocol/pem.ts'
import { err, ok, type Result } from '../../protocol/result.ts'
import { MAX_CERTIFICATES, type PemSource, pemSetting } from '../environment/pem-input.ts'
import type { Settings } from '../environment/settings.ts'
import { type Identity, readIdentity, runnerSpiffeId } from './identity.ts'
import { readKey } from './keys.ts'

/** A certificate that an operator issued; the files are read anew at each use. */
export interface ProvisionedSource {
  /** Null where it is not given: that is among the mistakes already. */
  readonly certificate: PemSource | null
  readonly key: PemSource | null
  /** PEM of the roots that peers of the identity are verified with; null: none is known. */
  readonly trustBundle: () => string | null
}

/** RUNNER_CERT_PEM and RUNNER_KEY_PEM, else `cert.pem` and `key.pem` in `folder`. With one alone, a mistake. */
export function readProvisionedSource(
  settings: Settings,
  folder: string,
  trustBundle: () => string | null,
): ProvisionedSource | null {
  const paths = { certificate: join(folder, PROVISIONED_FILES.certificate), key: join(folder, PROVISIONED_FILES.key) }
  const certificate = pemSetting(settings, 'RUNNER_CERT_PEM', paths.certificate)
  const key = pemSetting(settings, 'RUNNER_KEY_PEM', paths.key)
  const present = certificate ?? key
  if (present === null) return null
  const missing = certificate === null ? nameOf('RUNNER_CERT_PEM', present, paths.certificate) : null
  const missingKey = key === null ? nameOf('RUNNER_KEY_PEM', present, paths.key) : null
  for (const name of [missing, missingKey]) {
    if (name !== null) settings.mistakes.push(`${present.name} is given without ${name}`)
  }
  return { certificate, key, trustBundle }
}

/**
 * Says why the files in `folder` are somebody else's (Docker mounts its client certificate in the same place), or null.
 * Asked where an enrollment is configured and no variable names a provisioned certificate.
 */
export function strangerIn(settings: Settings, folder: string): string | null {
  const enrolls =
    settings.has('RUNNER_ENROLL_URL') && !settings.has('RUNNER_CERT_PEM') && !settings.has('RUNNER_KEY_PEM')
  const path = join(folder, PROVISIONED_FILES.certificate)
  const certificate = pemSetting(settings, 'RUNNER_CERT_PEM', path)
  const present = certificate ?? pemSetting(settings, 'RUNNER_KEY_PEM', join(folder, PROVISIONED_FILES.key))
  const why = enrolls && present !== null ? strangerOf(certificate, path) : null
  return why === null ? null : `${present?.name} is passed over: ${why}`
}

/** The name of the missing part, in the form in which the present part is named: a variable or a path. */
const nameOf = (variable: string, present: PemSource, path: string): string =>
  present.name.startsWith('RUNNER_') ? variable : path

function strangerOf(certificate: PemSource | null, path: string): string | null {
  if (certificate === null) return `there is no ${path} beside it`
  const text = certificate.read()
  if (!text.ok) return text.error
  const [leaf] = readChain(text.value) ?? []
  if (leaf === undefined) return 'no certificate can be read there'
  return runnerSpiffeId(leaf) === null ? 'it is no certificate of a runner' : null
}

/** The certificates of a file that may hold the key beside them; null where one cannot be read. */
function readChain(pem: string): X509Certificate[] | null {
  const blocks = parsePemFile(pem, MAX_CERTIFICATES)
  return blocks.ok
    ? readCertificates(blocks.value.filter(({ label }) => label === 'CERTIFICATE').map(({ bytes }) => bytes))
    : null
}

/** The identity as it stands now; the errors name their variables or files and quote nothing. */
export function readProvisionedIdentity(source: ProvisionedSource): Result<Identity, readonly string[]> {
  const certificate = source.certificate?.read() ?? null
  const keyText = source.key?.read() ?? null
  if (source.certificate === null || source.key === null || !certificate?.ok || !keyText?.ok) {
    return err([certificate, keyText].flatMap((reading) => (reading === null || reading.ok ? [] : [reading.error])))
  }
  const { name } = source.certificate
  const certificates = readChain(certificate.value)
  if (certificates === null) return err([`${name} is not a certificate in PEM, or one of its chain is cut`])
  const [leaf, ...chain] = certificates
  if (leaf === undefined) return err([`${name} is not a certificate in PEM`])
  const key = readKey(keyText.value)
  if (key === null) return err([`${source.key.name} is not an unencrypted P-256 private key in PEM`])
  const identity = readIdentity({
    certificate: leaf.toString(),
    chain: chain.join(''),
    trustBundle: source.trustBundle() ?? '',
    key,
    runnerId: null,
  })
  return identity.ok ? ok(identity.value) : err([`${name}: ${identity.error}`])
}

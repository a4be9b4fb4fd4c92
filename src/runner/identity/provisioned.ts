// Reads a provisioned certificate from its variables or files, at boot and again whenever it may have been replaced.

import { join } from 'node:path'
import { readCertificates } from '../../node/certificates.ts'
import { PROVISIONED_FILES } from '../../protocol/paths.ts'
import { parsePemFile } from '../../protocol/pem.ts'
import { err, ok, type Result } from '../../protocol/result.ts'
import { MAX_CERTIFICATES, type PemSource, pemSetting } from '../environment/pem-input.ts'
import type { Settings } from '../environment/settings.ts'
import { type Identity, readIdentity } from './identity.ts'
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
  const certificate = pemSetting(settings, 'RUNNER_CERT_PEM', join(folder, PROVISIONED_FILES.certificate))
  const key = pemSetting(settings, 'RUNNER_KEY_PEM', join(folder, PROVISIONED_FILES.key))
  if (certificate !== null && key === null) settings.mistakes.push('RUNNER_CERT_PEM is given without RUNNER_KEY_PEM')
  if (certificate === null && key !== null) settings.mistakes.push('RUNNER_KEY_PEM is given without RUNNER_CERT_PEM')
  return certificate === null && key === null ? null : { certificate, key, trustBundle }
}

/** The identity as it stands now; the errors name their variables and quote nothing. */
export function readProvisionedIdentity(source: ProvisionedSource): Result<Identity, readonly string[]> {
  const certificate = source.certificate?.() ?? null
  const keyText = source.key?.() ?? null
  if (!certificate?.ok || !keyText?.ok) {
    return err([certificate, keyText].flatMap((reading) => (reading === null || reading.ok ? [] : [reading.error])))
  }
  // A file may hold the key beside the certificate.
  const blocks = parsePemFile(certificate.value, MAX_CERTIFICATES)
  const certificates = blocks.ok
    ? readCertificates(blocks.value.filter(({ label }) => label === 'CERTIFICATE').map(({ bytes }) => bytes))
    : null
  if (certificates === null) return err(['RUNNER_CERT_PEM is not a certificate in PEM, or one of its chain is cut'])
  const [leaf, ...chain] = certificates
  if (leaf === undefined) return err(['RUNNER_CERT_PEM is not a certificate in PEM'])
  const key = readKey(keyText.value)
  if (key === null) return err(['RUNNER_KEY_PEM is not an unencrypted P-256 private key in PEM'])
  const identity = readIdentity({
    certificate: leaf.toString(),
    chain: chain.join(''),
    trustBundle: source.trustBundle() ?? '',
    key,
    runnerId: null,
  })
  return identity.ok ? ok(identity.value) : err([`RUNNER_CERT_PEM: ${identity.error}`])
}

// A provisioned certificate: read from its variables or files, at boot and again whenever it may have been replaced.

import type { ProvisionedSource } from '../config.ts'
import { certificatesOf, type Identity, readIdentity } from './identity.ts'
import { readKey } from './keys.ts'

/** The identity as it stands now, or its faults, each naming its variable. */
export function readProvisionedIdentity(
  source: ProvisionedSource,
  trustBundle: string | null,
): { readonly identity: Identity } | { readonly faults: readonly string[] } {
  const certificate = source.certificate()
  const keyText = source.key()
  const faults = [certificate, keyText].flatMap((reading) =>
    'fault' in reading && reading.fault !== '' ? [reading.fault] : [],
  )
  if ('fault' in certificate || 'fault' in keyText) return { faults }
  const certificates = certificatesOf(certificate.pem)
  const key = readKey(keyText.pem)
  if (certificates === null)
    return { faults: ['RUNNER_CERT_PEM is not a certificate in PEM, or one of its chain is cut'] }
  const [leaf, ...chain] = certificates
  if (leaf === undefined) return { faults: ['RUNNER_CERT_PEM is not a certificate in PEM'] }
  if (key === null) return { faults: ['RUNNER_KEY_PEM is not an unencrypted P-256 private key in PEM'] }
  const identity = readIdentity({
    certificate: leaf.toString(),
    chain: chain.join(''),
    trustBundle: trustBundle ?? '',
    key,
    runnerId: null,
  })
  return 'fault' in identity ? { faults: [`RUNNER_CERT_PEM: ${identity.fault}`] } : { identity }
}

// Reads the certificates that an operator trusts beside the system's.

import { join } from 'node:path'
import { readCertificate } from '../../node/certificates.ts'
import { PROVISIONED_FILES } from '../../protocol/paths.ts'
import { encodePem, parseCertificateBundle } from '../../protocol/pem.ts'
import { MAX_CERTIFICATES, pemSetting } from '../environment/pem-input.ts'
import type { Settings } from '../environment/settings.ts'

/** PEM, trusted beside the system's roots; null: those alone. Asked for each connection. */
export type ExtraRoots = () => string | null

/**
 * RUNNER_CA_PEM, else `ca.pem` in `folder`. Read anew at each use, since an operator replaces the file; while it cannot
 * be read, the last content is used. What is wrong at first is among the mistakes, or, where only some of its
 * certificates cannot be read, or where the files in `folder` are somebody else's (`isStrangers`), among the warnings.
 */
export function readExtraRoots(settings: Settings, folder: string, isStrangers: boolean): ExtraRoots {
  let last: string | null = null
  let passedOver: readonly string[] = []
  const refresh = (): string | null => {
    const source = pemSetting(settings, 'RUNNER_CA_PEM', join(folder, PROVISIONED_FILES.ca))
    if (source === null) return null
    const pem = source.read()
    if (!pem.ok) return pem.error
    const bundle = parseCertificateBundle(pem.value, MAX_CERTIFICATES, (der) => readCertificate(der) !== null)
    if (!bundle.ok) return `${source.name} is not a certificate in PEM: ${bundle.error}`
    passedOver = bundle.value.passedOver.map((fault) => `${source.name}: ${fault}: it is passed over`)
    last = bundle.value.certificates.map((der) => encodePem('CERTIFICATE', der)).join('')
    return null
  }
  const mistake = refresh()
  settings.warnings.push(...passedOver)
  const isDefault = !settings.has('RUNNER_CA_PEM')
  if (mistake !== null && isDefault && isStrangers) settings.warnings.push(`${mistake}: it is passed over`)
  else if (mistake !== null) settings.mistakes.push(mistake)
  return () => {
    refresh()
    return last
  }
}

// Sets up TLS to the control plane: the roots that are trusted and the certificate that is shown. No session is resumed,
// so every verdict on a certificate is fresh.

import type { KeyObject } from 'node:crypto'
import { join } from 'node:path'
import tls, { createSecureContext, type SecureContext } from 'node:tls'
import { parseCertificateFile } from '../../protocol/pem.ts'
import { MAX_CERTIFICATES, pemSetting, readCertificates } from '../environment/pem-input.ts'
import type { Settings } from '../environment/settings.ts'

/** PEM, trusted beside the system's roots; null: those alone. Asked for each connection. */
export type ExtraRoots = () => string | null

/** What a client shows where it is asked. */
export interface ClientCertificate {
  /** PEM: the leaf. */
  readonly certificate: string
  /** PEM: what leads from the leaf towards a root; may be empty. */
  readonly chain: string
  readonly key: KeyObject
}

/** Throws where OpenSSL does not take a certificate. */
export function tlsContext(extraRoots: ExtraRoots, client: ClientCertificate | null): SecureContext {
  const roots = extraRoots()
  return createSecureContext({
    minVersion: 'TLSv1.2',
    // Naming roots replaces the built-in ones, so those are named too.
    ...(roots !== null && { ca: [...systemRoots(), roots] }),
    ...(client !== null && {
      cert: client.certificate + client.chain,
      key: client.key.export({ type: 'pkcs8', format: 'pem' }),
    }),
  })
}

/** With those of NODE_EXTRA_CA_CERTS and --use-system-ca, where this Node tells them (22.15 and up). */
const systemRoots = (): readonly string[] => tls.getCACertificates?.('default') ?? tls.rootCertificates

/**
 * RUNNER_CA_PEM, else `ca.pem` in `folder`. Read anew at each use, since an operator replaces the file; while it cannot
 * be read, what was read last holds. What is wrong at first is among the mistakes.
 */
export function readExtraRoots(settings: Settings, folder: string): ExtraRoots {
  let last: string | null = null
  const refresh = (): string | null => {
    const pem = pemSetting(settings, 'RUNNER_CA_PEM', join(folder, 'ca.pem'))?.()
    if (pem === undefined) return null
    if (!pem.ok) return pem.error
    const ders = parseCertificateFile(pem.value, MAX_CERTIFICATES)
    const roots = ders.ok ? readCertificates(ders.value) : null
    if (roots === null) return 'RUNNER_CA_PEM is not a certificate in PEM'
    last = roots.join('')
    return null
  }
  const mistake = refresh()
  if (mistake !== null) settings.mistakes.push(mistake)
  return () => {
    refresh()
    return last
  }
}

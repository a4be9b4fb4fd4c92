// Reads and summarizes CA certificates: those of a PEM file, and the roots that a running Muster hands out.

import type { X509Certificate } from 'node:crypto'
import { readCertificates } from '../../node/certificates.ts'
import type { HttpAnswer } from '../../node/http-client.ts'
import { quote } from '../../protocol/characters.ts'
import { CA_CERTIFICATES } from '../../protocol/limits.ts'
import { BUNDLE_PEM_PATH } from '../../protocol/paths.ts'
import { parseCertificateFile } from '../../protocol/pem.ts'
import { err, ok, type Result } from '../../protocol/result.ts'
import { epochMilliseconds, rfc3339, toEpochSeconds } from '../../protocol/time.ts'
import { CommandError } from '../operator/command.ts'
import { reach } from '../operator/network.ts'

export type Certificates = readonly [X509Certificate, ...X509Certificate[]]

/** In the order of the text. Whether they fit together is not checked here. */
export function parseCertificates(pem: string): Result<Certificates, string> {
  const blocks = parseCertificateFile(pem, CA_CERTIFICATES)
  if (!blocks.ok) return blocks
  const [first, ...others] = readCertificates(blocks.value) ?? []
  return first === undefined ? err('holds what is no certificate') : ok([first, ...others])
}

/** An answer that takes longer (milliseconds), or is longer (bytes), is no trust bundle. */
const PATIENCE = 10_000
const LARGEST = 256 * 1024

/** The roots that the Muster at `url` hands out. */
export async function fetchRoots(url: string): Promise<Certificates> {
  const address = URL.parse(BUNDLE_PEM_PATH, url)
  if (address === null || !['http:', 'https:'].includes(address.protocol)) {
    throw new CommandError(`--url ${quote(url)} is not a URL, as https://muster.example`)
  }
  if (address.username !== '' || address.password !== '') {
    throw new CommandError(`--url must be without a user name: write ${address.origin}`)
  }
  const answer = await reach(address, { method: 'GET', headers: {}, timeout: PATIENCE, limit: LARGEST })
  const certificates = answer.ok ? bundleOf(answer.value) : answer
  if (!certificates.ok) throw new CommandError(`${address} gives no trust bundle: ${certificates.error}`)
  return certificates.value
}

function bundleOf({ status, body }: HttpAnswer): Result<Certificates, string> {
  return status === 200 ? parseCertificates(new TextDecoder().decode(body)) : err(`HTTP ${status}`)
}

/** What `--json` prints of a certificate. */
export interface CertificateSummary {
  readonly subject: string
  readonly issuer: string
  readonly serial: string
  /** RFC 3339. */
  readonly notBefore: string
  readonly notAfter: string
  /** SHA-256 of the DER, in hexadecimal. */
  readonly fingerprint: string
}

export const summarize = (certificate: X509Certificate): CertificateSummary => ({
  subject: oneLine(certificate.subject),
  issuer: oneLine(certificate.issuer),
  serial: certificate.serialNumber.toLowerCase(),
  notBefore: timeText(certificate.validFromDate),
  notAfter: timeText(certificate.validToDate),
  fingerprint: certificate.fingerprint256.replaceAll(':', '').toLowerCase(),
})

const oneLine = (name: string): string => name.replaceAll('\n', ', ')

const timeText = (date: Date): string => rfc3339(toEpochSeconds(epochMilliseconds(date.getTime())))

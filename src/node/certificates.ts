// Reads certificates as Node does, from DER.

import { X509Certificate } from 'node:crypto'

/** Null where the bytes are no certificate. */
export function readCertificate(der: Uint8Array): X509Certificate | null {
  try {
    return new X509Certificate(der)
  } catch {
    return null
  }
}

/** Null where one of them is no certificate. */
export function readCertificates(ders: readonly Uint8Array[]): X509Certificate[] | null {
  const read = ders.flatMap((der) => readCertificate(der) ?? [])
  return read.length === ders.length ? read : null
}

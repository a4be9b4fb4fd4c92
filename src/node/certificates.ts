// Reads certificates as Node does, from DER.

import { X509Certificate } from 'node:crypto'

/** Each certificate; null where one of them is none. */
export function readCertificates(ders: readonly Uint8Array[]): X509Certificate[] | null {
  try {
    return ders.map((der) => new X509Certificate(der))
  } catch {
    return null
  }
}

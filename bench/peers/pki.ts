// Makes keys, CSRs and authorities for the peers, and checks what they issue.

import 'reflect-metadata'
import { createPublicKey, KeyObject, X509Certificate } from 'node:crypto'
import * as x509 from '@peculiar/x509'
import { makeKeys } from '../../test/fakes/requester.ts'
import type { Issued } from './product.ts'

const ALGORITHM = { name: 'ECDSA', namedCurve: 'P-256', hash: 'SHA-256' }
const DAY = 86_400_000

/** A P-256 key and a CSR for it. PEM, the key as PKCS#8. */
export interface KeyAndCsr {
  readonly key: string
  readonly csr: string
}

export async function makeKeyAndCsr(commonName: string): Promise<KeyAndCsr> {
  const keys = await makeKeys()
  const name = `CN=${commonName}`
  const csr = await x509.Pkcs10CertificateRequestGenerator.create({ keys, signingAlgorithm: ALGORITHM, name })
  return { key: pkcs8(keys.privateKey), csr: csr.toString('pem') }
}

export interface Authority {
  readonly certificate: string
  readonly key: string
  readonly keys: CryptoKeyPair
}

/** A root, or an authority under another one. */
export async function makeAuthority(commonName: string, issuer?: Authority): Promise<Authority> {
  const keys = await makeKeys()
  const name = `CN=${commonName}`
  const shared = {
    notBefore: new Date(Date.now() - DAY),
    notAfter: new Date(Date.now() + DAY),
    signingAlgorithm: ALGORITHM,
    extensions: [
      new x509.BasicConstraintsExtension(true, issuer === undefined ? 1 : 0, true),
      new x509.KeyUsagesExtension(x509.KeyUsageFlags.keyCertSign | x509.KeyUsageFlags.cRLSign, true),
      await x509.SubjectKeyIdentifierExtension.create(keys.publicKey),
    ],
  }
  const certificate =
    issuer === undefined
      ? await x509.X509CertificateGenerator.createSelfSigned({ ...shared, name, keys })
      : await x509.X509CertificateGenerator.create({
          ...shared,
          subject: name,
          issuer: new x509.X509Certificate(issuer.certificate).subject,
          publicKey: keys.publicKey,
          signingKey: issuer.keys.privateKey,
        })
  return { certificate: `${certificate.toString('pem')}\n`, key: pkcs8(keys.privateKey), keys }
}

const pkcs8 = (key: CryptoKey): string => String(KeyObject.from(key).export({ type: 'pkcs8', format: 'pem' }))

/** Of a certificate. */
export const pemOf = (der: Uint8Array): string => x509.PemConverter.encode(new Uint8Array(der), 'CERTIFICATE')

export const derOf = (pem: string): Uint8Array => new Uint8Array(x509.PemConverter.decodeFirst(pem))

/** Throws unless the certificate is current, is for the key of the CSR and leads to one of the roots. */
export function checkIssued({ certificate, csr }: Issued, roots: string): void {
  const [leaf, ...chain] = certificatesIn(certificate)
  if (leaf === undefined) throw new Error('no certificate was given')
  const asked = Buffer.from(new x509.Pkcs10CertificateRequest(csr).publicKey.rawData)
  if (!createPublicKey({ key: asked, format: 'der', type: 'spki' }).equals(leaf.publicKey)) {
    throw new Error('the certificate is for another key than the CSR')
  }
  const now = Date.now()
  if (now < leaf.validFromDate.getTime() || now > leaf.validToDate.getTime()) throw new Error('it is not current')
  const anchors = certificatesIn(roots)
  if (!leadsTo(leaf, chain, anchors)) throw new Error('the certificate leads to no root of its product')
}

function leadsTo(
  certificate: X509Certificate,
  chain: readonly X509Certificate[],
  anchors: readonly X509Certificate[],
): boolean {
  const isBy = (issuer: X509Certificate) => certificate.checkIssued(issuer) && certificate.verify(issuer.publicKey)
  if (anchors.some(isBy)) return true
  const at = chain.findIndex(isBy)
  const next = chain[at]
  return next !== undefined && leadsTo(next, chain.toSpliced(at, 1), anchors)
}

const certificatesIn = (pem: string): X509Certificate[] =>
  x509.PemConverter.decode(pem).map((der) => new X509Certificate(Buffer.from(der)))

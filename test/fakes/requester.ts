// Makes the parts of an enrollment request: a key, a key-bound nonce and a CSR, by a library that the Worker's reader
// does not use.
import 'reflect-metadata'
import * as x509 from '@peculiar/x509'
import { makeNonce } from '../../src/protocol/nonce.ts'

export interface Requester {
  readonly keys: CryptoKeyPair
  readonly spki: Uint8Array<ArrayBuffer>
  readonly challengeNonce: string
  /** PEM. */
  readonly csr: string
}

export interface RequesterOptions {
  readonly keys?: CryptoKeyPair
  /** A subject and extensions to ask for. */
  readonly name?: string
  readonly extensions?: x509.Extension[]
  /** Another challengePassword than the nonce. */
  readonly challenge?: string
}

const ALGORITHM = { name: 'ECDSA', namedCurve: 'P-256', hash: 'SHA-256' }

export const makeKeys = (): Promise<CryptoKeyPair> =>
  crypto.subtle.generateKey(ALGORITHM, true, ['sign', 'verify']) as Promise<CryptoKeyPair>

export async function makeRequester(options: RequesterOptions = {}): Promise<Requester> {
  const keys = options.keys ?? (await makeKeys())
  const spki = new Uint8Array((await crypto.subtle.exportKey('spki', keys.publicKey)) as ArrayBuffer)
  const challengeNonce = await makeNonce(spki)
  const request = await x509.Pkcs10CertificateRequestGenerator.create({
    keys,
    signingAlgorithm: ALGORITHM,
    ...(options.name === undefined ? {} : { name: options.name }),
    ...(options.extensions === undefined ? {} : { extensions: options.extensions }),
    attributes: [new x509.ChallengePasswordAttribute(options.challenge ?? challengeNonce)],
  })
  return { keys, spki, challengeNonce, csr: request.toString('pem') }
}

/** The body of POST /api/enroll. */
export const enrollBody = (requester: Requester, attestation: object, instanceId?: string) => ({
  version: 1,
  attestation,
  csr: requester.csr,
  challengeNonce: requester.challengeNonce,
  ...(instanceId === undefined ? {} : { instanceId }),
})

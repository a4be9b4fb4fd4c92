// Certificates of the local edge's TLS port: a root of its own, kept in the state folder, and a leaf for each start.

import {
  createHash,
  createPrivateKey,
  createPublicKey,
  generateKeyPairSync,
  type KeyObject,
  randomBytes,
  sign,
  X509Certificate,
} from 'node:crypto'
import { existsSync, readFileSync, renameSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import * as der from './der.ts'
import type { StateFolder } from './state.ts'

export interface ServerCertificate {
  readonly key: string
  /** The leaf, PEM. */
  readonly cert: string
  /** Path of what a client must trust. */
  readonly caFile: string
}

const DAY = 86_400_000
/** Ten years: a client that was told to trust it once goes on doing so. */
const ROOT_LIFE = 3650 * DAY
/** A leaf is made at each start; nobody leaves a local edge running for longer. */
const LEAF_LIFE = 90 * DAY

/** The root is made on the first start and replaced where it is unreadable or near its end. */
export function serverCertificate(state: StateFolder, now: Date): ServerCertificate {
  const caFile = join(state.own, 'tls-ca.pem')
  const root = readRoot(state, caFile, now) ?? makeRoot(state, caFile, now)
  const { privateKey, publicKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' })
  const cert = certificate({
    subject: LEAF_NAME,
    key: publicKey,
    issuerKey: root,
    notAfter: new Date(now.getTime() + LEAF_LIFE),
    now,
    extensions: [
      extension('2.5.29.19', true, der.sequence()),
      extension('2.5.29.15', true, der.bits(Uint8Array.of(0x80), 7)),
      extension('2.5.29.37', false, der.sequence(der.oid('1.3.6.1.5.5.7.3.1'))),
      extension('2.5.29.17', false, der.sequence(...NAMES)),
    ],
  })
  return { key: pkcs8(privateKey), cert, caFile }
}

const ROOT_NAME = 'Muster local edge TLS root'
const LEAF_NAME = 'localhost'
const NAMES = [
  der.implicit(2, Buffer.from('localhost')),
  der.implicit(7, Uint8Array.of(127, 0, 0, 1)),
  der.implicit(7, Uint8Array.of(...Array(15).fill(0), 1)),
]

function readRoot(state: StateFolder, caFile: string, now: Date): KeyObject | null {
  const keyFile = join(state.own, 'tls-ca.key.pem')
  if (!existsSync(caFile) || !existsSync(keyFile)) return null
  try {
    const root = new X509Certificate(readFileSync(caFile))
    const key = createPrivateKey(readFileSync(keyFile))
    return root.checkPrivateKey(key) && root.validToDate.getTime() - now.getTime() > LEAF_LIFE ? key : null
  } catch {
    return null
  }
}

function makeRoot(state: StateFolder, caFile: string, now: Date): KeyObject {
  const { privateKey, publicKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' })
  const cert = certificate({
    subject: ROOT_NAME,
    key: publicKey,
    issuerKey: privateKey,
    notAfter: new Date(now.getTime() + ROOT_LIFE),
    now,
    extensions: [
      extension('2.5.29.19', true, der.sequence(der.boolean(true), der.integer(Uint8Array.of(0)))),
      extension('2.5.29.15', true, der.bits(Uint8Array.of(0x06), 1)),
    ],
  })
  writeFileWhole(join(state.own, 'tls-ca.key.pem'), pkcs8(privateKey), 0o600)
  writeFileWhole(caFile, cert, 0o644)
  return privateKey
}

interface Contents {
  readonly subject: string
  readonly key: KeyObject
  readonly issuerKey: KeyObject
  readonly now: Date
  readonly notAfter: Date
  readonly extensions: readonly Uint8Array[]
}

function certificate({ subject, key, issuerKey, now, notAfter, extensions }: Contents): string {
  const algorithm = der.sequence(der.oid('1.2.840.10045.4.3.2'))
  const keyIds = [
    extension('2.5.29.14', false, der.octets(keyId(key))),
    extension('2.5.29.35', false, der.sequence(der.implicit(0, keyId(createPublicKey(issuerKey))))),
  ]
  const content = der.sequence(
    der.explicit(0, der.integer(Uint8Array.of(2))),
    // 16 octets whose first makes them positive and minimal.
    der.integer(Buffer.concat([Uint8Array.of(0x40), randomBytes(15)])),
    algorithm,
    name(ROOT_NAME),
    der.sequence(der.utcTime(new Date(now.getTime() - DAY)), der.utcTime(notAfter)),
    name(subject),
    spki(key),
    der.explicit(3, der.sequence(...extensions, ...keyIds)),
  )
  const signed = der.sequence(content, algorithm, der.bits(sign('sha256', content, issuerKey)))
  return new X509Certificate(signed).toString()
}

const name = (commonName: string) => der.sequence(der.set(der.sequence(der.oid('2.5.4.3'), der.text(commonName))))
const extension = (oid: string, critical: boolean, value: Uint8Array) =>
  der.sequence(der.oid(oid), ...(critical ? [der.boolean(true)] : []), der.octets(value))
const spki = (key: KeyObject) => key.export({ type: 'spki', format: 'der' })
const pkcs8 = (key: KeyObject) => key.export({ type: 'pkcs8', format: 'pem' }).toString()
/** RFC 5280, 4.2.1.2, method 1: of the key's 65 octets, the last of its SubjectPublicKeyInfo. */
const keyId = (key: KeyObject) => createHash('sha1').update(spki(key).subarray(-65)).digest()

/** A crash in between leaves the old file or the new one, never half of one. */
export function writeFileWhole(path: string, content: string, mode: number): void {
  const draft = `${path}.${process.pid}`
  writeFileSync(draft, content, { mode })
  renameSync(draft, path)
}

// Declares and compiles where an issuer's keys come from: `jwksURI`, `jwksFile`, `caFile` and `binding`.

import { quote } from '../protocol/characters.ts'
import { isPrivateJwk, parseJwk } from '../protocol/jwk.ts'
import { KEY_SET_KEYS } from '../protocol/limits.ts'
import { encodePem, parseCertificateBundle } from '../protocol/pem.ts'
import { err, ok, type Result } from '../protocol/result.ts'
import { isObject, type JsonObject, readJson } from '../protocol/strict-json.ts'
import type { FieldsOf, FileReading, IsCertificate, Place, Value } from './declaration.ts'
import { BINDING, HTTPS_ADDRESS, isPrivateAddress } from './grammar.ts'
import type { Reader } from './reader.ts'

export type KeySource =
  | { readonly from: 'discovery' }
  | { readonly from: 'uri'; readonly uri: string }
  /** The content of `jwksFile`, as bundled. */
  | { readonly from: 'file'; readonly jwks: JsonObject }

export interface KeyAccess {
  readonly keys: KeySource
  /** PEM of the private CA: the certificates of `caFile`. */
  readonly ca: string | null
  /** Name of the Workers VPC service binding. */
  readonly binding: string | null
}

/** More than any system's bundle has. */
export const CA_FILE_CERTIFICATES = 1000

export const KEY_SOURCE_FIELDS = {
  jwksURI: {
    kind: 'text',
    emptyable: true,
    description: 'Where the keys are, in place of discovery.',
    grammar: HTTPS_ADDRESS,
  },
  jwksFile: {
    kind: 'file',
    emptyable: true,
    description: 'File of a JWK Set, relative to this file and bundled.',
    parse: parseKeyFile,
  },
  caFile: {
    kind: 'file',
    emptyable: true,
    description: 'File of a PEM CA certificate of a private issuer.',
    parse: parseCaFile,
  },
  binding: {
    kind: 'text',
    emptyable: true,
    description: 'Workers VPC service binding that reaches a private issuer.',
    grammar: BINDING,
  },
} as const satisfies Readonly<Record<string, Value>>

/** No two of the fields name the keys. */
export const KEY_SOURCE_EXCLUSIVE = ['jwksURI', 'jwksFile'] as const

/**
 * `issuer`: the address where discovery would begin; null where it is a mistake. `deployed`: the Worker will be a
 * deployed one, which honours no `caFile` by itself. Null where the keys cannot be had so.
 */
export function compileKeySource(
  reader: Reader,
  { jwksURI, jwksFile, caFile, binding }: FieldsOf<typeof KEY_SOURCE_FIELDS>,
  issuer: (Place & { readonly value: string }) | null,
  deployed: boolean,
): KeyAccess | null {
  // A mistake only for a deployed Worker. For others, `kubernetesNotes` says what a deploy will need.
  if (deployed && jwksFile === undefined && binding === undefined) {
    if (caFile === undefined) checkReachable(reader, jwksURI ?? issuer)
    else {
      const why = 'a deployed Worker trusts no private CA: set binding (Workers VPC) or jwksFile'
      reader.fault(caFile, `${caFile.path}: ${why}`)
    }
  }
  const keys = keysOf(jwksURI, jwksFile)
  return keys && { keys, ca: caFile?.value ?? null, binding: binding?.value ?? null }
}

function keysOf(
  uri: FieldsOf<typeof KEY_SOURCE_FIELDS>['jwksURI'],
  file: FieldsOf<typeof KEY_SOURCE_FIELDS>['jwksFile'],
): KeySource | null {
  if (file !== undefined) return file.value && { from: 'file', jwks: file.value }
  if (uri !== undefined) return uri.value === null ? null : { from: 'uri', uri: uri.value }
  return { from: 'discovery' }
}

/** What a deployed Worker fetches by itself must be on the public internet, under a name. */
function checkReachable(reader: Reader, address: (Place & { readonly value: string | null }) | null): void {
  if (address === null || address.value === null || !isPrivateAddress(address.value)) return
  reader.fault(
    address,
    `${address.path} ${quote(address.value)} is private, and a deployed Worker reaches the public internet alone: set binding (Workers VPC), jwksFile or a public jwksURI`,
  )
}

function parseKeyFile(content: Uint8Array): Result<FileReading<JsonObject>, string> {
  const json = readJson(content)
  const jwks = json.ok && isObject(json.value) ? json.value : null
  if (jwks === null || !Array.isArray(jwks.keys)) return err('is not a JWK Set: {"keys":[…]}')
  const { keys } = jwks
  if (keys.length > KEY_SET_KEYS) return err(`has ${keys.length} keys; at most ${KEY_SET_KEYS} are taken`)
  // The file is bundled with the Worker: what was published by mistake must not go along.
  if (keys.some((key) => isObject(key) && isPrivateJwk(key)))
    return err('holds a private key: give the public keys only')
  return keys.some((key) => (parseJwk(key)?.kid ?? null) !== null)
    ? ok({ value: jwks, notes: [] })
    : err('holds no key that could verify a token: RSA of 2048 to 8192 bits or EC P-256, for signatures, with a kid')
}

function parseCaFile(content: Uint8Array, isCertificate: IsCertificate): Result<FileReading<string>, string> {
  const pem = new TextDecoder().decode(content)
  if (pem.includes('PRIVATE KEY')) return err('holds a private key: give the CA certificate only')
  const bundle = parseCertificateBundle(pem, CA_FILE_CERTIFICATES, isCertificate)
  if (!bundle.ok) return err(`is cut, or no CA certificate in PEM: ${bundle.error}`)
  const { certificates, passedOver } = bundle.value
  return ok({
    value: certificates.map((der) => encodePem('CERTIFICATE', der)).join(''),
    notes: passedOver.map((fault) => `${fault}: it is passed over`),
  })
}

// Where a cluster's keys come from: `jwksURI`, `jwksFile`, `caFile` and `binding` of its entry. Pure; files are given.

import { quote } from '../protocol/labels.ts'
import { KEY_SET_KEYS } from '../protocol/limits.ts'
import { isObject, type Json, type JsonObject, readJson } from '../protocol/strict-json.ts'
import type { Cluster, KeySource } from './compiled.ts'
import type { Field, Fields, Reader } from './document.ts'
import { httpsFault, isBindingName, isPrivateAddress } from './grammar.ts'
import type { Origin } from './issuer.ts'

/** Reads a file that the trust file names, relative to it; a fault is a sentence. */
export type ReadFile = (path: string) => Uint8Array | { readonly fault: string }

export interface KeySourceContext {
  readonly readFile: ReadFile
  /** Whether the Worker will be a deployed one, which honours no `caFile` by itself. */
  readonly deployed: boolean
}

type Sources = Pick<Cluster, 'keys' | 'ca' | 'binding'>

/** Null where the keys cannot be had so. */
export function readKeySource(
  reader: Reader,
  fields: Fields<'cluster'>,
  origin: Origin | null,
  { readFile, deployed }: KeySourceContext,
): Sources | null {
  const uri = reader.present(fields.jwksURI)
  const file = reader.present(fields.jwksFile)
  const caFile = reader.present(fields.caFile)
  const binding = reader.present(fields.binding)
  const fromUri = uri && readUri(reader, uri)
  const fromFile = file && readKeyFile(reader, file, readFile)
  const ca = caFile && readCa(reader, caFile, readFile)
  const bindingName = binding && reader.checked(binding, isBindingName, 'the name of a binding in wrangler.toml')
  if (uri !== null && file !== null) reader.fault(file, `${file.path} and jwksURI exclude each other: leave one out`)
  const keys = keysOf(uri, fromUri, file, fromFile)
  if (file === null && binding === null) {
    if (caFile === null) checkReachable(reader, uri, fromUri, origin)
    else if (deployed) {
      reader.fault(
        caFile,
        `${caFile.path}: a deployed Worker trusts no private CA: set binding (Workers VPC) or jwksFile`,
      )
    }
  }
  return keys && { keys, ca, binding: bindingName }
}

function keysOf(uri: Field | null, read: string | null, file: Field | null, jwks: JsonObject | null): KeySource | null {
  if (file !== null) return jwks && { from: 'file', jwks }
  if (uri !== null) return read === null ? null : { from: 'uri', uri: read }
  return { from: 'discovery' }
}

/** What a Worker fetches by itself must be on the public internet, under a name. */
function checkReachable(reader: Reader, uri: Field | null, read: string | null, origin: Origin | null): void {
  const field = uri ?? origin?.field
  const address = uri === null ? origin?.issuer : read
  if (!field || !address || !isPrivateAddress(address)) return
  reader.fault(
    field,
    `${field.path} ${quote(address)} cannot be fetched by a Worker: set jwksFile, binding or a public jwksURI (or caFile, for \`muster dev\`)`,
  )
}

function readUri(reader: Reader, field: Field): string | null {
  const uri = reader.text(field)
  if (uri === null) return null
  const fault = httpsFault(uri)
  return fault === null ? uri : reader.fault(field, `${field.path} ${quote(uri)} ${fault}`)
}

function readKeyFile(reader: Reader, field: Field, readFile: ReadFile): JsonObject | null {
  const path = reader.text(field)
  if (path === null) return null
  const bytes = readFile(path)
  const json = 'fault' in bytes ? null : readJson(bytes)
  const jwks = json?.ok && isObject(json.value) ? json.value : null
  const fault = 'fault' in bytes ? bytes.fault : jwks === null ? NO_KEY_SET : keySetFault(jwks)
  return fault === null ? jwks : reader.fault(field, `${field.path} ${quote(path)} ${fault}`)
}

const NO_KEY_SET = 'is not a JWK Set: {"keys":[…]}'
/** RFC 7518 §6.2.2, §6.3.2, §6.4: any of these is a private or a symmetric key. */
const PRIVATE_MEMBERS = ['d', 'p', 'q', 'dp', 'dq', 'qi', 'oth', 'k']

function keySetFault({ keys }: JsonObject): string | null {
  if (!Array.isArray(keys)) return NO_KEY_SET
  if (keys.length > KEY_SET_KEYS) return `has ${keys.length} keys; at most ${KEY_SET_KEYS} are taken`
  // The file is bundled with the Worker: what was published by mistake must not go along.
  if (keys.some((key) => isObject(key) && PRIVATE_MEMBERS.some((name) => Object.hasOwn(key, name))))
    return 'holds a private key: give the public keys only'
  return keys.some(mayVerify) ? null : 'holds no key that could verify a token: RSA or EC P-256, with a kid'
}

/** Whether a key has the form of one that is used; the key set's own reader judges it in full. */
function mayVerify(key: Json): boolean {
  if (!isObject(key) || typeof key.kid !== 'string' || key.kid === '') return false
  if (key.use !== undefined && key.use !== 'sig') return false
  if (key.kty === 'RSA') return hasText(key, ['n', 'e']) && (key.alg === undefined || key.alg === 'RS256')
  return (
    key.kty === 'EC' &&
    key.crv === 'P-256' &&
    hasText(key, ['x', 'y']) &&
    (key.alg === undefined || key.alg === 'ES256')
  )
}

const hasText = (key: JsonObject, names: readonly string[]): boolean =>
  names.every((name) => typeof key[name] === 'string' && key[name] !== '')

function readCa(reader: Reader, field: Field, readFile: ReadFile): string | null {
  const path = reader.text(field)
  if (path === null) return null
  const bytes = readFile(path)
  const pem = 'fault' in bytes ? null : new TextDecoder().decode(bytes)
  const fault = 'fault' in bytes ? bytes.fault : caFault(pem ?? '')
  return fault === null ? pem : reader.fault(field, `${field.path} ${quote(path)} ${fault}`)
}

const [BEGIN, END] = ['-----BEGIN CERTIFICATE-----', '-----END CERTIFICATE-----']

/** CA files hold words beside their blocks (`openssl`, Debian's bundle); only the blocks are read. */
function caFault(pem: string): string | null {
  if (pem.includes('PRIVATE KEY')) return 'holds a private key: give the CA certificate only'
  const blocks = pem.split(BEGIN).slice(1)
  if (blocks.length === 0) return 'holds no certificate in PEM'
  return blocks.every((block) => block.includes(END) && isDer(block.split(END, 1)[0] ?? ''))
    ? null
    : 'holds a certificate that is cut or is not PEM'
}

/** Base64 of something that begins as a DER SEQUENCE does. */
function isDer(base64: string): boolean {
  try {
    return atob(base64).charCodeAt(0) === 0x30
  } catch {
    return false
  }
}

// The certificate of a profile, built once by the library, with the places that differ from leaf to leaf.

import 'reflect-metadata'
import {
  AuthorityKeyIdentifierExtension,
  BasicConstraintsExtension,
  ExtendedKeyUsageExtension,
  Extension,
  KeyUsageFlags,
  KeyUsagesExtension,
  Name,
  PublicKey,
  SubjectAlternativeNameExtension,
  SubjectKeyIdentifierExtension,
  X509CertificateGenerator,
} from '@peculiar/x509'
import { type Bytes, hex, utf8 } from '../../protocol/base64url.ts'
import { parseDer } from '../../protocol/der.ts'
import type { EpochSeconds } from '../../protocol/time.ts'
import type { Authority } from './authority.ts'
import { KEY_IDENTIFIER_BYTES } from './key-identifier.ts'
import { OID } from './oids.ts'
import { SIGNING } from './private-key.ts'
import { type Grant, SERIAL_BYTES, saysNoRevAvail } from './profile.ts'
import { p256SpkiOf } from './public-key.ts'
import { encodeTime, isGeneralized } from './text.ts'

/** A to-be-signed certificate and where to write what is a leaf's own. */
export interface Template {
  readonly tbs: Bytes
  readonly slots: Readonly<Record<Slot, number>>
}

export type Slot = 'serial' | 'validity' | 'enrollmentId' | 'point' | 'keyIdentifier'

/** Octets of each slot. `validity` differs with the form of its times. */
export type Fillings = Readonly<Record<Slot, Uint8Array>>

/** A Worker serves few tenants at a time; a template is 600 octets and costs 3 ms to build. */
const MAX_TEMPLATES = 500

/** The template of a grant's profile: from the authority's own, or built and kept there. */
export async function templateFor(authority: Authority, grant: Grant): Promise<Template> {
  const key = profileKey(grant)
  const kept = authority.templates.get(key)
  if (kept !== undefined) return kept
  const template = await buildTemplate(authority, grant)
  const [oldest] = authority.templates.keys()
  if (authority.templates.size >= MAX_TEMPLATES && oldest !== undefined) authority.templates.delete(oldest)
  authority.templates.set(key, template)
  return template
}

/** Tenant first. An authority has one issuing key, so the key needs no part for it. */
const profileKey = (grant: Grant): string =>
  [
    grant.tenant,
    grant.spiffeId,
    grant.organizationalUnit,
    saysNoRevAvail(grant),
    isGeneralized(grant.notBefore),
    isGeneralized(grant.notAfter),
  ].join('\n')

/** The contents of Validity. */
export function encodeValidity(notBefore: EpochSeconds, notAfter: EpochSeconds): Bytes {
  const [from, to] = [encodeTime(notBefore), encodeTime(notAfter)]
  const validity = new Uint8Array(from.length + to.length)
  validity.set(from)
  validity.set(to, from.length)
  return validity
}

/** The profile with random octets in every slot, each found exactly once. */
async function buildTemplate(authority: Authority, grant: Grant): Promise<Template> {
  const random = (length: number) => crypto.getRandomValues(new Uint8Array(length))
  const fillings: Fillings = {
    serial: Uint8Array.of(0x40, ...random(SERIAL_BYTES - 1)),
    validity: encodeValidity(grant.notBefore, grant.notAfter),
    enrollmentId: utf8(hex(random(18))),
    point: Uint8Array.of(0x04, ...random(64)),
    keyIdentifier: random(KEY_IDENTIFIER_BYTES),
  }
  const tbs = await buildLeaf(authority, grant, fillings)
  return {
    tbs,
    slots: {
      serial: onlyPlace(tbs, fillings.serial),
      validity: onlyPlace(tbs, fillings.validity),
      enrollmentId: onlyPlace(tbs, fillings.enrollmentId),
      point: onlyPlace(tbs, fillings.point),
      keyIdentifier: onlyPlace(tbs, fillings.keyIdentifier),
    },
  }
}

/** The library's to-be-signed certificate of a profile; the tests hold every filled template against it. */
export async function buildLeaf(
  authority: Authority,
  grant: Omit<Grant, 'serial' | 'enrollmentId' | 'spki'>,
  fillings: Fillings,
): Promise<Bytes> {
  const { certificate } = authority.issuing
  const leaf = await X509CertificateGenerator.create({
    serialNumber: hex(fillings.serial),
    issuer: new Name(certificate.subject),
    subject: [
      { O: [grant.tenant] },
      { OU: [grant.organizationalUnit] },
      { CN: [new TextDecoder().decode(fillings.enrollmentId)] },
    ],
    notBefore: new Date(grant.notBefore * 1000),
    notAfter: new Date(grant.notAfter * 1000),
    publicKey: new PublicKey(p256SpkiOf(fillings.point.subarray(0))),
    signingAlgorithm: { name: 'ECDSA', hash: SIGNING[authority.signer.curve].hash },
    // Dropped: only what is to be signed is taken.
    signature: new Uint8Array(SIGNING[authority.signer.curve].octets * 2).fill(1),
    extensions: [
      new BasicConstraintsExtension(false, undefined, true),
      new KeyUsagesExtension(KeyUsageFlags.digitalSignature, true),
      new ExtendedKeyUsageExtension([OID.clientAuth, OID.serverAuth]),
      new SubjectKeyIdentifierExtension(hex(fillings.keyIdentifier)),
      new AuthorityKeyIdentifierExtension(authority.issuerKeyId),
      new SubjectAlternativeNameExtension([{ type: 'url', value: grant.spiffeId }]),
      ...(saysNoRevAvail(grant) ? [new Extension(OID.noRevAvail, false, NULL)] : []),
    ],
  })
  const tbs = parseDer(new Uint8Array(leaf.rawData))?.children[0]
  if (tbs === undefined) throw new Error('the library built something other than a certificate')
  return tbs.bytes
}

/** Where `octets` stand in `tbs`. A second place would be filled with another's values, so there must be none. */
function onlyPlace(tbs: Bytes, octets: Uint8Array): number {
  const text = hex(tbs)
  const sought = hex(octets)
  const places: number[] = []
  for (let at = text.indexOf(sought); at >= 0; at = text.indexOf(sought, at + 1)) if (at % 2 === 0) places.push(at / 2)
  const [place] = places
  if (place === undefined || places.length > 1) throw new Error(`a slot of the template has ${places.length} places`)
  return place
}

const NULL = Uint8Array.of(0x05, 0x00)

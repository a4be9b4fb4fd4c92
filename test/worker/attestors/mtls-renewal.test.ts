// Tests `mtls-renewal` as an attestor: the contract of all, and that only the key's holder learns what else is wrong.
import 'reflect-metadata'
import { expect, test } from 'vitest'
import { encodeBase64url, utf8 } from '../../../src/protocol/bytes.ts'
import { refuse } from '../../../src/protocol/refusals.ts'
import { addSeconds, epochSeconds, seconds } from '../../../src/protocol/time.ts'
import { mtlsRenewal } from '../../../src/worker/attestors/mtls-renewal.ts'
import { loadAuthority } from '../../../src/worker/ca/authority.ts'
import { presentedDer, renewalRefusal, verifyPresented } from '../../../src/worker/ca/presented.ts'
import { forgeCa, forgeLeaf, type Issuer, pem } from '../../fakes/ca-forge.ts'
import { evidenceContract } from './contract.ts'

const NOW = epochSeconds(Date.parse('2026-03-01T12:00:00Z') / 1000)
const ENDS = epochSeconds(Date.parse('2026-03-01T12:15:00Z') / 1000)
const NONCE = 'N'.repeat(64)

const issuer = await forgeCa()
const loaded = await loadAuthority({ caKey: issuer.keyPem, caCert: issuer.pem, allowDevelopment: false })
if (!loaded.ok) throw new Error(loaded.error.detail)
const authority = loaded.value

const attestor = mtlsRenewal({
  verify: async (text) => {
    const der = presentedDer(text)
    return der === null ? refuse('certificate_invalid') : verifyPresented(authority, ['rootpilot'], der)
  },
  renewalRefusal,
})

/** A certificate of `by`, and `nonce` signed with its key. */
async function evidenceOf({ by = issuer, nonce = NONCE }: { by?: Issuer; nonce?: string } = {}) {
  const { keys, der } = await forgeLeaf(by)
  const signature = await crypto.subtle.sign({ name: 'ECDSA', hash: 'SHA-256' }, keys.privateKey, utf8(nonce))
  return { certificate: pem('CERTIFICATE', der), signature: encodeBase64url(new Uint8Array(signature)) }
}

evidenceContract('mtls-renewal', async () => ({
  attestor,
  evidence: await evidenceOf(),
  now: NOW,
  challengeNonce: NONCE,
  pem: ['certificate'],
}))

const appraise = async (evidence: Awaited<ReturnType<typeof evidenceOf>>, now = NOW) => {
  const result = await attestor.appraise(evidence, { now, challengeNonce: NONCE, address: '192.0.2.1' })
  return result.ok ? result.value.mode : result.error.reason
}

test('whoever signed another nonce, or holds a certificate of another CA, renews nothing', async () => {
  expect(await appraise(await evidenceOf({ nonce: 'M'.repeat(64) }))).toBe('renewal_signature')
  expect(await appraise(await evidenceOf({ by: await forgeCa() }))).toBe('certificate_invalid')
})

test('the window is named to the key’s holder alone', async () => {
  const late = addSeconds(ENDS, seconds(361))
  expect(await appraise(await evidenceOf(), addSeconds(ENDS, seconds(360)))).toBe('mtls-renewal')
  expect(await appraise(await evidenceOf(), late)).toBe('renewal_window')
  expect(await appraise(await evidenceOf({ nonce: 'M'.repeat(64) }), late)).toBe('renewal_signature')
})

// The tests that every attestor must pass. A mode's test file calls `attestorContract` and adds its own; that of renewal,
// which proves a certificate and no claims, calls `evidenceContract`.
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { parseEvidence } from '../../../src/protocol/enroll.ts'
import { REASONS } from '../../../src/protocol/reasons.ts'
import { ATTESTATION_INVALID, type Outcome, problemOf, type Refusal } from '../../../src/protocol/refusals.ts'
import type { Fields } from '../../../src/protocol/shape.ts'
import type { JsonObject } from '../../../src/protocol/strict-json.ts'
import { type EpochSeconds, epochSeconds } from '../../../src/protocol/time.ts'
import type { CompiledTrust } from '../../../src/trust/compiled.ts'
import { decide } from '../../../src/trust/decide.ts'
import type { Claims } from '../../../src/trust/modes/registry.ts'
import type { Attestor } from '../../../src/worker/attestors/attestor.ts'

export interface EvidenceSubject<P = unknown> {
  readonly attestor: Attestor<Fields, P>
  /** Evidence that is accepted, and the other inputs of the attestor. */
  readonly evidence: JsonObject
  readonly now: EpochSeconds
  readonly challengeNonce?: string
  /** Fields in PEM: text around the block changes nothing, so that a spoiled one may prove the same. */
  readonly pem?: readonly string[]
}

export interface ContractSubject extends EvidenceSubject<Claims> {
  /** A trust file that gives the proven claims a tenant. */
  readonly trust: CompiledTrust
}

/** Runs the suite; `make` gives a fresh subject, so that no test depends on another. */
export function attestorContract(mode: string, make: () => Promise<ContractSubject>): void {
  evidenceContract(mode, make)
  describe(`the contract for claims: ${mode}`, () => {
    test('the claims survive storage and the trust file gives them a tenant', async () => {
      const subject = await make()
      const { claims, decision } = await accepted(subject)
      expect(JSON.parse(JSON.stringify(claims))).toEqual(claims)
      expect(subject.trust.tenants).toContain(decision.tenant)
    })

    test('the claims are facts, not an identity', async () => {
      const { claims } = await accepted(await make())
      for (const name of ['spiffeId', 'enrollmentId', 'serial', 'instanceId', 'certificate']) {
        expect(claims).not.toHaveProperty(name)
      }
    })

    test('without a word in the trust file the claims are worth nothing', async () => {
      const subject = await make()
      const { claims } = await accepted(subject)
      expect(decide({ ...subject.trust, tenants: [], awsMappings: [], kubernetesMappings: [] }, claims).ok).toBe(false)
    })
  })
}

/** The part of the suite that is about evidence alone. */
export function evidenceContract(mode: string, make: () => Promise<EvidenceSubject>): void {
  describe(`the attestor contract: ${mode}`, () => {
    test('good evidence is accepted, twice: appraising consumes nothing', async () => {
      const subject = await make()
      const first = await appraise(subject, subject.evidence)
      expect(first.ok).toBe(true)
      expect(await appraise(subject, subject.evidence)).toEqual(first)
    })

    test('evidence of another shape is refused by the field', async () => {
      const { attestor, evidence } = await make()
      for (const [field, { type }] of Object.entries(attestor.fields.entries)) {
        const { [field]: _, ...without } = evidence
        const wrong = [null, 1, true, [], type === 'string' ? {} : 'text', type !== 'string' ? { a: 1 } : ['a']]
        for (const given of [without, ...wrong.map((value) => ({ ...evidence, [field]: value }))]) {
          const result = parseEvidence(attestor.fields, given)
          expect(result).toMatchObject({ ok: false, error: { reason: 'body_malformed' } })
          expect(refusalOf(result).detail).toContain(field)
        }
      }
      expect(parseEvidence(attestor.fields, { ...evidence, more: 'x' }).ok).toBe(false)
    })

    test('garbage in any field is refused, never thrown at', async () => {
      const subject = await make()
      for (const evidence of await spoiled(subject)) await refused(subject, evidence)
    })

    test('random text in any field is refused, never thrown at', async () => {
      const subject = await make()
      for (const [field, { type }] of Object.entries(subject.attestor.fields.entries)) {
        const values = type === 'string' ? fc.string({ unit: 'binary' }) : fc.dictionary(fc.string(), fc.string())
        await fc.assert(
          fc.asyncProperty(values, async (value) => {
            await refused(subject, { ...subject.evidence, [field]: value })
          }),
          { numRuns: 50 },
        )
      }
    })

    test('no refusal repeats the evidence', async () => {
      const subject = await make()
      for (const evidence of await spoiled(subject)) {
        const body = JSON.stringify(await refused(subject, evidence))
        for (const text of texts(evidence)) if (text.trim().length >= 32) expect(body).not.toContain(text.slice(0, 32))
      }
    })

    test('every refusal has the same public text', async () => {
      const subject = await make()
      for (const evidence of await spoiled(subject)) {
        const refusal = await refused(subject, evidence)
        if (refusal.acceptedRegions !== undefined) continue
        const { problem } = problemOf(refusal, 'id', epochSeconds(0))
        expect(problem).toEqual(problemOf({ reason: 'token_unknown' }, 'id', epochSeconds(0)).problem)
        expect(problem.detail).toBe(ATTESTATION_INVALID)
      }
    })

    test('a megabyte in any field is refused', async () => {
      const subject = await make()
      for (const piece of ['.', 'a', 'A.', '{"', '%00']) {
        for (const evidence of filled(subject, piece.repeat(1024 * 1024))) await refused(subject, evidence)
      }
    })
  })
}

const GARBAGE = [
  '',
  ' ',
  '.',
  '..',
  '...',
  'a.b.c',
  '\u0000',
  '\r\n',
  'null',
  '{}',
  '[]',
  '__proto__',
  '../../etc/passwd',
  '%2e%2e%2f',
  'muster_bt_',
  `muster_rt_${'A'.repeat(43)}`,
  `muster_bt_${'A'.repeat(43)}`,
  '\u202eabc',
  '\ud800',
  '💥'.repeat(100),
  'eyJhbGciOiJub25lIn0.e30.',
]

/** The good evidence with one field spoiled: emptied, replaced, cut, doubled, padded, one character changed. */
async function spoiled(subject: EvidenceSubject): Promise<JsonObject[]> {
  const { evidence } = subject
  const changed = Object.entries(evidence).flatMap(([field, value]) => {
    if (typeof value !== 'string') return []
    const middle = Math.floor(value.length / 2)
    const other = value[middle] === 'A' ? 'B' : 'A'
    const spoilt = [
      value.slice(0, -1),
      value.slice(1),
      value.slice(0, middle),
      value + value,
      `${value}.`,
      `${value}=`,
      ` ${value}`,
      `${value}\n`,
      `"${value}"`,
      `Bearer ${value}`,
      value.slice(0, middle) + other + value.slice(middle + 1),
    ]
    return spoilt.map((text) => ({ field, given: { ...evidence, [field]: text } }))
  })
  const good = JSON.stringify(await appraise(subject, evidence))
  const worse: JsonObject[] = []
  for (const { field, given } of changed) {
    const isSame = subject.pem?.includes(field) && JSON.stringify(await appraise(subject, given)) === good
    if (!isSame) worse.push(given)
  }
  return [...worse, ...GARBAGE.flatMap((text) => filled(subject, text))]
}

/** The good evidence with one field after the other set to `text`. */
const filled = ({ attestor, evidence }: EvidenceSubject, text: string): JsonObject[] =>
  Object.entries(attestor.fields.entries).map(([field, { type }]) => ({
    ...evidence,
    [field]: type === 'string' ? text : { [text]: text },
  }))

const texts = (evidence: JsonObject): string[] =>
  Object.values(evidence).flatMap((value) =>
    typeof value === 'string' ? [value] : Object.values(value as JsonObject).map(String),
  )

async function appraise<P>(subject: EvidenceSubject<P>, given: JsonObject): Promise<Outcome<P>> {
  const { attestor, now, challengeNonce = 'A'.repeat(64) } = subject
  const evidence = parseEvidence(attestor.fields, given)
  return evidence.ok ? attestor.appraise(evidence.value, { now, challengeNonce, address: '192.0.2.1' }) : evidence
}

async function accepted(subject: ContractSubject) {
  const result = await appraise(subject, subject.evidence)
  if (!result.ok) throw new Error(`good evidence was refused: ${result.error.reason}`)
  const decision = decide(subject.trust, result.value)
  if (!decision.ok) throw new Error(`the trust file gives no tenant: ${decision.error.reason}`)
  return { claims: result.value, decision: decision.value }
}

async function refused(subject: EvidenceSubject, evidence: JsonObject): Promise<Refusal> {
  const refusal = refusalOf(await appraise(subject, evidence))
  expect(REASONS[refusal.reason]).toBe('attestation_invalid')
  return refusal
}

function refusalOf(result: Outcome<unknown>): Refusal {
  expect(result.ok).toBe(false)
  if (result.ok) throw new Error('unreachable')
  return result.error
}

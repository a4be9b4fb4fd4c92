// Tests that the documents name what the code has and no more: docs/protocol.md its paths, refusal codes, close codes and
// modes; docs/trust-file.md the fields of the top level with their defaults; docs/operations.md what requests cost;
// docs/contributing.md the commands that measure. Examples of two pages fit together.
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { parse } from 'yaml'
import { dollarsPerMillion } from '../../bench/cost.ts'
import { CONFIGURABLE_MODES } from '../../src/protocol/modes.ts'
import * as paths from '../../src/protocol/paths.ts'
import { isReason, REASONS, type Reason } from '../../src/protocol/reasons.ts'
import { statusOf } from '../../src/protocol/refusals.ts'
import { err } from '../../src/protocol/result.ts'
import { CLIENT_CERT_HEADER, PROOF_HEADER, proofText, TUNNEL_CLOSE } from '../../src/protocol/tunnel.ts'
import { compileTrust } from '../../src/trust/compile.ts'
import { TRUST_FILE } from '../../src/trust/file.ts'
import { PROJECT } from './processes.ts'

const documentOf = (name: string): string => readFileSync(join(PROJECT, 'docs', name), 'utf8')

/** The rows of the first table whose first column has this heading. */
function tableOf(document: string, heading: string): string[][] {
  const lines = document.split('\n')
  const start = lines.findIndex((line) => line.startsWith(`| ${heading} |`))
  const rows = lines.slice(start + 2)
  return rows.slice(0, rows.indexOf('')).map((line) => line.split('|').map((cell) => cell.trim()))
}

const quoted = (text = ''): string[] => [...text.matchAll(/`([^`]+)`/g)].map(([, inside = '']) => inside)

describe('the protocol', () => {
  const document = documentOf('protocol.md')
  test('names every refusal code with its status', () => {
    const reasons: Reason[] = Object.keys(REASONS).filter(isReason)
    const answered = reasons.map((reason) => `${REASONS[reason]} ${statusOf({ reason })}`)
    const named = tableOf(document, '`code`').map(([, code, status]) => `${quoted(code)[0]} ${status}`)
    expect(named.toSorted()).toEqual([...new Set(answered)].toSorted())
  })

  test('names every path', () => {
    const { PROVISIONED_FILES: _, SCHEDULED_PATH: onlyLocal, ...others } = paths
    const named = tableOf(document, 'path').flatMap(([, cell]) => quoted(cell).map((route) => route.split(' ')[1]))
    expect(named.toSorted()).toEqual(Object.values(others).toSorted())
    expect(document).not.toContain(onlyLocal)
  })

  test('names every mode of a request', () => {
    const named = tableOf(document, '`mode`').flatMap(([, cell]) => quoted(cell))
    expect(named.toSorted()).toEqual([...CONFIGURABLE_MODES, 'mtls-renewal'].toSorted())
  })

  test('says how a tunnel is proven and closed', () => {
    const codes = tableOf(document, 'close code').map(([, code]) => Number(code))
    expect(codes.filter((code) => !Number.isNaN(code))).toEqual(Object.values(TUNNEL_CLOSE).toSorted())
    const unindented = document.replaceAll('\n   ', '\n')
    expect(unindented).toContain(`\n${proofText('<host>', '<challenge>')}\n`)
    expect(unindented).toContain(`\n${CLIENT_CERT_HEADER}: `)
    expect(unindented).toContain(`\n${PROOF_HEADER}: `)
  })
})

/** `a.b` for a field of an object, without what stands in a list. */
function declared(fields: object, prefix = ''): string[] {
  return Object.entries(fields).flatMap(([name, value]) =>
    value.kind === 'object'
      ? declared(value.fields, `${prefix}${name}.`)
      : [`${prefix}${name} ${written(value.default)}`],
  )
}
const written = (value: string | readonly string[]): string =>
  typeof value === 'string' ? value : value.length === 0 ? 'none' : value.join(' ')

test('the page on the trust file has every field of its top level with its default', () => {
  const named = tableOf(documentOf('trust-file.md'), 'field').map(([, field, , value]) => {
    const values = quoted(value)
    return `${quoted(field)[0]} ${values.length === 0 ? value : values.join(' ')}`
  })
  expect(named.toSorted()).toEqual(declared(TRUST_FILE.fields).toSorted())
})

/** The blocks of this language in a document. */
const blocksOf = (document: string, language: string): string[] =>
  [...document.matchAll(RegExp(`\\n\`\`\`${language}\\n([^\`]*)\`\`\``, 'g'))].map(([, block = '']) => block)

test('the DaemonSet of the runner page projects a token that the cluster entry of the attestation page takes', async () => {
  const entry = blocksOf(documentOf('attestation.md'), 'yaml').find((block) => block.startsWith('clusters:')) ?? ''
  const compiled = await compileTrust(new TextEncoder().encode(entry), {
    deployed: false,
    readFile: () => err('does not exist'),
    isCertificate: () => false,
  })
  const cluster = compiled.ok ? compiled.value.trust.clusters[0] : undefined
  const [daemonSet = ''] = blocksOf(documentOf('runner.md'), 'yaml').filter((block) => block.includes('DaemonSet'))
  const { metadata, spec } = parse(daemonSet)
  const pod = spec.template.spec
  const { serviceAccountToken: token } = pod.volumes[0].projected.sources[0]
  expect({ namespace: metadata.namespace, serviceAccount: pod.serviceAccountName }).toEqual(cluster?.workload)
  expect(cluster?.audiences).toContain(token.audience)
  expect(token.expirationSeconds).toBeLessThanOrEqual(cluster?.maxTokenLifetime ?? 0)
})

describe('the costs', () => {
  const asked = { waited: 0, calls: 0, statements: 0, rowsRead: 0, rowsWritten: 0, loaded: 0 }
  const none = { d1: asked, object: asked, kv: asked }
  const oneCall = { ...asked, calls: 1, rowsRead: 1 }
  /** Operations as the bench counts them, and milliseconds of CPU. */
  const KINDS: Readonly<Record<string, readonly [Parameters<typeof dollarsPerMillion>[0], number]>> = {
    renewals: [{ ...none, object: { ...oneCall, rowsWritten: 1 } }, 2],
    enrollments: [{ ...none, d1: { ...asked, rowsRead: 18, rowsWritten: 5 } }, 4],
    'enrollments with an AWS identity': [{ ...none, d1: { ...asked, rowsRead: 18, rowsWritten: 4 } }, 4],
    'first renewals': [
      { ...none, d1: { ...asked, rowsRead: 5, rowsWritten: 2 }, object: { ...oneCall, rowsWritten: 2 } },
      4,
    ],
  }
  const rows = tableOf(documentOf('operations.md'), 'a million')

  test('are those of the counted operations at list prices', () => {
    const written = rows.map(([, what = '', ...cells]) => [what.split(':')[0], ...cells.slice(0, 5).map(Number)])
    const computed = Object.entries(KINDS).map(([kind, [counts, cpuMs]]) => {
      const { requests, cpu, objects, rows: ofRows, total } = dollarsPerMillion(counts, cpuMs)
      return [kind, ...[requests, cpu, objects, ofRows, total].map((dollars) => Number(dollars.toFixed(2)))]
    })
    expect(written).toEqual(computed)
  })

  test('are at most 1.60 dollars for a million renewals and 8 for a million enrollments', () => {
    const total = (kind: string) => Number(rows.find(([, what = '']) => what.startsWith(`${kind}:`))?.[6])
    expect(total('renewals')).toBeLessThanOrEqual(1.6)
    expect(total('enrollments')).toBeLessThanOrEqual(8)
  })
})

test('the page for contributors names every command that measures', () => {
  const { scripts } = JSON.parse(readFileSync(join(PROJECT, 'package.json'), 'utf8'))
  const measuring = Object.keys(scripts).filter((name) => name === 'bench' || name.startsWith('bench:'))
  const named = tableOf(documentOf('contributing.md'), 'command').flatMap(([, command]) => quoted(command))
  const missing = measuring.filter((name) => !named.some((command) => command.split(' ')[2] === name))
  expect(missing).toEqual([])
})

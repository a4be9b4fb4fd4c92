// Tests trust files with mistakes that operators make: each loads, or is refused with the place of the mistake.
import { readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { parse } from 'yaml'
import { err } from '../../src/protocol/result.ts'
import { compileTrust } from '../../src/trust/compile.ts'
import { TRUST_FILE } from '../../src/trust/file.ts'
import { schemaDocument } from '../../src/trust/json-schema.ts'
import { schemaFaults } from './json-schema.ts'

const SCHEMA = schemaDocument(TRUST_FILE)

interface Case {
  readonly file: string
  readonly mistakes: number
  /** How the first one begins; null where there is none. */
  readonly first: string | null
}

const FOLDER = new URL('../cases/config/', import.meta.url)
const bytesOf = (file: string): Uint8Array => readFileSync(new URL(file, FOLDER))
const CASES: readonly Case[] = JSON.parse(readFileSync(new URL('index.json', FOLDER), 'utf8'))

const compile = (bytes: Uint8Array) =>
  compileTrust(bytes, { deployed: false, readFile: () => err('does not exist'), isCertificate: () => true })

test.each(CASES)('$file has $mistakes mistakes', async ({ file, mistakes, first }) => {
  const compilation = await compile(bytesOf(file))
  const found = compilation.ok ? [] : compilation.error
  expect(found).toHaveLength(mistakes)
  const [one] = found
  expect(one === undefined ? null : `${one.line}:${one.column}: ${one.message}`.split(' ', 2).join(' ')).toBe(first)
})

test('what stands beside the content changes nothing', async () => {
  const hashes = ['base', 'bom', 'crlf', 'comment-only-change', 'leading-separator', 'no-final-newline'].map(
    async (name) => {
      const compilation = await compile(bytesOf(`${name}.yaml`))
      return compilation.ok ? compilation.value.trust.hash : null
    },
  )
  const [first, ...others] = await Promise.all(hashes)
  expect(first).toMatch(/^[0-9a-f]{64}$/)
  expect(new Set(others)).toEqual(new Set([first]))
})

test.each(CASES.filter(({ mistakes }) => mistakes === 0))('the schema takes $file too', ({ file }) => {
  const text = new TextDecoder().decode(bytesOf(file))
  expect(schemaFaults(SCHEMA, parse(text))).toEqual([])
})

test('the schema takes the example of the documentation, which the compiler takes', async () => {
  const page = readFileSync(new URL('../../docs/trust-file.md', import.meta.url), 'utf8')
  const example = page.split('```yaml\n')[1]?.split('```')[0] ?? ''
  expect(await compile(new TextEncoder().encode(example))).toMatchObject({ ok: true })
  expect(schemaFaults(SCHEMA, parse(example))).toEqual([])
})

test.each([
  'extra: 1',
  'clusters: [{name: a, issuer: "https://a.example.com", extra: 1}]',
  'clusters: [{name: a}]',
  'clusters: [{issuer: "https://a.example.com"}]',
  'clusters: [{name: a, issuer: "https://a.example.com", eks: {region: us-east-1, id: A}}]',
  'clusters: [{name: a, eks: {region: us-east-1}}]',
  'clusters: [{name: a, issuer: "http://a.example.com"}]',
  'clusters: [{name: a, issuer: "https://a.example.com", namespace: n}]',
  'clusters: [{name: a, issuer: "https://a.example.com", audience: []}]',
  'clusters: [{name: a, issuer: "https://a.example.com", maxTokenLifetime: 600}]',
  'clusters: [{name: a, issuer: "https://a.example.com", maxTokenLifetime: 1d}]',
  'clusters: [{name: a, issuer: "https://a.example.com", node: any}]',
  'certificate: {onClone: ignore}',
  'aws: {regions: [us-gov-west-1]}',
  'tenants: [{slug: A}]',
  'tenants: [{slug: a, aws: [{account: 123456789012}]}]',
  'tenants: [{slug: a, aws: [{account: "123456789012", role: r, user: u}]}]',
  'tenants: [{slug: a, kubernetes: [{cluster: c, project: p, namespace: n, serviceAccount: s}]}]',
])('schema and compiler refuse %s', async (text) => {
  expect(schemaFaults(SCHEMA, parse(text))).not.toEqual([])
  expect(await compile(new TextEncoder().encode(text))).toMatchObject({ ok: false })
})

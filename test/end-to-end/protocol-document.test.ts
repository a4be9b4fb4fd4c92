// Tests that docs/protocol.md names every path, refusal code, close code and mode that the code has, and no other.
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { CONFIGURABLE_MODES } from '../../src/protocol/modes.ts'
import * as paths from '../../src/protocol/paths.ts'
import { isReason, REASONS, type Reason } from '../../src/protocol/reasons.ts'
import { statusOf } from '../../src/protocol/refusals.ts'
import { CLIENT_CERT_HEADER, PROOF_HEADER, proofText, TUNNEL_CLOSE } from '../../src/protocol/tunnel.ts'
import { PROJECT } from './processes.ts'

const document = readFileSync(join(PROJECT, 'docs/protocol.md'), 'utf8')

/** The rows of the table whose first column has this heading. */
function tableOf(heading: string): string[][] {
  const lines = document.split('\n')
  const start = lines.findIndex((line) => line.startsWith(`| ${heading} |`))
  const rows = lines.slice(start + 2)
  return rows.slice(0, rows.indexOf('')).map((line) => line.split('|').map((cell) => cell.trim()))
}

const quoted = (text = ''): string[] => [...text.matchAll(/`([^`]+)`/g)].map(([, inside = '']) => inside)

test('it names every refusal code with its status', () => {
  const reasons: Reason[] = Object.keys(REASONS).filter(isReason)
  const answered = reasons.map((reason) => `${REASONS[reason].code} ${statusOf({ reason })}`)
  const named = tableOf('`code`').map(([, code, status]) => `${quoted(code)[0]} ${status}`)
  expect(named.toSorted()).toEqual([...new Set(answered)].toSorted())
})

test('it names every path', () => {
  const { PROVISIONED_FILES: _, SCHEDULED_PATH: onlyLocal, ...others } = paths
  const named = tableOf('path').flatMap(([, cell]) => quoted(cell).map((route) => route.split(' ')[1]))
  expect(named.toSorted()).toEqual(Object.values(others).toSorted())
  expect(document).not.toContain(onlyLocal)
})

test('it names every mode of a request', () => {
  const named = tableOf('`mode`').flatMap(([, cell]) => quoted(cell))
  expect(named.toSorted()).toEqual([...CONFIGURABLE_MODES, 'mtls-renewal'].toSorted())
})

test('it says how a tunnel is proven and closed', () => {
  const codes = tableOf('close code').map(([, code]) => Number(code))
  expect(codes.filter((code) => !Number.isNaN(code))).toEqual(Object.values(TUNNEL_CLOSE).toSorted())
  const unindented = document.replaceAll('\n   ', '\n')
  expect(unindented).toContain(`\n${proofText('<host>', '<challenge>')}\n`)
  expect(unindented).toContain(`\n${CLIENT_CERT_HEADER}: `)
  expect(unindented).toContain(`\n${PROOF_HEADER}: `)
})

// Tests that a file is written whole or not at all, and what a failed write leaves behind.

import {
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { removeTemporaries, tryWriting, writeAtomically } from '../../src/node/atomic-file.ts'

let folder = ''
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'muster-atomic-'))
})
afterEach(() => rmSync(folder, { recursive: true, force: true }))

const modeOf = (path: string): number => statSync(path).mode & 0o777

test.each([
  [undefined, 0o600],
  [0o644, 0o644],
])('a file with mode %j has %j, whatever the umask and the file that stood there', (mode, expected) => {
  const path = join(folder, 'identity.json')
  writeFileSync(path, 'old', { mode: 0o666 })
  const umask = process.umask(0o077)
  try {
    writeAtomically(path, 'new', mode)
  } finally {
    process.umask(umask)
  }
  expect(readFileSync(path, 'utf8')).toBe('new')
  expect(modeOf(path)).toBe(expected)
  expect(readdirSync(folder)).toEqual(['identity.json'])
})

test('a link in its place is replaced and what it led to is untouched', () => {
  const other = join(folder, 'other')
  writeFileSync(other, 'theirs')
  symlinkSync(other, join(folder, 'identity.json'))
  writeAtomically(join(folder, 'identity.json'), 'ours')
  expect(readFileSync(other, 'utf8')).toBe('theirs')
  expect(readFileSync(join(folder, 'identity.json'), 'utf8')).toBe('ours')
})

test('a failed rename leaves no file behind', () => {
  mkdirSync(join(folder, 'identity.json/full'), { recursive: true })
  expect(() => writeAtomically(join(folder, 'identity.json'), 'text')).toThrow(/EISDIR|ENOTEMPTY/)
  expect(readdirSync(folder)).toEqual(['identity.json'])
})

test('a trial write has the bytes that were asked for, leaves no file, and fails where a write or the look would', () => {
  let size = 0
  const path = join(folder, 'identity.json')
  tryWriting(path, 16_384, (trial) => {
    size = statSync(trial).size
  })
  expect(size).toBe(16_384)
  expect(readdirSync(folder)).toEqual([])
  expect(() => tryWriting(join(folder, 'missing/identity.json'), 16, () => {})).toThrow('ENOENT')
  const refused = () => {
    throw new Error('refused')
  }
  expect(() => tryWriting(path, 16, refused)).toThrow('refused')
  expect(readdirSync(folder)).toEqual([])
})

test('temporary files of a killed process are removed, and nothing else', () => {
  for (const name of ['a.tmp-17', 'a.tmp-18', 'ab.tmp-17', 'a']) writeFileSync(join(folder, name), '')
  removeTemporaries(join(folder, 'a'))
  expect(readdirSync(folder).sort()).toEqual(['a', 'ab.tmp-17'])
})

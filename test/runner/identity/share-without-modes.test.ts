// Tests that a share on which no mode can be set (SMB) is found at boot, before a token is spent, and its path named.

import fs, { mkdtempSync, readdirSync } from 'node:fs'
import { syncBuiltinESMExports } from 'node:module'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { IdentityStore } from '../../../src/runner/identity/store.ts'

const { fchmodSync } = fs
beforeEach(() => {
  // As Node words it: without a path.
  fs.fchmodSync = () => {
    throw Object.assign(new Error('EPERM: operation not permitted, fchmod'), { code: 'EPERM', syscall: 'fchmod' })
  }
  syncBuiltinESMExports()
})
afterEach(() => {
  fs.fchmodSync = fchmodSync
  syncBuiltinESMExports()
})

test('the folder cannot be written, and the error has call and path', () => {
  const folder = mkdtempSync(join(tmpdir(), 'muster-share-'))
  const { unwritable } = new IdentityStore(folder)
  expect(unwritable).toBeInstanceOf(Error)
  expect(String(unwritable)).toContain('EPERM: operation not permitted, fchmod')
  expect(String(unwritable)).toContain(folder)
  expect(readdirSync(folder)).toEqual([])
})

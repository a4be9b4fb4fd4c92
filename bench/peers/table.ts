// The peers: their programs, the versions that they are built in, and how each is started. Another peer is another row.

import { startCfssl } from './cfssl.ts'
import type { Module } from './modules.ts'
import { startOpenBao } from './openbao.ts'
import type { Place, Product } from './product.ts'
import { startSpire } from './spire.ts'
import { startStepCa } from './step-ca.ts'

export interface Peer {
  readonly name: string
  readonly program: string
  /** Null: its source builds only after changes, so it must be found. */
  readonly module: Module | null
  /** Arguments with which it says its version. */
  readonly version: readonly string[]
  readonly start: (place: Place) => Promise<Product>
}

export const PEERS: readonly Peer[] = [
  {
    name: 'step-ca',
    program: 'step-ca',
    module: {
      path: 'github.com/smallstep/certificates',
      version: 'v0.30.2',
      program: './cmd/step-ca',
      // Without them it wants the C library of smart cards.
      flags: ['-tags', 'noyubikey,nopkcs11'],
    },
    version: ['version'],
    start: startStepCa,
  },
  {
    name: 'SPIRE',
    program: 'spire-server',
    module: { path: 'github.com/spiffe/spire', version: 'v1.13.3', program: './cmd/spire-server', flags: [] },
    version: ['--version'],
    start: startSpire,
  },
  { name: 'OpenBao', program: 'bao', module: null, version: ['version'], start: startOpenBao },
  {
    name: 'cfssl',
    program: 'cfssl',
    // The newest that Go 1.26 builds; its own list of sums is not complete.
    module: { path: 'github.com/cloudflare/cfssl', version: 'v1.6.5', program: './cmd/cfssl', flags: ['-mod=mod'] },
    version: ['version'],
    start: startCfssl,
  },
]

// Collects the identities that the trust file maps to tenants: one identity has one tenant.

import { quote } from '../protocol/characters.ts'
import type { Given, Place } from './declaration.ts'
import type { Reader } from './reader.ts'

/** What one entry under `tenants` says of one mode. */
export interface TenantMappings<M> {
  /** Null: its slug is a mistake, so nothing is mapped. */
  readonly tenant: string | null
  readonly mappings: Given<M>
}

/** The identities mapped so far. */
export class MappedIdentities {
  readonly #tenants = new Map<string, { readonly tenant: string; readonly path: string }>()
  readonly #reader: Reader

  constructor(reader: Reader) {
    this.#reader = reader
  }

  /** Whether the identity is new. A second mapping to the same tenant is ignored, one to another tenant is a mistake. */
  add(identity: string, tenant: string, { path, offset }: Place): boolean {
    const taken = this.#tenants.get(identity)
    if (taken === undefined) this.#tenants.set(identity, { tenant, path })
    else if (taken.tenant !== tenant) {
      const other = `${taken.path} maps it to ${quote(taken.tenant)}`
      this.#reader.fault({ path, offset }, `${path} maps ${identity} to tenant ${quote(tenant)}, but ${other}`)
    }
    return taken === undefined
  }
}

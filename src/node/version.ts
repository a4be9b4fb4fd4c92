// The version of this program, as package.json says it. It stands beside src/ in a checkout, beside dist/ in the package.

import { readFileSync } from 'node:fs'

const { version }: { readonly version: string } = JSON.parse(
  readFileSync(new URL('../../package.json', import.meta.url), 'utf8'),
)

export const VERSION = version

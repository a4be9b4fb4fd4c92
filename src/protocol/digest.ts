// SHA-256 in hexadecimal: how keys, tokens and files are named without being shown. No I/O.

import { type Bytes, hex } from './base64url.ts'

export const sha256Hex = async (bytes: Bytes): Promise<string> =>
  hex(new Uint8Array(await crypto.subtle.digest('SHA-256', bytes)))

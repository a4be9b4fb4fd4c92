// Types of WebCrypto that the Worker's and Node's declarations have under different names.

export type Key = Awaited<ReturnType<typeof crypto.subtle.importKey>>

export interface KeyPair {
  readonly privateKey: Key
  readonly publicKey: Key
}

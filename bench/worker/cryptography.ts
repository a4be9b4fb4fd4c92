// WebCrypto calls on fixed bytes, with keys of the floor Worker's own.

import type { Algorithm, Step } from './replay.ts'

const HASHED = { name: 'ECDSA', hash: 'SHA-256' }
const P256 = { name: 'ECDSA', namedCurve: 'P-256' }
const RSA = {
  name: 'RSASSA-PKCS1-v1_5',
  modulusLength: 2048,
  publicExponent: new Uint8Array([1, 0, 1]),
  hash: 'SHA-256',
}

interface Pair {
  readonly sign: CryptoKey
  readonly verify: CryptoKey
}

export class Cryptography {
  readonly #keys: Readonly<Record<Algorithm, Pair>>
  /** By algorithm and length: the message, and a signature of it that is good. */
  readonly #signed = new Map<string, { readonly message: Uint8Array; readonly signature: ArrayBuffer }>()

  private constructor(keys: Readonly<Record<Algorithm, Pair>>) {
    this.#keys = keys
  }

  static async make(): Promise<Cryptography> {
    const uses: ('sign' | 'verify')[] = ['sign', 'verify']
    const pairOf = (made: CryptoKey | CryptoKeyPair): Pair =>
      'privateKey' in made ? { sign: made.privateKey, verify: made.publicKey } : { sign: made, verify: made }
    return new Cryptography({
      ECDSA: pairOf(await crypto.subtle.generateKey(P256, false, uses)),
      HMAC: pairOf(await crypto.subtle.generateKey({ name: 'HMAC', hash: 'SHA-256' }, false, uses)),
      'RSASSA-PKCS1-v1_5': pairOf(await crypto.subtle.generateKey(RSA, false, uses)),
    })
  }

  async run(step: Extract<Step, { do: 'digest' | 'sign' | 'verify' | 'import' }>): Promise<unknown> {
    switch (step.do) {
      case 'digest':
        return crypto.subtle.digest('SHA-256', new Uint8Array(step.bytes))
      case 'sign':
        return this.#sign(step.algorithm, new Uint8Array(step.bytes))
      case 'verify': {
        const { message, signature } = await this.#known(step.algorithm, step.bytes)
        const { verify } = this.#keys[step.algorithm]
        const good = await crypto.subtle.verify(named(step.algorithm), verify, signature, message)
        if (!good) throw new Error('the floor verified nothing')
        return good
      }
      case 'import':
        return crypto.subtle.importKey('raw', Uint8Array.from(atob(step.point), codeOf), P256, false, ['verify'])
    }
  }

  #sign(algorithm: Algorithm, message: Uint8Array): Promise<ArrayBuffer> {
    return crypto.subtle.sign(named(algorithm), this.#keys[algorithm].sign, message)
  }

  async #known(algorithm: Algorithm, bytes: number) {
    const name = `${algorithm} ${bytes}`
    const known = this.#signed.get(name)
    if (known !== undefined) return known
    const message = new Uint8Array(bytes)
    const made = { message, signature: await this.#sign(algorithm, message) }
    this.#signed.set(name, made)
    return made
  }
}

const named = (algorithm: Algorithm) => (algorithm === 'ECDSA' ? HASHED : algorithm)

const codeOf = (character: string): number => character.charCodeAt(0)

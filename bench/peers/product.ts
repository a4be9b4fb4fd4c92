// What is compared: products, and the ways in which each gives certificates. Types only.

/** Ways of different products that do the same work for their caller. */
export type Pair = 'renewal' | 'bootstrap token' | 'kubernetes token' | 'nothing proven'

/** A certificate that was given, and the CSR that it was given for. PEM; intermediates follow the leaf. */
export interface Issued {
  readonly certificate: string
  readonly csr: string
}

/** Asks for one certificate. Its key, CSR, token and signature are made already. */
export type Work = () => Promise<Issued>

export interface Way {
  readonly pair: Pair
  readonly name: string
  /** What the caller proves itself by, and what the product keeps of it. */
  readonly proven: string
  readonly stored: string
  /** Process ids of the server, without their children. */
  readonly servers: readonly number[]
  /** PEM of the roots that a certificate must lead to. */
  readonly roots: string
  /** What the next run asks for. It is sent in order over each of the connections, `connections` apart. */
  readonly prepare: (count: number) => Promise<Work[]>
}

export interface Product {
  readonly ways: readonly Way[]
  readonly stop: () => Promise<void>
}

/** What could not be measured, and why. */
export interface Missing {
  readonly name: string
  readonly why: string
}

/** What a product is started with. */
export interface Place {
  readonly program: string
  /** An empty folder of its own. */
  readonly folder: string
  readonly connections: number
}

// Just enough DER to write the two certificates of the local edge's TLS port. Writes only, reads nothing.

const tlv = (tag: number, ...contents: Uint8Array[]): Uint8Array => {
  const content = Buffer.concat(contents)
  const length = content.length
  const head =
    length < 0x80 ? [tag, length] : length < 0x100 ? [tag, 0x81, length] : [tag, 0x82, length >> 8, length & 255]
  return Buffer.concat([Uint8Array.from(head), content])
}

export const sequence = (...contents: Uint8Array[]) => tlv(0x30, ...contents)
export const set = (...contents: Uint8Array[]) => tlv(0x31, ...contents)
export const explicit = (number: number, ...contents: Uint8Array[]) => tlv(0xa0 | number, ...contents)
export const implicit = (number: number, content: Uint8Array) => tlv(0x80 | number, content)
export const octets = (content: Uint8Array) => tlv(0x04, content)
export const bits = (content: Uint8Array, unused = 0) => tlv(0x03, Uint8Array.of(unused), content)
/** `content` is big-endian, positive and minimal. */
export const integer = (content: Uint8Array) => tlv(0x02, content)
export const boolean = (value: boolean) => tlv(0x01, Uint8Array.of(value ? 0xff : 0))
export const text = (value: string) => tlv(0x0c, Buffer.from(value, 'utf8'))
/** Years 1950 to 2049 (RFC 5280, 4.1.2.5.1). */
export const utcTime = (time: Date) =>
  tlv(0x17, Buffer.from(`${time.toISOString().replaceAll(/[-:T]/g, '').slice(2, 14)}Z`, 'latin1'))

export function oid(dotted: string): Uint8Array {
  const [first = 0, second = 0, ...rest] = dotted.split('.').map(Number)
  const octetsOf = (n: number): number[] => [...(n >= 128 ? octetsOf(n >> 7).map((o) => o | 0x80) : []), n & 0x7f]
  return tlv(0x06, Uint8Array.from([first * 40 + second, ...rest.flatMap(octetsOf)]))
}

// AWS Signature Version 4 for tests, written from AWS's description of it and held against its published vectors:
// what the fake STS verifies with, and what tests sign odd requests with. Runs in workerd and in Node.

/** A request as it stands on the wire. */
export interface WireRequest {
  readonly method: string
  /** Path and query, as sent. */
  readonly target: string
  /** In order of arrival; a name may stand twice. */
  readonly headers: readonly (readonly [name: string, value: string])[]
  readonly body: string
}

export interface Scope {
  /** `YYYYMMDD` */
  readonly date: string
  readonly region: string
  readonly service: string
}

/** The signature of a request in hex; `signedHeaders` lower case and sorted, `datetime` as in `x-amz-date`. */
export async function signatureOf(
  request: WireRequest,
  signedHeaders: readonly string[],
  datetime: string,
  scope: Scope,
  secret: string,
): Promise<string> {
  const [path = '/', query = ''] = request.target.split('?', 2)
  const canonical = [
    request.method,
    path,
    query.split('&').sort().join('&'),
    ...signedHeaders.map((name) => `${name}:${valuesOf(request, name).map(canonicalValue).join(',')}`),
    '',
    signedHeaders.join(';'),
    hex(await sha256(request.body)),
  ].join('\n')
  const scopeText = `${scope.date}/${scope.region}/${scope.service}/aws4_request`
  const toSign = ['AWS4-HMAC-SHA256', datetime, scopeText, hex(await sha256(canonical))].join('\n')
  let key = bytesOf(`AWS4${secret}`)
  for (const part of [scope.date, scope.region, scope.service, 'aws4_request', toSign]) key = await hmac(key, part)
  return hex(key)
}

export const valuesOf = (request: WireRequest, name: string): string[] =>
  request.headers.filter(([given]) => given.toLowerCase() === name).map(([, value]) => value)

const canonicalValue = (value: string): string => value.trim().replace(/ +/g, ' ')

async function sha256(text: string): Promise<Uint8Array<ArrayBuffer>> {
  return new Uint8Array(await crypto.subtle.digest('SHA-256', bytesOf(text)))
}

async function hmac(key: Uint8Array<ArrayBuffer>, text: string): Promise<Uint8Array<ArrayBuffer>> {
  const imported = await crypto.subtle.importKey('raw', key, { name: 'HMAC', hash: 'SHA-256' }, false, ['sign'])
  return new Uint8Array(await crypto.subtle.sign('HMAC', imported, bytesOf(text)))
}

const bytesOf = (text: string): Uint8Array<ArrayBuffer> => new Uint8Array(new TextEncoder().encode(text))

const hex = (bytes: Uint8Array): string => Array.from(bytes, (byte) => byte.toString(16).padStart(2, '0')).join('')
